// SPDX-License-Identifier: Apache-2.0
// Numbers as the command writes them; times are picoseconds.

const kUnits = [[1e12, "s"], [1e9, "ms"], [1e6, "us"], [1e3, "ns"]];

/** "13.62 s": four digits in a unit that suits. */
export function time(ps) {
  const size = Math.abs(ps);
  for (const [factor, unit] of kUnits)
    if (size >= factor) return significant(ps / factor) + " " + unit;
  return Math.round(ps) + " ps";
}

function significant(value) {
  const digits = Math.floor(Math.log10(Math.abs(value) || 1)) + 1;
  return value.toFixed(Math.max(0, 4 - Math.max(1, digits)));
}

/** Of a mark on an axis with marks so far apart: as many decimals as tell them apart. */
export function axisTime(ps, step) {
  if (ps === 0) return "0";
  const [factor, unit] = kUnits.find(([f]) => Math.abs(ps) >= f) ?? [1, "ps"];
  const decimals = Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9));
  return (ps / factor).toFixed(decimals) + " " + unit;
}

export function grouped(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

export function gib(bytes) {
  return (bytes / 2 ** 30).toFixed(1);
}

/** "1.5 GiB". */
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let u = 0, v = n;
  while (Math.abs(v) >= 1024 && u < units.length - 1) v /= 1024, ++u;
  return (u === 0 ? String(v) : v.toFixed(1)) + " " + units[u];
}

export function percent(share) {
  return (share * 100).toFixed(1) + " %";
}

/** Step of a scale that has about so many marks: 1, 2 or 5 times a power of ten. */
export function niceStep(span, marks) {
  const raw = span / Math.max(1, marks), base = 10 ** Math.floor(Math.log10(raw));
  for (const f of [1, 2, 5]) if (f * base >= raw) return f * base;
  return 10 * base;
}
