// SPDX-License-Identifier: Apache-2.0
// One figure along each axis through the selected point, small pictures with one scale.
import { h } from "./dom.js";
import { axisLines } from "./points_data.js";

const kWidth = 190, kHeight = 130, kLeft = 12, kRight = 12, kTop = 26, kBottom = 24;

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Below its point, or at the edge that it would be cut off by. */
function label(x, text) {
  const half = String(text).length * 3.4;  // about what half of it takes
  if (x + half > kWidth) return { x: kWidth - 1, "text-anchor": "end" };
  if (x - half < 0) return { x: 1, "text-anchor": "start" };
  return { x, "text-anchor": "middle" };
}

function picture({ axis, points }, steps, selected, figure, [low, high], choose) {
  const room = kWidth - kLeft - kRight;
  const x = (i) => kLeft + (i + 0.5) / points.length * room;
  const y = (v) => kHeight - kBottom - (v - low) / (high - low) * (kHeight - kBottom - kTop);
  const value = ({ row }) => figure.values[row];
  const known = points.map((p, i) => ({ ...p, i })).filter((p) => !Number.isNaN(value(p)));
  const counted = known.filter((p) => p.row < steps.counted);
  const words = known.map((p) => `${p.value}: ${figure.text(value(p))}`).join(", ");
  return svg("svg", { viewBox: `0 0 ${kWidth} ${kHeight}`, role: "img", "aria-label": `${figure.title} by ${axis}: ${words}` },
    svg("text", { class: "strong", x: kLeft, y: 13 }, axis),
    svg("path", { class: "axis", d: `M${kLeft} ${kHeight - kBottom + 4}H${kWidth - kRight}` }),
    svg("path", { class: "line", d: counted.map((p, k) => `${k ? "L" : "M"}${x(p.i)} ${y(value(p))}`).join("") }),
    ...known.map((p) => svg("circle", {
      class: (p.row < steps.counted ? "dot" : "dot lost") + (p.row === selected ? " own" : ""),
      cx: x(p.i), cy: y(value(p)), r: p.row === selected ? 6 : 4.5, onclick: () => choose(p.row),
    }, svg("title", {}, `${axis} ${p.value}: ${figure.text(value(p))}${p.row < steps.counted ? "" : ", does not fit"}`))),
    ...points.map((p, i) => i % Math.ceil(points.length / 6) === 0
      ? svg("text", { ...label(x(i), p.value), y: kHeight - 6, class: p.row === selected ? "strong" : "" }, p.value) : ""));
}

/** `figure`: {values, title, text(value)}; `choose(row)`: a point was clicked. */
export function drawLines(place, steps, selected, figure, choose) {
  const lines = axisLines(steps, selected);
  let low = Infinity, high = -Infinity;
  for (const { points } of lines)
    for (const { row } of points) {
      const v = figure.values[row];
      if (v < low) low = v;
      if (v > high) high = v;
    }
  if (!(high > low)) high = low + Math.abs(low || 1);
  place.replaceChildren(...lines.length === 0
    ? [h("p", { class: "note" }, "No other point differs from the selected one in one axis alone.")]
    : [h("p", { class: "note" }, `${figure.title[0].toUpperCase()}${figure.title.slice(1)} where one axis changes and the others stay, ` +
        `${figure.text(low)} to ${figure.text(high)} from bottom to top; a click on a point goes there.`),
      h("div", { class: "small" }, lines.map((line) => picture(line, steps, selected, figure, [low, high], choose)))]);
}
