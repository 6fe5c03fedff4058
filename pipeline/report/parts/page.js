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

const root = document.documentElement, toggle = document.getElementById("theme");
const system = matchMedia("(prefers-color-scheme: dark)");
const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : system.matches;
toggle.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; });
