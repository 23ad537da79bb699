// SPDX-License-Identifier: Apache-2.0
// Steps as points on a canvas, two of their figures against each other, and the one that is selected.
import { h, sizeCanvas } from "./dom.js";
import { gib, grouped, niceStep } from "./format.js";
import { drawLines } from "./lines.js";
import { readPalette } from "./palette.js";
import { textOf } from "./points_data.js";
import { readState, writeState } from "./state.js";

const kHeight = 380, kLeft = 64, kBottom = 38, kTop = 14, kRight = 12, kReach = 12;

// Figures in units that are shown; `down`: less is better.
const kFigures = [
  { key: "time", title: "step time", unit: "s", column: "step_time_ps", factor: 1e-12, down: true },
  { key: "memory", title: "peak memory", unit: "GiB", column: "memory_reserved_bytes", factor: 2 ** -30, down: true },
  { key: "speed", title: "tokens/s/GPU", unit: "", column: "tokens_per_s_per_gpu", factor: 1 },
  { key: "mfu", title: "MFU", unit: "%", column: "mfu", factor: 100 },
  { key: "days", title: "days", unit: "days", column: "days", factor: 1, down: true },
  { key: "price", title: "price", unit: "kUSD", column: "price_usd", factor: 1e-3, down: true },
  { key: "gpus", title: "GPUs", unit: "", column: "gpus", factor: 1, down: true },
];

/** As tables of the command write it. */
function figureText(figure, value) {
  if (figure.key === "time") return value.toFixed(value < 9.9995 ? 4 : value < 99.995 ? 3 : 2);
  if (figure.key === "speed") return value < 1000 ? value.toFixed(1) : grouped(Math.round(value));
  return figure.key === "gpus" ? grouped(value) : value.toFixed(1);
}

const withUnit = (figure, value) => figureText(figure, value) + (figure.unit ? " " + figure.unit : "");

function axisText(value, step) {
  const decimals = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
  const [whole, rest] = value.toFixed(decimals).split(".");
  return grouped(whole) + (rest ? "." + rest : "");
}

export class Points {
  constructor(points, place, lines) {
    this.points = points;
    this.lines = lines;
    this.figures = kFigures.filter(({ column }) => {
      const { values } = points.column[column];
      return values.some((v) => v !== values[0] && !Number.isNaN(v));
    }).map((figure) => ({ ...figure, values: points.column[figure.column].values.map((v) => v * figure.factor) }));
    const usable = points.column.memory_usable_bytes.values;
    this.usable = usable.some((v) => v !== usable[0]) ? null : usable[0];
    if (this.figures.length < 2) return;
    const state = readState(), of = (key, other) => this.figures.find((f) => f.key === key) ?? other;
    this.across = of(state.x, this.figures[0]);
    this.upward = of(state.y, this.figures[1]);
    this.selected = Math.min(Math.max(0, Math.floor(Number(state.p)) || 0), points.rows - 1);
    this.build(place);
    this.place = place;
    this.palette = readPalette();
    this.fit();
    new ResizeObserver(() => this.draw()).observe(place);
    this.select(this.selected);
  }

  build(place) {
    this.canvas = h("canvas", {
      tabindex: 0, role: "application",
      "aria-label": "Every step by two of its figures. Left and right select the next better and worse, W and S zoom, A and D move, F shows all.",
      onpointermove: (e) => this.move(e), onpointerdown: (e) => this.press(e), onpointerup: (e) => this.release(e),
      onpointercancel: () => { this.drag = null; }, onpointerleave: () => { this.tip.hidden = true; },
      onkeydown: (e) => this.key(e),
    });
    this.canvas.addEventListener("wheel", (e) => {
      if (document.activeElement !== this.canvas && !e.ctrlKey) return;
      e.preventDefault();
      this.zoom(Math.exp(e.deltaY * 0.0015), this.at(e));
    }, { passive: false });
    const choose = (name, axis) => {
      const list = h("select", { "aria-label": name, onchange: () => {
        this[axis] = this.figures[Number(list.value)];
        this.fit();
        this.select(this.selected);
      } }, this.figures.map((f, i) => h("option", { value: i, selected: f === this[axis] }, f.title)));
      return h("label", {}, name + " ", list);
    };
    this.tip = h("div", { class: "tip", role: "tooltip", hidden: true });
    this.details = h("div", { class: "details", "aria-live": "polite" });
    place.classList.add("alive");
    place.append(h("div", { class: "tools" }, choose("across", "across"), choose("upwards", "upward"),
      h("button", { type: "button", onclick: () => this.fit() }, "All")), this.canvas, this.tip, this.details);
  }

  theme() {
    this.palette = readPalette();
    this.draw();
  }

  // ------------------------------------------------------------------------------------------ view

  fit() {
    const range = ({ values }) => {
      let low = Infinity, high = -Infinity;
      for (const v of values) {
        if (v < low) low = v;
        if (v > high) high = v;
      }
      const room = (high - low || high || 1) * 0.05;
      return [low - room, high + room];
    };
    this.view = { x: range(this.across), y: range(this.upward) };
    this.front = this.frontOf();
    this.draw();
  }

  /** Points than which none that counts is better in one of the two and no worse in both. */
  frontOf() {
    const cost = (figure, i) => figure.down ? figure.values[i] : -figure.values[i];
    const a = this.across, b = this.upward, order = [], front = [];
    for (let i = 0; i < this.points.counted; ++i)
      if (!Number.isNaN(a.values[i] + b.values[i])) order.push(i);
    order.sort((i, k) => cost(a, i) - cost(a, k) || cost(b, i) - cost(b, k) || i - k);
    for (const i of order)
      if (front.length === 0 || cost(b, i) < cost(b, front[front.length - 1])) front.push(i);
    return front;
  }

  x(v) { return kLeft + (v - this.view.x[0]) / (this.view.x[1] - this.view.x[0]) * (this.width - kLeft - kRight); }
  y(v) { return kHeight - kBottom - (v - this.view.y[0]) / (this.view.y[1] - this.view.y[0]) * (kHeight - kBottom - kTop); }

  at(e) {
    const r = this.canvas.getBoundingClientRect();
    return { x: e.clientX - r.left, y: e.clientY - r.top };
  }

  zoom(factor, at) {
    const share = { x: (at.x - kLeft) / (this.width - kLeft - kRight), y: (kHeight - kBottom - at.y) / (kHeight - kBottom - kTop) };
    for (const axis of ["x", "y"]) {
      const [low, high] = this.view[axis], middle = low + (high - low) * Math.min(1, Math.max(0, share[axis]));
      const next = [middle - (middle - low) * factor, middle + (high - middle) * factor];
      if (next[1] - next[0] > Math.abs(middle) * 1e-9 && next[1] - next[0] < 1e12) this.view[axis] = next;
    }
    this.draw();
  }

  pan(shareX, shareY) {
    for (const [axis, share] of [["x", shareX], ["y", shareY]]) {
      const [low, high] = this.view[axis], by = (high - low) * share;
      this.view[axis] = [low + by, high + by];
    }
    this.draw();
  }

  // --------------------------------------------------------------------------------------- drawing

  draw() {
    if (!this.view || this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const begin = performance.now();
      this.paint();
      this.canvas.dataset.redraw = (performance.now() - begin).toFixed(1);
    });
  }

  paint() {
    const { palette, points } = this, width = this.width = Math.max(240, this.place.clientWidth);
    const g = sizeCanvas(this.canvas, width, kHeight);
    g.fillStyle = palette.panel;
    g.fillRect(0, 0, width, kHeight);
    this.paintAxes(g);
    g.save();
    g.beginPath();
    g.rect(kLeft, kTop - 6, width - kLeft - kRight + 6, kHeight - kBottom - kTop + 6);
    g.clip();
    const few = points.rows <= 2000;
    this.paintDots(g, points.counted, points.rows, palette.lost, few ? 5 : 3);
    this.paintDots(g, 0, points.counted, palette.F, few ? 6 : 3);
    g.strokeStyle = palette.ink;
    g.lineWidth = 1.5;
    g.beginPath();
    let corner = null;  // what costs more of both than a point of the front is behind it
    for (const i of this.front) {
      const x = this.x(this.across.values[i]), y = this.y(this.upward.values[i]);
      if (corner !== null) g.lineTo(x, corner);
      g.lineTo(x, corner = y);
    }
    g.stroke();
    this.paintUsable(g);
    const s = this.selected, x = this.x(this.across.values[s]), y = this.y(this.upward.values[s]);
    g.strokeStyle = palette.mark;
    g.lineWidth = 2.5;
    g.beginPath();
    g.arc(x, y, 7, 0, 2 * Math.PI);
    g.stroke();
    g.restore();
  }

  paintAxes(g) {
    const { palette, width } = this, font = getComputedStyle(document.body).fontFamily;
    g.font = "11px " + font;
    g.textBaseline = "middle";
    g.fillStyle = palette.dim;
    g.strokeStyle = palette.rule;
    g.lineWidth = 1;
    g.beginPath();
    const [low, high] = this.view.y, up = niceStep(high - low, 6);
    g.textAlign = "right";
    for (let i = Math.ceil(low / up); i * up <= high; ++i) {
      const y = Math.round(this.y(i * up)) + 0.5;
      g.moveTo(kLeft, y);
      g.lineTo(width - kRight, y);
      g.fillText(axisText(i * up, up), kLeft - 8, y);
    }
    const [left, right] = this.view.x, by = niceStep(right - left, (width - kLeft) / 110);
    g.textAlign = "center";
    for (let i = Math.ceil(left / by); i * by <= right; ++i) {
      const x = Math.round(this.x(i * by)) + 0.5;
      g.moveTo(x, kHeight - kBottom);
      g.lineTo(x, kHeight - kBottom + 4);
      g.fillText(axisText(i * by, by), x, kHeight - kBottom + 13);
    }
    g.stroke();
    const named = ({ title, unit }) => title + (unit && unit !== title ? ", " + unit : "");
    g.textAlign = "right";
    g.fillText(named(this.across), width - kRight, kHeight - 7);
    g.textAlign = "left";
    g.fillText(named(this.upward), 2, 6);
  }

  // What a GPU has, where all have the same.
  paintUsable(g) {
    const { palette, width } = this;
    if (this.upward.key !== "memory" || this.usable === null) return;
    const y = Math.round(this.y(this.usable * this.upward.factor)) + 0.5;
    g.strokeStyle = g.fillStyle = palette.ink;
    g.lineWidth = 1;
    g.setLineDash([5, 4]);
    g.beginPath();
    g.moveTo(kLeft, y);
    g.lineTo(width - kRight, y);
    g.stroke();
    g.setLineDash([]);
    g.textAlign = "right";
    g.fillText(`usable ${gib(this.usable)} GiB`, width - kRight, y - 8);
  }

  // Few as circles, many pixel by pixel.
  paintDots(g, from, until, colour, size) {
    const a = this.across.values, b = this.upward.values;
    if (size > 4) {
      g.fillStyle = colour;
      for (let i = from; i < until; ++i) {
        g.beginPath();
        g.arc(this.x(a[i]), this.y(b[i]), size / 2, 0, 2 * Math.PI);
        g.fill();
      }
      return;
    }
    const { width, height } = this.canvas, ratio = width / this.width, edge = Math.round(size * ratio);
    const layer = h("canvas", { width, height }), on = layer.getContext("2d");
    on.fillStyle = colour;
    on.fillRect(0, 0, 1, 1);
    const ink = new Uint32Array(on.getImageData(0, 0, 1, 1).data.buffer)[0];
    const image = on.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);
    const { x, y } = this.view, byX = (this.width - kLeft - kRight) / (x[1] - x[0]), byY = (kHeight - kBottom - kTop) / (y[1] - y[0]);
    for (let i = from; i < until; ++i) {
      const left = Math.round((kLeft + (a[i] - x[0]) * byX) * ratio - edge / 2);
      const top = Math.round((kHeight - kBottom - (b[i] - y[0]) * byY) * ratio - edge / 2);
      if (!(left >= 0 && left + edge <= width && top >= 0 && top + edge <= height)) continue;
      const begin = top * width + left;
      if (pixels[begin] === ink && pixels[begin + (edge - 1) * (width + 1)] === ink) continue;
      for (let row = begin; row < begin + edge * width; row += width) pixels.fill(ink, row, row + edge);
    }
    on.putImageData(image, 0, 0);
    g.drawImage(layer, 0, 0, this.width, kHeight);
  }

  // ------------------------------------------------------------------------------ pointer and keys

  nearest({ x, y }) {
    const a = this.across.values, b = this.upward.values;
    let best = -1, least = kReach * kReach;
    for (let i = 0; i < this.points.rows; ++i) {
      const u = this.x(a[i]) - x, v = this.y(b[i]) - y, d = u * u + v * v;
      if (d < least) {
        least = d;
        best = i;
      }
    }
    return best;
  }

  press(e) {
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(e.pointerId);
    this.drag = { ...this.at(e), moved: false };
  }

  move(e) {
    const at = this.at(e), d = this.drag;
    if (!d) {
      this.hover(at);
      return;
    }
    if (Math.abs(at.x - d.x) + Math.abs(at.y - d.y) < 4 && !d.moved) return;
    this.pan((d.x - at.x) / (this.width - kLeft - kRight), (at.y - d.y) / (kHeight - kBottom - kTop));
    this.drag = { ...at, moved: true };
  }

  release(e) {
    const moved = this.drag?.moved;
    this.drag = null;
    if (moved) return;
    const i = this.nearest(this.at(e));
    if (i >= 0) this.select(i);
  }

  hover(at) {
    const i = this.nearest(at);
    this.tip.hidden = i < 0;
    if (i < 0) return;
    this.tip.replaceChildren(h("b", {}, this.layoutOf(i)),
      h("dl", {}, this.factsOf(i).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
    const p = this.place.getBoundingClientRect(), r = this.canvas.getBoundingClientRect();
    this.tip.style.left = Math.max(0, Math.min(at.x + 14, p.width - this.tip.offsetWidth - 4)) + "px";
    this.tip.style.top = r.top - p.top + at.y + 18 + "px";
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const middle = { x: (kLeft + this.width) / 2, y: kHeight / 2 };
    const action = {
      ArrowLeft: () => this.select(Math.max(0, this.selected - 1)),
      ArrowRight: () => this.select(Math.min(this.points.rows - 1, this.selected + 1)),
      w: () => this.zoom(1 / 1.5, middle), s: () => this.zoom(1.5, middle),
      a: () => this.pan(-0.2, 0), d: () => this.pan(0.2, 0), f: () => this.fit(),
    }[e.key];
    if (!action) return;
    e.preventDefault();
    action();
  }

  // ------------------------------------------------------------------------------------- selection

  /** "TP 2 PP 4": what is more than one. */
  layoutOf(i) {
    return this.points.axes.map(({ title, column }) => {
      const text = textOf(this.points, column, i), whole = this.points.column[column].kind !== "text";
      return whole && text !== "1" && text !== "0" && !["seq", "GBS", "GPUs"].includes(title) ? `${title} ${text}` : "";
    }).filter(Boolean).join(" ") || "one of everything";
  }

  factsOf(i) {
    const facts = this.figures.filter((f) => !Number.isNaN(f.values[i])).map((f) => [f.title, withUnit(f, f.values[i])]);
    for (const [name, column] of [["GPUs", "gpus"], ["DP", "dp"], ["recompute", "recompute"], ["schedule", "schedule"], ["layers", "stage_layers"]])
      if (textOf(this.points, column, i) && !facts.some(([n]) => n === name)) facts.push([name, textOf(this.points, column, i)]);
    const others = textOf(this.points, "others", i);
    if (others) facts.push(...others.split("\n").map((setting) => ["also set", setting]));
    if (i >= this.points.counted) facts.push(["", "does not fit, or breaks a constraint"]);
    return facts;
  }

  select(i) {
    this.selected = i;
    const name = i < this.points.counted ? `#${i + 1}: ` : "";
    this.details.replaceChildren(h("h3", {}, name + this.layoutOf(i)),
      h("dl", { class: "facts" }, this.factsOf(i).flatMap(([title, text]) => [h("dt", {}, title), h("dd", {}, text)]),
        h("dt", {}, "run"), h("dd", {}, h("code", {}, textOf(this.points, "run", i)))));
    if (this.lines)
      drawLines(this.lines, this.points, i, {
        ...this.across, title: this.across.title, text: (v) => withUnit(this.across, v),
      }, (row) => this.select(row));
    const [x, y] = this.figures;
    writeState({ x: this.across === x ? "" : this.across.key, y: this.upward === y ? "" : this.upward.key, p: i || "" });
    this.draw();
  }
}
