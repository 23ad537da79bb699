// SPDX-License-Identifier: Apache-2.0
// Reads what report/html/points_data.cc writes: rows of steps, column by column.
import { Reader, inflate, unzigzag } from "./bytes.js";

function readColumn(reader, { kind, words }, rows) {
  if (kind === "text") {
    const ids = new Uint32Array(rows);
    for (let i = 0; i < rows; ++i) ids[i] = reader.unsigned();
    return { kind, words, ids };
  }
  // What is not known is NaN.
  const values = new Float64Array(rows), unit = kind === "million" ? 1e-6 : 1;
  let last = 0;
  for (let i = 0; i < rows; ++i) {
    const v = reader.unsigned();
    values[i] = v === 0 ? NaN : (last += unzigzag(v - 1)) * unit;
  }
  return { kind, values };
}

/** {rows, counted, steps, axes, column: {tp: {values}, recompute: {words, ids}, ...}} */
export async function readPoints(text) {
  const reader = new Reader(await inflate(text));
  const { columns, ...points } = reader.header();
  points.column = {};
  for (const c of columns) points.column[c.name] = readColumn(reader, c, points.rows);
  return points;
}

/** The value of a row in a column, as text; "" of what is not known. */
export function textOf(points, name, row) {
  const c = points.column[name];
  if (c.kind === "text") return c.words[c.ids[row]];
  return Number.isNaN(c.values[row]) ? "" : String(c.values[row]);
}

// What two rows have in one column; texts are equal where their numbers are.
const rawOf = (column) => column.ids ?? column.values;

// The one line of other settings that differs, as [path, value of `b`]; null of none or several.
function oneDifference(a, b) {
  const from = a.split("\n"), to = b.split("\n");
  if (from.length !== to.length) return null;
  let found = null;
  for (let i = 0; i < from.length; ++i) {
    if (from[i] === to[i]) continue;
    const at = to[i].indexOf("=");
    if (found || at < 0 || from[i].slice(0, at + 1) !== to[i].slice(0, at + 1)) return null;
    found = [to[i].slice(0, at), to[i].slice(at + 1)];
  }
  return found;
}

/**
 * Lines through a row along each axis: the rows that differ from it in this axis alone, the best of
 * each value, and for the first row those that a search took as its steps:
 * [{axis, points: [{value, row}]}].  As axis_lines() in report/text/axis_lines.cc.
 */
export function axisLines(points, through) {
  const { axes, column } = points, raw = axes.map((axis) => rawOf(column[axis.column]));
  const names = rawOf(column.name), others = column.others, words = others.words;
  const found = new Map();
  const add = (axis, value, row) => {
    if (!found.has(axis)) found.set(axis, new Map());
    const values = found.get(axis);
    if (!values.has(value)) values.set(value, row);
  };
  for (let i = 0; i < points.rows; ++i) {
    if (i === through || names[i] !== names[through]) continue;
    let axis = -1, differ = 0;
    for (let a = 0; a < raw.length && differ < 2; ++a)
      if (raw[a][i] !== raw[a][through]) {
        axis = a;
        ++differ;
      }
    if (differ === 1 && others.ids[i] === others.ids[through])
      add(axes[axis].title, textOf(points, axes[axis].column, i), i);
    if (differ === 0 && others.ids[i] !== others.ids[through]) {
      const one = oneDifference(words[others.ids[through]], words[others.ids[i]]);
      if (one) add(one[0], one[1], i);
    }
  }
  if (through === 0)
    for (const { axis, row } of points.steps) {
      const known = axes.find((a) => a.title === axis);
      if (known) add(axis, textOf(points, known.column, row), row);
    }
  const own = (axis) => {
    const known = axes.find((a) => a.title === axis);
    if (known) return textOf(points, known.column, through);
    return words[others.ids[through]].split("\n").find((line) => line.startsWith(axis + "=")).slice(axis.length + 1);
  };
  // In the order of the axes, then what is set beside them.
  const titles = axes.map((axis) => axis.title);
  const place = (axis) => titles.includes(axis) ? titles.indexOf(axis) : titles.length;
  return [...found].sort((a, b) => place(a[0]) - place(b[0])).map(([axis, values]) => {
    values.set(own(axis), through);
    const list = [...values].map(([value, row]) => ({ value, row }));
    list.sort((a, b) => parseFloat(a.value) - parseFloat(b.value) || (a.value < b.value ? -1 : 1));
    return { axis, points: list };
  });
}
