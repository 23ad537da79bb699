// SPDX-License-Identifier: Apache-2.0
// Elements.  Whatever a file brought along becomes text: nothing here parses markup.

/** h("p", {class: "note", onclick}, "text", child, ...); null children are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child != null) element.append(child);
  return element;
}

/** A table of rows of texts; columns whose title begins with "#" hold numbers. */
export function table(caption, columns, rows) {
  const number = columns.map((c) => c.startsWith("#"));
  const cell = (tag, text, i, more = {}) =>
    h(tag, { ...more, class: number[i] ? "n" : null }, text);
  return h("div", { class: "scroll" }, h("table", {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((c, i) => cell("th", c.replace(/^#/, ""), i, { scope: "col" })))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text, i) =>
      i === 0 ? cell("th", text, i, { scope: "row" }) : cell("td", text, i)))))));
}

/** Sharp on any screen: a canvas of so many CSS pixels; its context, scaled. */
export function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const w = Math.round(width * ratio), t = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== t) {
    canvas.width = w;
    canvas.height = t;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  const context = canvas.getContext("2d", { alpha: false });
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
