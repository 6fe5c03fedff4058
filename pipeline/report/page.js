"use strict";
const compare = (left, right) => {
  const numbers = [Number(left), Number(right)];
  return numbers.some(Number.isNaN) ? left.localeCompare(right) : numbers[0] - numbers[1];
};
const sort = (head) => {
  const table = head.closest("table"), body = table.tBodies[0];
  const column = head.cellIndex, down = head.getAttribute("aria-sort") === "ascending";
  const keyed = Array.from(body.rows, (row) => [row.cells[column].dataset.order, row]);
  keyed.sort(([left], [right]) =>
    // What is missing stays last either way.
    left === "" || right === "" ? (left === "") - (right === "") : (down ? -1 : 1) * compare(left, right));
  table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  body.append(...keyed.map(([, row]) => row));
};
document.querySelectorAll("table.sortable thead tr:last-child th").forEach((head) =>
  head.querySelector("button").addEventListener("click", () => sort(head)));

// A table of more rows than are seen at once can be filtered by words: a row stays if it has all of them.
const FEW_ROWS = 6;
const filter = (table, field, count) => {
  const wanted = field.value.toLowerCase().split(/\s+/), rows = Array.from(table.tBodies[0].rows);
  rows.forEach((row) => { const text = row.textContent.toLowerCase(); row.hidden = !wanted.every((word) => text.includes(word)); });
  count.textContent = field.value.trim() ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
};
document.querySelectorAll("figure.table").forEach((figure) => {
  const table = figure.querySelector("table"), title = figure.querySelector(".wide").getAttribute("aria-label");
  if (table.tBodies[0].rows.length < FEW_ROWS) return;
  const field = document.createElement("input"), count = document.createElement("span");
  Object.assign(field, {type: "search", placeholder: "filter rows", ariaLabel: `Filter the rows of: ${title}`});
  count.setAttribute("role", "status");
  field.addEventListener("input", () => filter(table, field, count));
  figure.querySelector(".tools").append(" ", field, " ", count);
});

const root = document.documentElement, toggle = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
toggle.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });

const textOf = (cell) => cell.textContent.trim();
const rowsOf = (table) => Array.from(table.rows).filter((row) => !row.hidden).map((row) =>
  Array.from(row.cells).flatMap((cell) => [textOf(cell), ...Array(cell.colSpan - 1).fill("")]));
const toCsv = (table) => rowsOf(table).map((row) =>
  row.map((text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text).join(",")).join("\n") + "\n";
const SPECIAL = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$",
  "–": "--", "χ": "$\\chi$", "²": "$^2$", "×": "$\\times$", "√": "$\\sqrt{}$", "∞": "$\\infty$", "<": "$<$", ">": "$>$"};
const escaped = (text) => text.replace(/[\\~^±–χ²×√∞<>]/g, (found) => SPECIAL[found]).replace(/[&%$#_]/g,
  (found, at, whole) => found === "$" ? found : `\\${found}`);
const latex = (text) => text.split("$").map(escaped).join("\\$");
const toLatex = (table) => {
  const body = table.tBodies[0].rows[0], line = (texts) => `  ${texts.join(" & ")} \\\\`;
  const columns = body ? Array.from(body.cells, (cell) => cell.classList.contains("number") ? "r" : "l").join("") : "l";
  const head = Array.from(table.tHead.rows, (row) => line(Array.from(row.cells, (cell) =>
    cell.colSpan > 1 ? `\\multicolumn{${cell.colSpan}}{c}{${latex(textOf(cell))}}` : latex(textOf(cell)))));
  const rows = Array.from(table.tBodies[0].rows).filter((row) => !row.hidden).map((row) => line(Array.from(row.cells, (cell) =>
    cell.querySelector(".best") ? `\\textbf{${latex(textOf(cell))}}` : latex(textOf(cell)))));
  return ["% \\usepackage{booktabs}", `\\begin{tabular}{${columns}}`, "  \\toprule", ...head, "  \\midrule", ...rows,
    "  \\bottomrule", "\\end{tabular}", ""].join("\n");
};
const said = (button, word) => {
  const before = button.dataset.label ??= button.textContent;
  button.textContent = word;
  setTimeout(() => { button.textContent = before; }, 1500);
};
const copy = async (text) => {
  try { await navigator.clipboard.writeText(text); } catch {
    // Without leave for the clipboard, which not every browser gives a file.
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
  return true;
};
document.querySelectorAll("button[data-copy]").forEach((button) => button.addEventListener("click", async () => {
  const table = button.closest("figure").querySelector("table");
  const done = await copy(button.dataset.copy === "csv" ? toCsv(table) : toLatex(table));
  said(button, done ? "copied" : "refused");
}));

const palette = JSON.parse(document.querySelector("main").dataset.palette);
// A figure alone, light on white: with the rules that it uses, and without the page's variables.
const alone = (figure) => {
  const svg = figure.querySelector("svg").cloneNode(true), used = new Set();
  svg.querySelectorAll("[class]").forEach((part) => used.add(`.${part.getAttribute("class")}`));
  const rules = Array.from(document.getElementById("ink").sheet.cssRules).filter((rule) => used.has(rule.selectorText));
  const style = document.createElementNS(svg.namespaceURI, "style");
  style.textContent = rules.map((rule) => rule.cssText).join("\n");
  svg.prepend(style);
  return new XMLSerializer().serializeToString(svg).replace(/var\((--\w+)\)/g, (found, name) => palette[name] ?? found);
};
const download = (url, name) => {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
};
const toPng = (svg, width, height) => new Promise((resolve, reject) => {
  const image = new Image(), canvas = document.createElement("canvas"), scale = 2;
  image.onload = () => {
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    resolve(canvas.toDataURL("image/png"));
  };
  image.onerror = reject;
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
});
document.querySelectorAll("button[data-save]").forEach((button) => button.addEventListener("click", async () => {
  const figure = button.closest("figure"), kind = button.dataset.save, svg = alone(figure);
  const box = figure.querySelector("svg").getBoundingClientRect();
  const url = kind === "png" ? await toPng(svg, box.width, box.height)
    : `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  download(url, `${button.parentElement.dataset.name}.${kind}`);
}));
const wide = Array.from(document.querySelectorAll(".wide"));
const mark = () => wide.forEach((box) => box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1));
addEventListener("resize", mark);
document.querySelectorAll("details").forEach((part) => part.addEventListener("toggle", mark));
mark();
// On paper nothing can be unfolded.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => { part.open = true; }));
