// SPDX-License-Identifier: Apache-2.0
// Colours for canvases, out of the style sheet, so that both themes have one source.

const kNames = ["ground", "panel", "ink", "dim", "rule", "accent", "mark", "F", "B", "W", "R", "U", "X", "O", "lost"];

function rgb(text) {
  const hex = text.trim().replace("#", "");
  return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

function mix(a, b, share) {
  return a.map((v, i) => Math.round(v * (1 - share) + b[i] * share));
}

const css = (c) => `rgb(${c[0]},${c[1]},${c[2]})`;

/** Colours by name; `kinds[k][shade]`: of slices, three shades each, with ink that reads on them. */
export function readPalette() {
  const style = getComputedStyle(document.documentElement);
  const colours = {};
  for (const name of kNames) colours[name] = style.getPropertyValue("--" + name).trim();
  const ground = rgb(colours.panel);
  const kinds = {};
  for (const name of ["F", "B", "W", "R", "U", "X", "O"]) {
    kinds[name] = [0, 0.28, 0.48].map((share) => {
      const c = mix(rgb(colours[name]), ground, share);
      const light = (0.299 * c[0] + 0.587 * c[1] + 0.114 * c[2]) > 140;
      return { fill: css(c), ink: light ? "#10161f" : "#ffffff" };
    });
  }
  const categories = {}, own = ["parameters", "gradients", "optimizer_state", "activations",
    "recompute_workspace", "workspace", "communication", "logits"];
  for (const name of own) categories[name] = style.getPropertyValue("--m-" + name).trim();
  return { ...colours, kinds, categories };
}
