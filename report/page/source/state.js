// SPDX-License-Identifier: Apache-2.0
// The state of the view in the address, so that a link leads to what its sender saw:
// #r=RANK&t=FROM-UNTIL&s=ROW.SLICE, times in picoseconds, and &u=RANKS, those that are unfolded.

/** Parts that are no text in an address are as if they were not there. */
export function readState() {
  const state = {};
  for (const part of location.hash.slice(1).split("&")) {
    const at = part.indexOf("=");
    if (at <= 0) continue;
    try {
      state[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
    } catch {
      // "%" without two digits
    }
  }
  return state;
}

let waiting = 0;

/** Later, and the last one only: browsers refuse many changes in a row. */
export function writeState(state) {
  clearTimeout(waiting);
  waiting = setTimeout(() => {
    const hash = Object.entries(state).filter(([, value]) => value !== "" && value != null)
      .map(([key, value]) => key + "=" + encodeURIComponent(value)).join("&");
    history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
  }, 200);
}
