// SPDX-License-Identifier: Apache-2.0
// The timeline on a canvas: all ranks above each other over one axis of time.
import { kAxis, kHead, kLetter, kStream, draw } from "./drawing.js";
import { h, table } from "./dom.js";
import { grouped, percent, time } from "./format.js";
import { factsOf, firstAfter, layRows, nameOf, opFacts, sumsOf } from "./rows.js";
import { readPalette } from "./palette.js";
import { readState, writeState } from "./state.js";

const kMostHeight = 620;

export class Timeline {
  /** `whole`: the axis ends there; `others`: all timelines of the page, this one too once it is made. */
  constructor(step, place, { number, whole, others }) {
    this.step = step;
    this.number = number;
    this.whole = whole;
    this.others = others;
    if (number === 0) Timeline.active = this;
    this.open = new Set();
    this.copies = new Set();
    this.from = 0;
    this.until = whole;
    this.top = 0;  // first visible line, in pixels
    this.focus = { row: -1, slice: -1 };
    this.span = null;  // that is marked
    this.matches = null;
    this.showPath = true;
    this.build(place);
    this.theme();
    this.rows = layRows(step, this.open, this.copies);
    this.restore();
    this.canvas.dataset.slices = step.ranks.reduce((sum, r) => sum + r.ops + r.program.count, 0) + step.rendezvous;
  }

  // ------------------------------------------------------------------------------------- elements

  build(place) {
    this.canvas = h("canvas", {
      tabindex: 0, role: "application",
      "aria-label": "Timeline of all ranks. W and S zoom, A and D move, arrows go from slice to slice, " +
        "Enter unfolds a rank, M marks a span, F shows all, question mark lists the keys.",
    });
    this.found = h("span", { class: "dim", "aria-live": "polite" });
    this.search = h("input", {
      type: "search", placeholder: "find ops", "aria-label": "Find ops by name", autocomplete: "off", spellcheck: "false",
      oninput: () => { for (const each of this.others) each.find(this.search.value); }, onkeydown: (e) => this.searchKey(e),
    });
    const button = (text, title, action) => h("button", { type: "button", title, onclick: action }, text);
    this.unfoldButton = button("Unfold all", "streams of every rank", () => this.unfoldAll());
    const tools = h("div", { class: "tools" },
      button("−", "zoom out (S)", () => this.zoom(1.6)), button("+", "zoom in (W)", () => this.zoom(1 / 1.6)),
      button("Whole step", "fit (F)", () => this.fit()), this.unfoldButton,
      button("Critical path", "show or hide it (C)", () => this.togglePath()),
      button("Mark span", "sums of what is shown or selected (M)", () => Timeline.active.mark()),
      this.search, this.found,
      button("?", "keys", () => this.help()));
    this.tip = h("div", { class: "tip", role: "tooltip", hidden: true });
    this.details = h("div", { class: "details", "aria-live": "polite" });
    this.sums = h("div", { class: "details sums" });
    this.dialog = helpDialog();
    place.classList.add("alive");
    if (this.number > 0) tools.hidden = true;
    place.append(tools, this.canvas, this.tip, h("div", { class: "beside" }, this.details, this.sums), this.dialog);
    this.place = place;
    this.listen();
  }

  listen() {
    const c = this.canvas;
    new ResizeObserver(() => this.layout()).observe(this.place);
    c.addEventListener("focus", () => { Timeline.active = this; });
    c.addEventListener("wheel", (e) => this.wheel(e), { passive: false });
    c.addEventListener("pointerdown", (e) => this.press(e));
    c.addEventListener("pointermove", (e) => this.move(e));
    c.addEventListener("pointerup", (e) => this.release(e));
    c.addEventListener("pointercancel", () => { this.drag = null; });
    c.addEventListener("pointerleave", () => { if (!this.drag) this.hover(null); });
    document.addEventListener("keydown", (e) => this.key(e));
    window.addEventListener("hashchange", () => { this.restore(); this.layout(); });
  }

  theme() {
    this.palette = readPalette();
    this.redraw();
  }

  // --------------------------------------------------------------------------------------- layout

  layout() {
    this.rows = layRows(this.step, this.open, this.copies);
    let y = 0;
    for (const row of this.rows) {
      row.y = y;
      row.height = row.head ? kHead : kStream;
      y += row.height;
    }
    this.content = y;
    this.width = Math.max(240, this.place.clientWidth);
    this.gutter = this.width < 600 ? 92 : this.step.folded ? 168 : 200;
    this.height = Math.min(this.content + kAxis + 4, kMostHeight);
    this.top = Math.max(0, Math.min(this.top, this.content + kAxis + 4 - this.height));
    this.redraw();
  }

  redraw() {
    if (this.pending || !this.rows) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      const begin = performance.now();
      draw(this);
      this.canvas.dataset.redraw = (performance.now() - begin).toFixed(1);
    });
  }

  x(t) { return this.gutter + (t - this.from) / (this.until - this.from) * (this.width - this.gutter); }
  t(x) { return this.from + (x - this.gutter) / (this.width - this.gutter) * (this.until - this.from); }

  rowAt(y) {
    const at = y - kAxis + this.top;
    if (y < kAxis) return -1;
    let low = 0, high = this.rows.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.rows[middle].y <= at) low = middle;
      else high = middle - 1;
    }
    const row = this.rows[low];
    return row && at < row.y + row.height ? low : -1;
  }

  headOf(role) {
    return this.rows.find((row) => row.head && row.rank.role === role && row.rank.lane === this.step.lanes[this.step.lanes.length - 1]) ??
      this.rows.find((row) => row.head && row.rank.role === role);
  }

  clampX(x) { return Math.max(this.gutter, Math.min(this.width, x)); }

  // ---------------------------------------------------------------------------------- view of time

  /** What is shown of a span that is asked for, at least 1 ns and about the step; null of what is none. */
  viewOf(from, until) {
    if (!Number.isFinite(from) || !Number.isFinite(until)) return null;
    const whole = this.whole, least = 1e3;
    const span = Math.min(whole * 1.02, Math.max(least, until - from));
    if (until - from !== span) {
      const middle = (from + until) / 2;
      from = middle - span / 2;
    }
    from = Math.max(-whole * 0.01, Math.min(from, whole * 1.01 - span));
    return { from, until: from + span };
  }

  setView(from, until) {
    const view = this.viewOf(from, until);
    if (!view) return;
    for (const each of this.others.length > 0 ? this.others : [this]) {
      Object.assign(each, view);
      each.redraw();
    }
    this.save();
  }

  zoom(factor, x = this.pointer ?? (this.gutter + this.width) / 2) {
    const at = this.t(this.clampX(x));
    this.setView(at - (at - this.from) * factor, at + (this.until - at) * factor);
  }

  pan(share) {
    const by = (this.until - this.from) * share;
    this.setView(this.from + by, this.until + by);
  }

  fit() {
    const row = this.rows[this.focus.row], i = this.focus.slice;
    const zoomed = this.from > 0 || this.until < this.whole;
    if (row && i >= 0 && !zoomed) {
      const span = row.end[i] - row.begin[i];
      this.setView(row.begin[i] - span * 2, row.end[i] + span * 2);
    } else {
      this.setView(0, this.whole);
    }
  }

  // --------------------------------------------------------------------------------------- pointer

  wheel(e) {
    const r = this.canvas.getBoundingClientRect(), x = e.clientX - r.left;
    if (x < this.gutter && this.content + kAxis > this.height) {
      e.preventDefault();
      this.scroll(e.deltaY);
    } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      this.pan((e.deltaX || e.deltaY) / (this.width - this.gutter));
    } else if (e.ctrlKey || document.activeElement === this.canvas) {
      e.preventDefault();
      this.zoom(Math.exp(e.deltaY * 0.0015), x);
    }
  }

  scroll(by) {
    this.top = Math.max(0, Math.min(this.top + by, this.content + kAxis + 4 - this.height));
    this.redraw();
  }

  press(e) {
    const r = this.canvas.getBoundingClientRect();
    this.canvas.focus({ preventScroll: true });
    this.drag = { x: e.clientX - r.left, y: e.clientY - r.top, from: this.from, until: this.until, top: this.top, moved: false, marks: e.shiftKey };
    this.canvas.setPointerCapture(e.pointerId);
  }

  move(e) {
    const r = this.canvas.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    this.pointer = x;
    if (!this.drag) { this.hover({ x, y }); return; }
    const d = this.drag;
    if (Math.abs(x - d.x) + Math.abs(y - d.y) > 3) d.moved = true;
    if (!d.moved) return;
    if (d.marks) {
      const [a, b] = [this.t(this.clampX(d.x)), this.t(this.clampX(x))].sort((p, q) => p - q);
      this.span = { from: a, until: b };
      this.redraw();
      return;
    }
    const by = (x - d.x) / (this.width - this.gutter) * (d.until - d.from);
    this.top = Math.max(0, Math.min(d.top - (y - d.y), this.content + kAxis + 4 - this.height));
    this.setView(d.from - by, d.until - by);
  }

  release(e) {
    const d = this.drag;
    this.drag = null;
    if (!d) return;
    if (d.moved) {
      if (d.marks) this.showSums();
      return;
    }
    const r = this.canvas.getBoundingClientRect();
    this.click(e.clientX - r.left, e.clientY - r.top);
  }

  click(x, y) {
    const number = this.rowAt(y);
    if (number < 0) return;
    const row = this.rows[number];
    if (x < this.gutter) {
      const countAt = this.gutter - 8 - ("×" + grouped(row.copies ?? 1)).length * kLetter;
      if (row.head && row.copies > 1 && x > countAt && this.gutter > 100) this.toggle(this.copies, row.number);
      else if (row.head) this.toggle(this.open, row.number);
      return;
    }
    this.select(number, this.sliceAt(row, x));
  }

  toggle(set, number) {
    this.layAnew(() => { if (!set.delete(number)) set.add(number); });
    this.save();
  }

  // Numbers of rows change with what is unfolded: the focus stays on its own row, or where that is
  // folded away on its rank, without a slice.
  layAnew(change) {
    const { row, slice } = this.focus, now = this.rows[row];
    change();
    this.layout();
    if (!now) return;
    const own = this.rowOf(now);
    if (own >= 0) this.focus = { row: own, slice };
    else this.select(this.rows.findIndex((r) => r.head && r.number === now.number), -1);
  }

  // The number of that row, however the rows were laid; -1 if it is folded away.
  rowOf(own) {
    return this.rows.findIndex((r) => r.number === own.number && r.type === own.type && r.name === own.name && r.copy === own.copy);
  }

  unfoldAll() {
    const fold = this.open.size > 0;
    for (const each of this.others) {
      each.open = new Set(fold ? [] : each.step.ranks.keys());
      each.layout();
      each.select(-1, -1);
    }
    this.unfoldButton.textContent = fold ? "Unfold all" : "Fold all";
    this.save();
  }

  // The slice under x, or the nearest within two pixels.
  sliceAt(row, x) {
    const t = this.t(x), reach = 2 * (this.until - this.from) / (this.width - this.gutter);
    const i = firstAfter(row, t - reach);
    for (let k = i; k < row.ids.length && row.begin[k] <= t + reach; ++k)
      if (row.begin[k] <= t && t < row.end[k]) return k;
    return i < row.ids.length && row.begin[i] <= t + reach ? i : -1;
  }

  hover(at) {
    const number = at && at.x >= this.gutter ? this.rowAt(at.y) : -1;
    const row = this.rows[number], slice = row ? this.sliceAt(row, at.x) : -1;
    this.canvas.style.cursor = at && at.x < this.gutter ? "pointer" : "crosshair";
    if (slice < 0) { this.tip.hidden = true; return; }
    this.tip.replaceChildren(h("b", {}, nameOf(this.step, row, slice)),
      h("dl", {}, factsOf(this.step, row, slice, time).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
    this.tip.hidden = false;
    const r = this.canvas.getBoundingClientRect(), p = this.place.getBoundingClientRect();
    const wide = this.tip.offsetWidth;
    const x = Math.min(r.left - p.left + at.x + 14, p.width - wide - 4);
    this.tip.style.left = Math.max(0, x) + "px";
    this.tip.style.top = r.top - p.top + at.y + 18 + "px";
  }

  // ------------------------------------------------------------------------------ selection, spans

  select(row, slice) {
    this.focus = { row, slice };
    const line = this.rows[row];
    this.details.replaceChildren();
    if (line && slice >= 0) {
      this.details.append(h("h3", {}, nameOf(this.step, line, slice)),
        h("dl", { class: "facts" }, factsOf(this.step, line, slice, time).flatMap(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
    }
    this.redraw();
    this.save();
  }

  // Into view, with as much around it as there was.
  reveal() {
    const row = this.rows[this.focus.row], i = this.focus.slice;
    if (!row || i < 0) return;
    if (row.begin[i] < this.from || row.end[i] > this.until) {
      const span = Math.max(this.until - this.from, (row.end[i] - row.begin[i]) * 1.2);
      const middle = (row.begin[i] + row.end[i]) / 2;
      this.setView(middle - span / 2, middle + span / 2);
    }
    const seen = this.height - kAxis;
    if (row.y < this.top) this.top = row.y;
    if (row.y + row.height > this.top + seen) this.top = row.y + row.height - seen;
  }

  // To a neighbour in the same row, or what runs then in another row.
  step_(rows, slices) {
    let { row, slice } = this.focus;
    if (row < 0) {
      row = 0;
      slice = firstAfter(this.rows[0], this.from);
    } else if (slices !== 0) {
      slice = Math.max(0, Math.min(slice + slices, this.rows[row].ids.length - 1));
    } else {
      const now = this.rows[row], t = slice >= 0 ? now.begin[slice] : this.from;
      row = Math.max(0, Math.min(row + rows, this.rows.length - 1));
      slice = Math.min(firstAfter(this.rows[row], t), this.rows[row].ids.length - 1);
    }
    this.select(row, slice);
    this.reveal();
  }

  mark() {
    const row = this.rows[this.focus.row], i = this.focus.slice;
    const [from, until] = row && i >= 0 ? [row.begin[i], row.end[i]]
      : [Math.max(0, this.from), Math.min(this.step.makespan, this.until)];
    this.span = this.span && this.span.from === from && this.span.until === until ? null : { from, until };
    this.showSums();
    this.redraw();
  }

  /** The rank that sums are of: the selected one, else the critical one. */
  focusedRank() {
    return this.rows[this.focus.row]?.rank ?? this.headOf(this.step.critical)?.rank ?? this.step.ranks[0];
  }

  showSums() {
    this.sums.replaceChildren();
    this.redraw();
    if (!this.span || !(this.span.until > this.span.from)) return;
    const { from, until } = this.span, rank = this.focusedRank();
    const rows = sumsOf(this.step, rank, from, until);
    const list = table(`${rank.name}, ${time(from)} to ${time(until)}: ${time(until - from)}`,
      ["kind", "#time", "#of the span", "#slices"],
      rows.map((r) => [r.title, time(r.ps), percent(r.ps / (until - from)), r.slices ? grouped(r.slices) : ""]));
    [...list.querySelectorAll("tbody tr")].forEach((line, i) => {
      line.dataset.key = rows[i].key;
      line.dataset.ps = rows[i].ps;
    });
    this.sums.append(h("h3", {}, "Marked span"), list);
  }

  // --------------------------------------------------------------------------------------- finding

  find(text) {
    const wanted = text.trim().toLowerCase();
    this.matches = null;
    this.found.textContent = "";
    if (wanted) {
      this.matches = this.step.labels.map((label) => label.toLowerCase().includes(wanted));
      const kinds = this.matches.filter(Boolean).length;
      this.found.textContent = kinds === 0 ? "nothing is called that" : `${grouped(this.countMatches())} slices; Enter: next`;
      if (kinds > 0 && this.open.size === 0)
        this.layAnew(() => this.open.add(this.step.ranks.indexOf(this.focusedRank())));
    }
    this.redraw();
  }

  countMatches() {
    const inPass = this.step.passes.map((pass) => {
      let n = 0;
      for (let k = 3; k < pass.ops.length; k += 6) n += this.matches[pass.ops[k]] ? 1 : 0;
      return n;
    });
    let sum = 0;
    for (const rank of this.step.ranks) for (const pass of rank.program.pass) sum += inPass[pass];
    return sum;
  }

  isMatch(row, i) {
    const id = row.ids[i];
    if (row.type === "transfer") return this.matches[this.step.transfers[id].label];
    if (row.type === "pass") return false;
    return this.matches[opFacts(this.step, row.rank, id).label];
  }

  searchKey(e) {
    if (e.key === "Escape") {
      this.search.value = "";
      for (const each of this.others) each.find("");
      this.canvas.focus();
    } else if (e.key === "Enter" && this.matches) {
      Timeline.active.nextMatch(e.shiftKey ? -1 : 1);
    }
  }

  // Forward in the row that is selected, then in the next ones.
  nextMatch(by) {
    let { row, slice } = this.focus;
    if (row < 0 || this.rows[row].type === "pass") {
      row = this.rows.findIndex((r) => r.type !== "pass");
      slice = row < 0 ? -1 : firstAfter(this.rows[row], this.from) - by;
    }
    for (let tries = 0; row >= 0 && tries < this.rows.length; ++tries) {
      const line = this.rows[row];
      if (line.type !== "pass")
        for (let i = slice + by; i >= 0 && i < line.ids.length; i += by)
          if (this.isMatch(line, i)) {
            this.select(row, i);
            this.reveal();
            return;
          }
      row = (row + by + this.rows.length) % this.rows.length;
      slice = by > 0 ? -1 : this.rows[row].ids.length;
    }
  }

  // ------------------------------------------------------------------------------------------ keys

  key(e) {
    if (Timeline.active !== this || e.ctrlKey || e.metaKey || e.altKey) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || this.dialog.open) return;
    const here = document.activeElement === this.canvas;
    const keys = {
      w: () => this.zoom(1 / 1.5), s: () => this.zoom(1.5), a: () => this.pan(-0.2), d: () => this.pan(0.2),
      f: () => this.fit(), m: () => this.mark(), c: () => this.togglePath(),
      "/": () => this.others[0].search.focus(), "?": () => this.help(),
    };
    const arrows = {
      ArrowLeft: () => this.step_(0, -1), ArrowRight: () => this.step_(0, 1),
      ArrowUp: () => this.step_(-1, 0), ArrowDown: () => this.step_(1, 0),
      Enter: () => { const row = this.rows[this.focus.row]; if (row) this.toggle(this.open, row.number); },
      Escape: () => { this.span = null; this.select(-1, -1); this.showSums(); },
    };
    const action = keys[e.key.toLowerCase()] ?? (here ? arrows[e.key] : undefined);
    if (!action) return;
    e.preventDefault();
    action();
  }

  togglePath() {
    const show = !this.showPath;
    for (const each of this.others) {
      each.showPath = show;
      each.redraw();
    }
  }

  help() {
    this.dialog.showModal();
  }

  // ----------------------------------------------------------------------------------------- state

  save() {
    const row = this.rows[this.focus.row], whole = this.from <= 0 && this.until >= this.whole;
    writeState({
      c: this.others.length > 1 ? this.number : "",
      r: row ? row.number : "",
      t: whole ? "" : `${Math.round(Math.max(0, this.from))}-${Math.round(this.until)}`,
      s: row && this.focus.slice >= 0 ? `${this.rows.filter((r) => r.number === row.number && r.copy === undefined).indexOf(row)}.${this.focus.slice}` : "",
      u: [...this.open].join("."),
    });
  }

  restore() {
    const state = readState();
    if (Number(state.c ?? 0) !== this.number) {
      state.u = state.s = state.r = "";
    } else {
      Timeline.active = this;
    }
    this.open = new Set((state.u ?? "").split(".").filter((x) => x !== "").map(Number)
      .filter((n) => n >= 0 && n < this.step.ranks.length));
    this.rows = layRows(this.step, this.open, this.copies);
    const [from, until] = (state.t ?? "").split("-").map(Number);
    Object.assign(this, (until > from && this.viewOf(from, until)) || { from: 0, until: this.whole });
    const [line, slice] = (state.s ?? "").split(".").map(Number);
    const number = state.r ? Number(state.r) : NaN;
    const own = this.rows.filter((r) => r.number === number && r.copy === undefined)[line];
    this.layout();
    const row = own ? this.rowOf(own) : -1;
    this.focus = { row: -1, slice: -1 };
    this.details.replaceChildren();
    if (row >= 0 && slice >= 0 && slice < own.ids.length) this.select(row, slice);
  }
}

function helpDialog() {
  const keys = [["W S", "zoom in, out"], ["A D", "move left, right"], ["F", "whole step, or the selected slice"],
    ["← →", "slice before, after"], ["↑ ↓", "rank or stream above, below"], ["Enter", "unfold or fold the rank"],
    ["M", "mark the selected slice, or what is shown: sums by kind"], ["C", "critical path"], ["/", "find ops"],
    ["Esc", "nothing selected"], ["wheel", "zoom, once the timeline was clicked; Shift moves, over names it scrolls"],
    ["drag", "move; with Shift marks a span"]];
  const dialog = h("dialog", { "aria-label": "Keys" });
  dialog.append(h("h3", {}, "Keys"),
    h("dl", { class: "facts" }, keys.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)])),
    h("form", { method: "dialog" }, h("button", { type: "submit" }, "Close")));
  return dialog;
}
