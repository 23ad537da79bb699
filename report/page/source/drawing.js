// SPDX-License-Identifier: Apache-2.0
// Draws a timeline (timeline.js): its axis, its rows, and what lies over them.
import { sizeCanvas } from "./dom.js";
import { axisTime, grouped, niceStep } from "./format.js";
import { firstAfter, lookOf, nameOf, waitsForOthers } from "./rows.js";

/** In CSS pixels: of a rank's row, of a row below it, of the axis, of a letter. */
export const kHead = 23, kStream = 15, kAxis = 24, kLetter = 6.5;

export function draw(v) {
  const { width, height, palette } = v;
  const g = sizeCanvas(v.canvas, width, height);
  g.fillStyle = palette.panel;
  g.fillRect(0, 0, width, height);
  g.font = "11px system-ui, sans-serif";
  g.textBaseline = "middle";
  drawAxis(v, g);
  g.save();
  g.beginPath();
  g.rect(0, kAxis, width, height - kAxis);
  g.clip();
  const first = Math.max(0, v.rowAt(kAxis));
  for (let r = first; r < v.rows.length; ++r) {
    const row = v.rows[r], y = kAxis + row.y - v.top;
    if (y > height) break;
    drawRow(v, g, row, y);
    drawName(v, g, row, y);
  }
  if (v.showPath) drawPath(v, g);
  drawTransfer(v, g);
  drawFocus(v, g);
  g.restore();
  drawSpan(v, g);
  drawScrollbar(v, g);
}

function drawAxis(v, g) {
  const step = niceStep(v.until - v.from, (v.width - v.gutter) / 110);
  g.fillStyle = v.palette.dim;
  g.strokeStyle = v.palette.rule;
  g.textAlign = "left";
  g.beginPath();
  const first = Math.ceil(v.from / step), last = Math.floor(v.until / step);
  for (let i = first; i <= last; ++i) {
    const t = i * step;
    const x = Math.round(v.x(t)) + 0.5;
    g.moveTo(x, 4);
    g.lineTo(x, v.height);
    const label = axisTime(t, step);
    if (x + label.length * kLetter < v.width) g.fillText(label, x + 4, 11);
  }
  g.stroke();
}

function drawName(v, g, row, y) {
  const { palette } = v;
  g.fillStyle = palette.panel;
  g.fillRect(0, y, v.gutter - 2, row.height);
  g.textAlign = "left";
  if (row.head) {
    g.fillStyle = palette.dim;
    g.fillText(v.open.has(row.number) ? "▾" : "▸", 4, y + row.height / 2);
  }
  const wide = v.gutter > 100;
  g.fillStyle = row.head ? palette.ink : palette.dim;
  const left = row.head ? 16 : 26, count = row.copies > 1 && wide ? "×" + grouped(row.copies) : "";
  const room = (v.gutter - left - 8) / kLetter - count.length;
  g.fillText(fitted(row.name, room), left, y + row.height / 2);
  if (count) {
    g.textAlign = "right";
    g.fillStyle = palette.accent;
    g.fillText(count, v.gutter - 8, y + row.height / 2);
  }
}

// Slices of less than a pixel: the first in each pixel is drawn, so that a million cost no more
// than what a screen shows.
function drawRow(v, g, row, y) {
  const { begin, end, ids } = row, { step, from, until, palette, matches } = v;
  const bar = row.height - (row.head ? 8 : 3), low = v.gutter, high = v.width;
  const scale = (high - low) / (until - from);
  let drawn = low - 1, style = "";
  for (let i = firstAfter(row, from); i < ids.length; ++i) {
    const b = begin[i];
    if (b >= until) break;
    const x0 = Math.max(low, low + (b - from) * scale), x1 = Math.min(high, low + (end[i] - from) * scale);
    const w = x1 - x0;
    if (w < 1) {
      const pixel = Math.floor(x0);
      if (pixel <= drawn) continue;
      drawn = pixel;
      const look = lookOf(step, row, i);
      const fill = palette.kinds[look.kind][look.shade].fill;
      if (fill !== style) g.fillStyle = style = fill;
      g.globalAlpha = matches && !v.isMatch(row, i) ? 0.2 : 1;
      g.fillRect(pixel, y + 1, 1, bar);
      continue;
    }
    drawn = Math.floor(x1 - 0.01);
    const look = lookOf(step, row, i), colour = palette.kinds[look.kind][look.shade];
    g.globalAlpha = matches && !v.isMatch(row, i) ? 0.2 : 1;
    g.fillStyle = style = colour.fill;
    const gap = w > 4 ? 0.7 : 0;
    g.fillRect(x0, y + 1, w - gap, bar);
    if (look.second) {
      g.fillStyle = style = palette.kinds[look.second][look.shade].fill;
      g.fillRect(x0, y + 1 + bar / 2, w - gap, bar / 2);
    }
    if (w > 22) {
      const text = fitted(nameOf(step, row, i), (w - 6) / kLetter);
      if (text.length > 0) {
        g.fillStyle = style = colour.ink;
        g.textAlign = "left";
        g.fillText(text, x0 + 3, y + 1 + bar / 2);
      }
    }
  }
  g.globalAlpha = 1;
  if (row.head) drawWaits(v, g, row, y + bar + 1.5);
}

// Below its passes, where a rank stands still for communication.
function drawWaits(v, g, row, y) {
  const { waits } = row, low = v.gutter, scale = (v.width - low) / (v.until - v.from);
  g.fillStyle = v.palette.kinds.X[0].fill;
  let drawn = low - 1;
  for (let i = firstAfter(waits, v.from); i < waits.ids.length && waits.begin[i] < v.until; ++i) {
    const x0 = Math.max(low, low + (waits.begin[i] - v.from) * scale), w = low + (waits.end[i] - v.from) * scale - x0;
    const pixel = Math.floor(x0);
    if (w < 1 && (pixel <= drawn || w < 0.15)) continue;
    drawn = pixel;
    if (waitsForOthers(v.step, row.rank, i)) g.fillRect(x0, y, Math.max(1, w), 3);
  }
}

function drawPath(v, g) {
  const heads = v.step.roles.map((_, role) => v.headOf(role));
  g.strokeStyle = v.palette.ink;
  g.lineWidth = 1.3;
  g.globalAlpha = 0.75;
  g.beginPath();
  let last = null;
  for (const s of v.step.path) {
    const row = heads[s.role];
    if (!row) continue;
    const y = kAxis + row.y - v.top + row.height - 2;
    const x0 = v.clampX(v.x(s.begin)), x1 = v.clampX(v.x(s.end));
    if (s.end < v.from || s.begin > v.until) { last = null; continue; }
    if (last && Math.abs(last.y - y) > 1) {
      g.moveTo(last.x, last.y);
      g.lineTo(s.transfer ? x1 : x0, y);
    } else if (s.transfer) {
      g.moveTo(x0, y);
      g.lineTo(x1, y);
    }
    if (!s.transfer) {
      g.moveTo(x0, y);
      g.lineTo(x1, y);
    }
    last = { x: x1, y };
  }
  g.stroke();
  g.lineWidth = 1;
  g.globalAlpha = 1;
}

// From sender to receiver, of the transfer that is selected.
function drawTransfer(v, g) {
  const row = v.rows[v.focus.row];
  if (!row || row.type !== "transfer") return;
  const id = row.ids[v.focus.slice], { roles } = v.step.transfers[id];
  if (roles.length !== 2) return;
  const [a, b] = roles.map((role) => v.headOf(role));
  if (!a || !b) return;
  const at = (r) => kAxis + r.y - v.top + r.height / 2;
  g.strokeStyle = v.palette.accent;
  g.lineWidth = 2;
  g.beginPath();
  g.moveTo(v.x(row.begin[v.focus.slice]), at(a));
  g.lineTo(v.x(row.end[v.focus.slice]), at(b));
  g.stroke();
  g.lineWidth = 1;
}

function drawFocus(v, g) {
  const row = v.rows[v.focus.row];
  if (!row) return;
  const y = kAxis + row.y - v.top, i = v.focus.slice;
  g.strokeStyle = v.palette.mark;
  g.lineWidth = 2;
  if (i >= 0 && i < row.ids.length) {
    const x0 = v.clampX(v.x(row.begin[i])), x1 = v.clampX(v.x(row.end[i]));
    if (row.end[i] >= v.from && row.begin[i] <= v.until)
      g.strokeRect(x0, y + 1, Math.max(2, x1 - x0), row.height - 3);
  }
  g.lineWidth = 1;
}

function drawSpan(v, g) {
  if (!v.span) return;
  const x0 = v.clampX(v.x(v.span.from)), x1 = v.clampX(v.x(v.span.until));
  g.fillStyle = v.palette.mark;
  g.globalAlpha = 0.12;
  g.fillRect(x0, kAxis, x1 - x0, v.height - kAxis);
  g.globalAlpha = 1;
  g.fillRect(x0, kAxis - 3, Math.max(1, x1 - x0), 3);
}

function drawScrollbar(v, g) {
  const seen = v.height - kAxis;
  if (v.content <= seen) return;
  g.fillStyle = v.palette.rule;
  const length = Math.max(24, seen * seen / v.content);
  g.fillRect(v.width - 5, kAxis + v.top / v.content * seen, 4, length);
}

function fitted(text, letters) {
  if (text.length <= letters) return text;
  return letters < 3 ? "" : text.slice(0, Math.max(1, Math.floor(letters) - 1)) + "…";
}
