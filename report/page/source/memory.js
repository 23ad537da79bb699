// SPDX-License-Identifier: Apache-2.0
// Memory of a rank over time, by category, and what is alive at the moment under the pointer.
//
// Tensors are allocated and freed in the order of the program, as the host does; on the axis of time
// an event stands where its op runs, or where the event before it stands if that is later.
import { h, sizeCanvas, table } from "./dom.js";
import { axisTime, bytes, gib, niceStep, time } from "./format.js";
import { kOp } from "./data.js";
import { readPalette } from "./palette.js";
import { shortName } from "./rows.js";

/** Events of a rank in the order of its program: when, which key, how many bytes. */
export function memoryEvents(step, rank) {
  const when = [], key = [], size = [];
  let now = 0, pending = [];
  const add = (t, k, b) => {
    when.push(now = Math.max(now, t));
    key.push(k);
    size.push(b);
  };
  for (let i = 0; i < rank.program.count; ++i) {
    const pass = step.passes[rank.program.pass[i]], first = rank.first[i], later = [];
    let computes = false;
    for (let k = kOp.stream; k < pass.ops.length && !computes; k += kOp.size) computes = pass.ops[k] === 0;
    for (let e = 0; e < pass.memory.length; e += 3) {
      const op = pass.memory[e], b = pass.memory[e + 2];
      // What a copy to the host frees is free when the next pass that computes has ended.
      if (b < 0 && step.streams[pass.ops[op * kOp.size + kOp.stream]] === "copy") {
        later.push([pass.memory[e + 1], b]);
        continue;
      }
      const onCompute = pass.ops[op * kOp.size + kOp.stream] === 0;
      add(b < 0 && onCompute ? rank.end[first + op] : rank.begin[first + op], pass.memory[e + 1], b);
    }
    if (computes) {
      for (const [k, b] of pending) add(rank.passEnd[i], k, b);
      pending = [];
    }
    pending.push(...later);
  }
  for (const [k, b] of pending) add(now, k, b);
  return { when: Float64Array.from(when), key: Uint32Array.from(key), size: Float64Array.from(size) };
}

export class MemoryChart {
  constructor(step, place) {
    this.step = step;
    this.rank = step.ranks.find((r) => r.role === step.fullest) ?? step.ranks[0];
    this.canvas = h("canvas", {
      tabindex: 0, role: "img", "aria-label": "Memory of one rank over the step, by category. Arrow keys move the moment.",
      onpointermove: (e) => this.hover(e.clientX - this.canvas.getBoundingClientRect().left),
      onkeydown: (e) => this.key(e),
    });
    const choose = h("select", { "aria-label": "Rank", onchange: () => {
      this.rank = step.ranks[Number(choose.value)];
      this.prepare();
    } }, step.ranks.map((r, i) => h("option", { value: i, selected: r === this.rank }, shortName(step, r))));
    this.alive = h("div", { class: "details", id: "alive" });
    place.append(h("div", { class: "tools" }, h("label", {}, "Memory over time of ", choose)), this.canvas, this.alive);
    this.place = place;
    this.palette = readPalette();
    new ResizeObserver(() => this.draw()).observe(place);
    this.prepare();
  }

  theme() {
    this.palette = readPalette();
    this.draw();
  }

  prepare() {
    const { step, rank } = this, categories = step.categories.length;
    this.events = memoryEvents(step, rank);
    this.start = new Float64Array(categories);
    const fixed = step.roles[rank.role].memory;
    for (let i = 0; i < fixed.length; i += 2) this.start[fixed[i]] += fixed[i + 1];
    // Of each of so many stretches of time, the moment with most.
    this.columns = 1200;
    this.table = new Float64Array(this.columns * categories);
    this.moment = new Int32Array(this.columns).fill(-1);
    const now = Float64Array.from(this.start), { when, key, size } = this.events;
    let total = now.reduce((a, b) => a + b, 0), peak = total, at = -1, column = 0;
    const best = new Float64Array(this.columns).fill(-1);
    const keep = (c, event) => {
      if (total <= best[c]) return;
      best[c] = total;
      this.moment[c] = event;
      this.table.set(now, c * categories);
    };
    keep(0, -1);
    for (let e = 0; e < when.length; ++e) {
      const c = Math.min(this.columns - 1, Math.floor(when[e] / step.makespan * this.columns));
      while (column < c) keep(++column, e - 1);
      now[step.memory_keys[key[e] * 2]] += size[e];
      total += size[e];
      if (total > peak) { peak = total; at = e; }
      keep(c, e);
    }
    while (column < this.columns - 1) keep(++column, when.length - 1);
    this.peak = peak;
    this.canvas.dataset.peak = peak;
    this.canvas.dataset.left = total;
    this.canvas.dataset.start = this.start.reduce((a, b) => a + b, 0);
    this.show(at);
    this.draw();
  }

  draw() {
    const { step, palette, columns } = this, categories = step.categories.length;
    const width = Math.max(240, this.place.clientWidth), height = 220, left = 52, bottom = 22;
    if (!this.table || width === 0) return;
    this.width = width;
    this.left = left;
    const g = sizeCanvas(this.canvas, width, height);
    g.fillStyle = palette.panel;
    g.fillRect(0, 0, width, height);
    const most = Math.max(step.usable, this.peak) * 1.06, tall = height - bottom - 6;
    const y = (b) => 6 + tall - b / most * tall, x = (c) => left + c / columns * (width - left - 4);
    g.font = "11px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.fillStyle = palette.dim;
    g.strokeStyle = palette.rule;
    g.textAlign = "right";
    const lines = niceStep(most / 2 ** 30, 5) * 2 ** 30;
    g.beginPath();
    for (let b = 0; b <= most; b += lines) {
      g.moveTo(left, Math.round(y(b)) + 0.5);
      g.lineTo(width - 4, Math.round(y(b)) + 0.5);
      g.fillText((b / 2 ** 30).toFixed(lines < 2 ** 30 ? 1 : 0) + " GiB", left - 6, y(b));
    }
    g.stroke();
    const below = new Float64Array(columns);
    for (let k = 0; k < categories; ++k) {
      g.fillStyle = palette.categories[step.categories[k]];
      g.beginPath();
      let any = false;
      for (let c = 0; c < columns; ++c) {
        const b = this.table[c * categories + k];
        if (b <= 0) continue;
        any = true;
        const top = y(below[c] + b);
        g.rect(x(c), top, x(c + 1) - x(c) + 0.3, y(below[c]) - top);
        below[c] += b;
      }
      if (any) g.fill();
    }
    g.strokeStyle = palette.ink;
    g.setLineDash([5, 4]);
    g.beginPath();
    g.moveTo(left, y(step.usable));
    g.lineTo(width - 4, y(step.usable));
    g.stroke();
    g.setLineDash([]);
    g.fillStyle = palette.ink;
    g.fillText(`usable ${gib(step.usable)} GiB`, width - 8, y(step.usable) - 8 < 8 ? y(step.usable) + 9 : y(step.usable) - 8);
    g.fillStyle = palette.dim;
    const marks = niceStep(step.makespan, (width - left) / 120);
    for (let t = 0; t <= step.makespan; t += marks) {
      const at = left + t / step.makespan * (width - left - 4);
      g.textAlign = t === 0 ? "left" : at > width - 50 ? "right" : "center";
      g.fillText(axisTime(t, marks), at, height - 9);
    }
    if (this.shown >= -1) {
      const t = this.shown < 0 ? 0 : this.events.when[this.shown];
      const at = Math.round(left + t / step.makespan * (width - left - 4)) + 0.5;
      g.strokeStyle = palette.mark;
      g.beginPath();
      g.moveTo(at, 4);
      g.lineTo(at, height - bottom);
      g.stroke();
    }
  }

  hover(px) {
    const c = Math.floor((px - this.left) / (this.width - this.left - 4) * this.columns);
    if (c < 0 || c >= this.columns) return;
    this.column = c;
    this.show(this.moment[c]);
    this.draw();
  }

  key(e) {
    const by = { ArrowLeft: -4, ArrowRight: 4 }[e.key];
    if (!by) return;
    e.preventDefault();
    this.column = Math.max(0, Math.min(this.columns - 1, (this.column ?? 0) + by));
    this.show(this.moment[this.column]);
    this.draw();
  }

  // What is alive after event `last`.
  show(last) {
    this.shown = last;
    const { step, events } = this, held = new Float64Array(step.memory_keys.length / 2);
    for (let e = 0; e <= last; ++e) held[events.key[e]] += events.size[e];
    const lines = [];
    this.start.forEach((b, k) => { if (b > 0) lines.push([step.categories[k].replaceAll("_", " "), "held through the step", b]); });
    held.forEach((b, k) => {
      if (b > 0) lines.push([step.categories[step.memory_keys[k * 2]].replaceAll("_", " "), step.labels[step.memory_keys[k * 2 + 1]], b]);
    });
    lines.sort((a, b) => b[2] - a[2]);
    const total = lines.reduce((sum, l) => sum + l[2], 0), shown = lines.slice(0, 8);
    const rest = lines.slice(8).reduce((sum, l) => sum + l[2], 0);
    if (rest > 0) shown.push([`${lines.length - 8} more`, "", rest]);
    const when = last < 0 ? 0 : events.when[last];
    this.alive.replaceChildren(table(
      `Alive on ${shortName(step, this.rank)} at ${when === 0 ? "the begin" : time(when)}: ${bytes(total)}` + (total === this.peak ? ", the peak" : ""),
      ["category", "tensor", "#size"], shown.map(([c, name, b]) => [c, name, bytes(b)])));
  }
}
