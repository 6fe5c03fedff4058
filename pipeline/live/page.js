"use strict";
// Names come from sweep files and workers: they are set as text, never as HTML.
const NS = "http://www.w3.org/2000/svg", EVERY = 2000, MOST_PANELS = 8;
const byId = (id) => document.getElementById(id);
const fill = (node, kids) => { node.append(...kids.flat().filter((kid) => kid !== null && kid !== "")); return node; };
const h = (tag, names, ...kids) => {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(names || {})) {
    if (value !== null) node.setAttribute(key, value);
  }
  return fill(node, kids);
};
const s = (tag, names, ...kids) => {
  const node = document.createElementNS(NS, tag);
  for (const [key, value] of Object.entries(names)) node.setAttribute(key, value);
  return fill(node, kids);
};
const put = (id, ...kids) => { const node = byId(id); node.replaceChildren(); return fill(node, kids); };
const count = (number) => number.toLocaleString("en");
const several = (number, one, many) => `${count(number)} ${number === 1 ? one : many || one + "s"}`;
const clock = (seconds) => {
  const all = Math.max(0, Math.round(seconds)), two = (value) => String(value).padStart(2, "0");
  return `${Math.floor(all / 3600)}:${two(Math.floor(all / 60) % 60)}:${two(all % 60)}`;
};
const brief = (seconds) => seconds < 0.995 ? `${seconds < 0.01 ? (seconds * 1000).toPrecision(2) : Math.round(seconds * 1000)} ms` :
  seconds < 100 ? `${seconds.toPrecision(3)} s` : clock(seconds);
const size = (bytes) => bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
const rate = (number) => number >= 100 ? Math.round(number).toLocaleString("en") : number.toPrecision(3);

let name = "", grid = null, head = null, tiles = new Map(), series = new Map(), shift = 0, shown = null;
const nodes = [];

// ---------------------------------------------------------------- cards
const card = (title, big, more, ...rest) => h("div", { class: "tile" }, h("div", { class: "name" }, title),
  h("div", { class: "big" }, big), more ? h("div", { class: "more" }, more) : null, ...rest);

const spark = (steps) => {
  if (steps.length < 2) return null;
  const top = Math.max(...steps, 1e-9), last = steps.length - 1;
  const points = steps.map((value, at) => `${(100 * at / last).toFixed(1)},${(22 - 20 * value / top).toFixed(1)}`);
  return s("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("polyline", { points: points.join(" "), fill: "none", stroke: "currentColor", "stroke-width": 1.5,
      "vector-effect": "non-scaling-stroke" }));
};

const bar = (total, waiting, failedWaiting) => {
  const parts = [["done", total.done], ["none", total.no_solution], ["wait", waiting], ["fail", total.failed + failedWaiting]];
  return fill(h("div", { class: "bar", "aria-hidden": "true" }), parts.map(([kind, value]) => {
    const part = h("i", { class: kind });
    part.style.width = `${100 * value / Math.max(total.cells, 1)}%`;
    return part;
  }));
};

const cards = () => {
  const { status, pace, journal, crew } = head, total = status.total, run = status.run;
  let failedWaiting = 0;
  for (const rows of tiles.values()) for (const row of rows) failedWaiting += row[5];
  const finished = total.done + total.failed + total.no_solution + journal.waiting;
  const share = total.cells ? Math.floor(1000 * finished / total.cells) / 10 : 0;
  const words = [`${count(total.done)} done`, `${count(total.failed)} failed`,
    total.no_solution ? `${count(total.no_solution)} without a solution` : "", `${count(total.left)} left`,
    journal.waiting ? `${count(journal.waiting)} of these finished, and not in the cube yet` : ""];
  const broad = card("cells", total.cells ? `${count(finished)} of ${count(total.cells)} finished, ${share} %` :
    "no cell yet", null, bar(total, journal.waiting - failedWaiting, failedWaiting),
  h("div", { class: "more" }, words.filter(Boolean).join(" · ")));
  broad.classList.add("broad");
  const list = [broad];
  if (head.ends_at !== null && total.left) {
    const end = new Date(1000 * head.ends_at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    const left = card("time left", clock(head.ends_at - shift - Date.now() / 1000), `until about ${end}`);
    left.querySelector(".big").id = "left";
    list.push(left);
  }
  if (run) {
    const speed = pace.per_second === null ? "measuring" : `${rate(pace.per_second)}/s`;
    const asked = run.questions ? ` · ${count(run.asked)} of ${count(run.questions)} questions` : "";
    list.push(card("restarts", speed, `${count(run.restarts)} of ${count(run.total)}${asked}`, spark(pace.steps)));
  }
  if (crew) list.push(card("workers", `${count(crew.busy)} of ${count(crew.connected)}`, "at work"));
  else if (run) list.push(card("workers", count(run.workers), "connected"));
  const open = journal.open_blocks, left = status.blocks.total - status.blocks.done;
  list.push(card("blocks", `${count(status.blocks.done)} of ${count(status.blocks.total)}`,
    `written · ${count(open)} begun · ${count(Math.max(0, left - open))} not begun`));
  list.push(card("journal", size(journal.bytes), `${several(journal.waiting, "finished cell")} not in the cube yet`));
  const failures = total.failed + failedWaiting;
  const wrong = card("failed", count(failures), failures ? "cells; see below" : "no cell");
  if (failures) wrong.classList.add("wrong");
  list.push(wrong);
  put("cards", list);
};

// ---------------------------------------------------------------- map
const sums = (rows) => {
  const all = { cells: 0, finished: 0, failed: 0, none: 0 };
  for (const [cells, done, failed, none, readyDone, readyFailed, readyNone] of rows) {
    all.cells += cells; all.failed += failed + readyFailed; all.none += none + readyNone;
    all.finished += done + failed + none + readyDone + readyFailed + readyNone;
  }
  all.finished = Math.min(all.finished, all.cells);  // a cell that is tried again is failed and finished
  return all;
};
const place = (at) => {
  const { panel, row, column } = nodes[at];
  const where = panel.alone ? [panel.dataset, panel.rows[row], panel.columns[column]] :
    [panel.dataset, panel.variant, `p ${panel.rows[row]}`, `m ${panel.columns[column]}`];
  return where.filter(Boolean).join(" · ");
};
const paint = (at) => {
  const node = nodes[at].node, all = sums(tiles.get(at) || []), share = all.cells ? all.finished / all.cells : 0;
  // What has begun is told from what has not, and what is whole from what is nearly so.
  const tint = share === 0 ? 0 : share === 1 ? 100 : 14 + 70 * share;
  node.classList.toggle("none", !all.cells);  // a method has no cell under another search than the first
  node.style.backgroundColor = `color-mix(in srgb, var(--blue) ${tint.toFixed(0)}%, var(--empty))`;
  // Red from below up to the share that failed; one cell of a thousand is seen as well.
  const red = all.failed ? Math.max(15, 100 * all.failed / all.cells).toFixed(0) : 0;
  node.style.backgroundImage = red ? `linear-gradient(to top, var(--red) ${red}%, transparent ${red}%)` : "none";
  node.textContent = all.failed ? "×" : "";
  node.setAttribute("aria-label", `${place(at)}: ${all.finished} of ${several(all.cells, "cell")} finished` +
    (all.failed ? `, ${all.failed} failed` : ""));
};
const tableOf = (panel) => {
  const dense = panel.columns.length > 24 || panel.rows.length > 24;
  const bare = panel.alone && panel.rows.length === 1;
  const table = h("table", { class: dense ? "grid dense" : "grid", role: "grid",
    "aria-label": [panel.dataset, panel.variant, panel.alone ? "models without annotations" : ""].filter(Boolean).join(", ") });
  if (!dense || panel.alone) {
    table.append(h("thead", {}, h("tr", {}, bare ? null : h("th", { scope: "col" }, panel.alone ? "" : "p \\ m"),
      panel.columns.map((text) => h("th", { scope: "col" }, text)))));
  }
  table.append(h("tbody", {}, panel.rows.map((text, row) => h("tr", {},
    bare ? null : h("th", { scope: "row", title: panel.alone ? text : null }, dense ? "" : text),
    panel.columns.map((_, column) => {
      const node = h("td", { role: "gridcell", class: panel.alone ? "none" : null, tabindex: row || column ? "-1" : "0", "aria-describedby": "card", "data-at": nodes.length });
      nodes.push({ node, panel, row, column });
      return node;
    })))));
  return h("div", { class: panel.alone ? "scroll alone" : "scroll" }, table);
};
const drawMap = () => {
  nodes.length = 0;
  const tables = grid.panels.map((panel) => [panel, tableOf(panel)]);  // numbered as the tiles are
  const box = (panel, table) => h("div", { class: "panel" },
    h("h3", {}, panel.dataset, panel.variant ? h("small", {}, ` ${panel.variant}`) : null), table);
  const boxes = new Map();
  const home = put("map", tables.filter(([panel]) => !panel.alone).map(([panel, table]) => {
    const made = box(panel, table);
    if (!boxes.has(panel.dataset)) boxes.set(panel.dataset, made);
    return made;
  }));
  for (const [panel, table] of tables.filter(([panel]) => panel.alone)) {
    if (boxes.has(panel.dataset)) boxes.get(panel.dataset).append(table); else home.append(box(panel, table));
  }
  put("legend", h("span", {}, "nothing", h("i", { class: "ramp" }), "all finished"),
    h("span", {}, "×", h("i", { class: "fail" }), "the red part of the tile failed"));
};
const tip = () => {
  if (shown === null) return;
  const rows = tiles.get(shown) || [], { panel, column } = nodes[shown];
  const models = panel.alone ? [panel.columns[column]] : panel.models;
  const timed = rows.some((row) => row[7] !== null);
  const table = h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", {}, "model"),
    h("th", { class: "number" }, "finished"), h("th", { class: "number" }, "failed"),
    h("th", { class: "number" }, "a cell"), h("th", { class: "number" }, "best objective"))),
  h("tbody", {}, rows.map((row, at) => {
    const all = sums([row]);
    return h("tr", {}, h("td", {}, models[at]), h("td", { class: "number" }, `${count(all.finished)} of ${count(all.cells)}`),
      h("td", { class: all.failed ? "number wrong" : "number" }, count(all.failed)),
      h("td", { class: "number" }, row[7] === null ? "–" : brief(row[7])),
      h("td", { class: "number" }, row[8] === null ? "–" : row[8].toPrecision(7)));
  })));
  // objectives compare within one model alone
  const best = rows.length === 1 && rows[0][8] !== null ? rows[0] : null;
  const failure = head.failures.last.find((each) => each.tile === shown);
  put("card", h("b", {}, place(shown)), table,
    best && best[9] ? h("p", {}, `largest objective: ${best[9]}`) : null,
    timed ? null : h("p", {}, "no cell is finished yet"),
    failure ? h("p", { class: "wrong" }, `${failure.cell}: ${failure.cause}`) : null);
  const box = byId("card"), at = nodes[shown].node.getBoundingClientRect();
  box.hidden = false;
  const width = box.offsetWidth, height = box.offsetHeight;
  box.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
  box.style.top = `${at.bottom + height + 10 < innerHeight ? at.bottom + 8 : Math.max(8, at.top - height - 8)}px`;
};
const show = (target) => {
  const node = target instanceof Element ? target.closest("td[data-at]") : null;
  shown = node ? Number(node.dataset.at) : null;
  if (shown === null) byId("card").hidden = true; else tip();
};
const map = byId("map");
map.addEventListener("pointerover", (event) => show(event.target));
map.addEventListener("pointerleave", () => show(document.activeElement));
map.addEventListener("focusin", (event) => show(event.target));
map.addEventListener("focusout", () => show(null));
map.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
  const node = event.target.closest("td[data-at]");
  if (event.key === "Escape") show(null);
  if (!step || !node) return;
  const first = node.parentElement.querySelector("td").cellIndex, body = node.closest("tbody");
  const row = body.rows[node.parentElement.sectionRowIndex + step[0]];
  const next = row && node.cellIndex + step[1] >= first ? row.cells[node.cellIndex + step[1]] : null;
  event.preventDefault();
  if (!next) return;
  node.tabIndex = -1; next.tabIndex = 0; next.focus();
});
addEventListener("scroll", () => show(null), { passive: true });

// ---------------------------------------------------------------- scores
const ticks = (low, high) => {
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5].find((each) => (high - low) / each <= 5) || 1, found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9; at += 1) found.push(at * step);
  return [found, step < 0.1 ? 2 : 1];
};
const line = (look, names) => s("path", { fill: "none", "stroke-width": 2, "stroke-dasharray": look.dash, ...names });
const painted = (node, what, color) => { node.style[what] = color; return node; };
const figure = (title, curves, flat, low, high) => {
  const wide = 320, tall = 200, left = 34, right = 8, top = 8, bottom = 30;
  const all = curves.flatMap((curve) => curve[4].map((point) => point[0]));
  const from = Math.min(...all), to = Math.max(...all);
  const x = (m) => from === to ? (left + wide - right) / 2 : left + 8 + (wide - left - right - 16) * (m - from) / (to - from);
  const y = (value) => top + (tall - top - bottom) * (high - value) / (high - low);
  const picture = s("svg", { viewBox: `0 0 ${wide} ${tall}`, role: "img", "aria-label": `${title}; the table below has the values` });
  const [marks, digits] = ticks(low, high);
  for (const mark of marks) {
    picture.append(s("line", { class: "axis", x1: left, x2: wide - right, y1: y(mark), y2: y(mark) }),
      s("text", { x: left - 5, y: y(mark) + 3.5, "text-anchor": "end" }, mark.toFixed(digits)));
  }
  const counts = [...new Set(all)].sort((a, b) => a - b), each = Math.ceil(counts.length / 6);
  counts.forEach((m, at) => { if (at % each === 0) picture.append(s("text", { x: x(m), y: tall - 14, "text-anchor": "middle" }, String(m))); });
  picture.append(s("text", { x: (left + wide - right) / 2, y: tall - 2, "text-anchor": "middle" }, "annotations m"));
  for (const curve of flat) {
    const look = grid.looks[curve[3]], [, mean, se] = curve[4][0];
    if (se !== null) picture.append(painted(s("rect", { x: left, width: wide - left - right, y: y(Math.min(high, mean + se)),
      height: Math.max(0, y(Math.max(low, mean - se)) - y(Math.min(high, mean + se))), opacity: 0.13 }), "fill", look.color));
    picture.append(painted(line(look, { d: `M${left},${y(mean)}H${wide - right}`, "stroke-width": 1.5 }), "stroke", look.color));
  }
  for (const curve of curves) {
    const look = grid.looks[curve[3]], points = curve[4];
    const banded = points.filter((point) => point[2] !== null);
    const edge = (sign, point) => `${x(point[0])},${y(Math.max(low, Math.min(high, point[1] + sign * point[2])))}`;
    if (banded.length > 1) {
      picture.append(painted(s("polygon", { opacity: 0.16, points: [...banded.map((point) => edge(1, point)),
        ...banded.slice().reverse().map((point) => edge(-1, point))].join(" ") }), "fill", look.color));
    } else if (banded.length) {
      picture.append(painted(s("path", { d: `M${edge(1, banded[0])}L${edge(-1, banded[0])}`, "stroke-width": 5, opacity: 0.3 }), "stroke", look.color));
    }
    picture.append(painted(line(look, { d: points.map((point, at) => `${at ? "L" : "M"}${x(point[0])},${y(point[1])}`).join("") }), "stroke", look.color));
    for (const point of points) picture.append(painted(s("circle", { cx: x(point[0]), cy: y(point[1]), r: 3 }), "fill", look.color));
  }
  return h("figure", {}, h("figcaption", {}, title), picture);
};
// in the order of the document: what the choice says, and what a caption says once
const SCORES = [["NMI", "NMI, min-normalised as in the paper"], ["ARI", "adjusted Rand index, as in scikit-learn"]];
const scored = (which) => (curve) => [...curve.slice(0, 4), curve[4].map(([m, n, values]) => [m, ...values[which], n]), ...curve.slice(5)];
const scores = () => {
  const choice = byId("dataset"), known = [...new Set([...series.values()].map((curve) => curve[0]))];
  const order = [...new Set(grid.panels.map((panel) => panel.dataset))].filter((each) => known.includes(each));
  if (order.join("\n") !== [...choice.options].map((each) => each.value).join("\n")) {
    const before = choice.value;
    choice.replaceChildren(...order.map((each) => h("option", { value: each }, each)));
    choice.value = order.includes(before) ? before : order[0] || "";
  }
  choice.parentElement.hidden = byId("score").parentElement.hidden = order.length === 0;
  const left = head.unread ? `; ${several(head.unread, "finished cell")} to be read` : "";
  const which = Number(byId("score").value);
  const mine = [...series.values()].filter((curve) => curve[0] === choice.value).map(scored(which));
  byId("scores-note").textContent = order.length === 0 ? "no score yet" + left :
    `mean ${SCORES[which][1]}, and a standard error over ${grid.units[choice.value]}, of ${several(head.scored, "cell")} that ${head.scored === 1 ? "is" : "are"} done${left}`;
  byId("scores-table").closest("details").hidden = order.length === 0;
  const flat = mine.filter((curve) => curve[2] === null), drawn = mine.filter((curve) => curve[2] !== null);
  const ends = mine.flatMap((curve) => curve[4].flatMap(([, mean, se]) => [mean - (se || 0), mean + (se || 0)]));
  const pad = Math.max(0.02, 0.06 * (Math.max(...ends) - Math.min(...ends)));
  const low = Math.max(which === 0 ? 0 : -1, Math.min(...ends) - pad), high = Math.min(1.005, Math.max(...ends) + pad);
  const panels = new Map();
  const variants = grid.panels.map((panel) => panel.variant);  // in the order of the file
  for (const curve of drawn.sort((a, b) => a[2] - b[2] || variants.indexOf(a[1]) - variants.indexOf(b[1]))) {
    const key = `${curve[1]}\n${curve[2]}`;
    panels.set(key, [...(panels.get(key) || []), curve]);
  }
  const keys = [...panels.keys()], step = Math.ceil(keys.length / MOST_PANELS);
  const picked = keys.filter((_, at) => at % step === 0);
  put("curves", picked.map((key) => {
    const [variant, p] = key.split("\n"), curves = panels.get(key);
    const beside = flat.filter((curve) => curve[5].every((value, at) => value === null || value === curves[0][5][at]));
    return figure(variant ? `p = ${p}, ${variant}` : `p = ${p}`, curves, beside, low, high);
  }));
  const models = Object.keys(grid.looks).filter((model) => mine.some((curve) => curve[3] === model));
  put("keys", models.map((model) => {
    const look = grid.looks[model];
    return h("span", {}, s("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" },
      painted(line(look, { d: "M1,5H31" }), "stroke", look.color)), model);
  }), step > 1 ? h("span", { class: "note" }, `${picked.length} of ${keys.length} panels; the table has all`) : null);
  put("scores-table", h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["p", "m", "model", "mean NMI, min-normalised", "standard error", "mean ARI", "standard error", grid.units[choice.value] || "units"]
    .map((text, at) => h("th", at === 2 ? {} : { class: "number" }, text)))),
  h("tbody", {}, [...flat, ...drawn].map((curve) => series.get(curve.slice(0, 4).join("\n"))).flatMap((curve) => curve[4].map(([m, n, values]) => h("tr", {},
    h("td", { class: "number" }, curve[2] === null ? curve[1] || "–" : curve[1] ? `${curve[2]}, ${curve[1]}` : curve[2]),
    h("td", { class: "number" }, m === null ? "–" : String(m)), h("td", {}, curve[3]),
    ...values.flat().map((value) => h("td", { class: "number" }, value === null ? "–" : value.toFixed(3))), h("td", { class: "number" }, count(n))))))));
};
byId("score").replaceChildren(...SCORES.map(([text], at) => h("option", { value: at }, text)));
for (const each of ["dataset", "score"]) byId(each).addEventListener("change", scores);

// ---------------------------------------------------------------- tables
const headed = (names) => h("thead", {}, h("tr", {}, names.map(([text, kind]) => h("th", { class: kind || null, scope: "col" }, text))));
const workers = () => {
  const { crew, status } = head, run = status.run;
  const remarks = (run && status.jobs ? status.jobs.remarks : []).map((text) => h("p", { class: "note" }, text));
  if (!crew) {
    const jobs = status.jobs, there = status.dashboard;
    put("workers", h("p", { class: "note" }, !run ? "Nothing runs." : several(run.workers, "worker") + " connected." +
      (there ? ` What each is at is on the page of the run itself: ${there}` : "")),
    run && jobs ? h("p", { class: "note" }, `worker jobs: ${jobs.wanted} wanted, ${jobs.running} running`) : null, ...remarks);
    return;
  }
  const now = Date.now() / 1000 + shift, more = crew.busy - crew.rows.length;
  put("workers", crew.rows.length ? h("div", { class: "wide" }, h("table", { class: "plain" },
    headed([["worker"], ["is at"], ["for", "number"]]),
    h("tbody", {}, crew.rows.map(([worker, node, job, task, since]) => h("tr", {},
      h("td", {}, job ? `${node}, job ${job}` : `${node} ${worker.split(":").pop()}`), h("td", { class: "long" }, task),
      h("td", { class: "number" }, brief(Math.max(0, now - since)))))))) : h("p", { class: "note" }, "Nobody is at work."),
  more > 0 ? h("p", { class: "note" }, `and ${count(more)} more, which began later`) : null, ...remarks);
};
const failures = () => {
  const { cells, records, earlier, last } = head.failures;
  put("failures", last.length ? h("div", { class: "wide" }, h("table", { class: "plain" }, headed([["cell"], ["cause"], ["where"]]),
    h("tbody", {}, last.map((each) => h("tr", {}, h("td", { class: "long" }, each.cell), h("td", { class: "long wrong" }, each.cause),
      h("td", {}, [each.node, each.job && `job ${each.job}`, each.at.slice(11, 16)].filter(Boolean).join(" "))))))) :
    h("p", { class: "note" }, "None is recorded."),
  last.length ? h("p", { class: "note" }, `${several(records, "failure")} of ${several(cells, "cell")}${earlier ? ", those of earlier runs too" : ""}. A cell that failed once is tried again alone; the traceback: `,
    h("code", {}, `sweep why ${head.status.cube} "${last[0].cell}"`)) : null);
};
const datasets = () => put("datasets", h("table", { class: "plain" },
  headed([["data set"], ...["cells", "done", "failed", "no solution", "left"].map((text) => [text, "number"])]),
  h("tbody", {}, [...head.status.datasets, { ...head.status.total, name: "total", last: true }].map((row) => h("tr", { class: row.last ? "total" : null }, h("td", {}, row.name),
    ["cells", "done", "failed", "no_solution", "left"].map((key) => h("td", { class: key === "failed" && row[key] ? "number wrong" : "number" }, count(row[key])))))),
), Object.keys(head.status.skipped).length ? h("p", { class: "wrong" }, `Not at hand: ${Object.keys(head.status.skipped).join(", ")}; sweep datasets list says why`) : null);
const log = () => {
  const node = byId("log"), text = head.log.join("\n") || "no line yet";
  if (node.textContent === text) return;
  node.textContent = text;
  node.scrollTop = node.scrollHeight;
};

// ---------------------------------------------------------------- polling
const take = (state) => {
  name = state.name; head = state.head; shift = state.at - Date.now() / 1000;
  if (state.grid) {
    grid = state.grid; tiles = new Map(); series = new Map(); show(null);
    drawMap();
    if (!state.tiles.length) put("map", h("p", { class: "note" }, "The map is there when the cube is made."));
  }
  for (const [at, rows] of state.tiles) { tiles.set(at, rows); paint(at); }
  for (const curve of state.series) series.set(curve.slice(0, 4).join("\n"), curve);
  document.title = `${head.cube} · sweep`;
  byId("title").textContent = head.cube;
  byId("who").textContent = head.who;
  cards(); workers(); failures(); datasets(); log(); tip();
  if (state.grid || state.series.length || head.unread !== seen) scores();
  seen = head.unread;
  byId("main").hidden = false;
};
let seen = 0, lost = 0, timer = 0;
const pulse = (text, kind) => { const node = byId("pulse"); if (node.textContent !== text) node.textContent = text; node.className = kind; };
const poll = async () => {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const answer = await fetch(`sweep/state.json?since=${encodeURIComponent(name)}`, { cache: "no-store" });
    if (answer.status === 200) take(await answer.json());
    else if (answer.status !== 304) throw new Error(answer.status === 503 ? (await answer.text()).trim() : `answer ${answer.status}`);
    lost = 0;
    pulse(head.status.holder ? "live" : "not running", head.status.holder ? "on" : "");
  } catch (error) {
    lost += 1;
    pulse(name ? "no answer: the run may have ended; sweep open shows its files" : String(error.message || error), "lost");
  }
  timer = setTimeout(poll, lost ? Math.min(30000, EVERY * 2 ** Math.min(lost, 4)) : EVERY);
};
document.addEventListener("visibilitychange", poll);
setInterval(() => {
  const node = byId("left");
  if (node && head && !lost && !document.hidden) node.textContent = clock(head.ends_at - shift - Date.now() / 1000);
}, 1000);

const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
byId("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
  root.dataset.theme = dark ? "light" : "dark";
});
poll();
