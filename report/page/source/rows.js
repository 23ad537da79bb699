// SPDX-License-Identifier: Apache-2.0
// The lines of the timeline: a rank as its passes, and below it, when it is unfolded, its streams op
// by op and its transfers.  A row has begin and end of its slices in order of begin, and `ids`, what
// they are of the rank: numbers of passes, of ops, or of transfers.
import { kOp, passOf, passText } from "./data.js";

const kPhaseKinds = ["F", "B", "W", "R", "X", "U"];  // by phase
const kLetterKinds = { F: "F", B: "B", I: "B", W: "W", R: "R" };
const kHeavy = new Set(["matmul", "attention"]);

function gather(begin, end, ids) {
  const b = new Float64Array(ids.length), e = new Float64Array(ids.length);
  for (let i = 0; i < ids.length; ++i) {
    b[i] = begin[ids[i]];
    e[i] = end[ids[i]];
  }
  return { begin: b, end: e, ids: Int32Array.from(ids) };
}

const sortedBy = (begin, ids) => ids.sort((a, b) => begin[a] - begin[b]);

function passRow(step, rank) {
  if (!rank.passRow) {
    const ids = [];
    for (let i = 0; i < rank.program.count; ++i) if (rank.passEnd[i] > rank.passBegin[i]) ids.push(i);
    const computes = ids.filter((i) => {
      const ops = step.passes[rank.program.pass[i]].ops;
      for (let k = kOp.stream; k < ops.length; k += kOp.size) if (ops[k] === 0) return true;
      return false;
    });
    rank.passRow = { type: "pass", ...gather(rank.passBegin, rank.passEnd, sortedBy(rank.passBegin, computes)) };
  }
  return rank.passRow;
}

/** Rows of the streams of a rank; made once. */
export function streamRows(step, rank) {
  if (rank.streamRows) return rank.streamRows;
  const of = step.streams.map(() => []);
  let at = 0;
  for (let i = 0; i < rank.program.count; ++i) {
    const ops = step.passes[rank.program.pass[i]].ops;
    for (let k = kOp.stream; k < ops.length; k += kOp.size) of[ops[k]].push(at++);
  }
  const rows = [];
  of.forEach((ids, stream) => {
    if (ids.length > 0)
      rows.push({ type: "op", stream, name: step.streams[stream], ...gather(rank.begin, rank.end, ids) });
  });
  return rank.streamRows = rows.concat(transferRows(step, rank));
}

// Transfers that run at once are on lines of their own.
function transferRows(step, rank) {
  const of = { sends: [], receives: [], groups: [] };
  step.transfers.forEach((transfer, id) => {
    const sends = step.works[transfer.work].sends && transfer.roles.length === 2;
    transfer.roles.forEach((role, i) => {
      if (role === rank.role) (sends ? (i === 0 ? of.sends : of.receives) : of.groups).push(id);
    });
  });
  const rows = [], { begin, end } = rank.lane;
  for (const [name, ids] of Object.entries(of)) {
    const lines = [];
    for (const id of sortedBy(begin, ids)) {
      let line = lines.find((l) => l.until <= begin[id]);
      if (!line) lines.push(line = { until: 0, ids: [] });
      line.ids.push(id);
      line.until = end[id];
    }
    lines.slice(0, 4).forEach((line, i) =>
      rows.push({ type: "transfer", name: i === 0 ? name : `${name} ${i + 1}`, ...gather(begin, end, line.ids) }));
  }
  return rows;
}

// Where one lane stands for all, the rank that its times are of says less than the role.
export function shortName(step, rank) {
  return step.folded ? step.roles[rank.role].name : rank.name;
}

// Stretches in which the compute stream of a rank stands still between its ops.
function waitsOf(step, rank) {
  if (rank.waits) return rank.waits;
  const row = streamRows(step, rank).find((r) => r.type === "op" && r.stream === 0);
  const begin = [], end = [];
  for (let i = 1; row && i < row.ids.length; ++i)
    if (row.begin[i] > row.end[i - 1]) {
      begin.push(row.end[i - 1]);
      end.push(row.begin[i]);
    }
  rank.waits = { begin, end, ids: begin, known: new Int8Array(begin.length) };
  return rank.waits;
}

/** Whether something is on its way to or from the rank during most of that wait. */
export function waitsForOthers(step, rank, i) {
  const { begin, end, known } = rank.waits;
  if (known[i] === 0) {
    const least = (end[i] - begin[i]) / 2;
    known[i] = 1;
    for (const row of streamRows(step, rank)) {
      if (row.type === "op" && (row.stream === 0 || row.name === "copy")) continue;
      let sum = 0;
      for (let k = firstAfter(row, begin[i]); k < row.ids.length && row.begin[k] < end[i]; ++k)
        sum += Math.min(row.end[k], end[i]) - Math.max(row.begin[k], begin[i]);
      if (sum >= least) known[i] = 2;
    }
  }
  return known[i] === 2;
}

/** All lines to draw.  `open`: numbers of unfolded ranks; `copies`: those whose equals are listed. */
export function layRows(step, open, copies) {
  const rows = [];
  step.ranks.forEach((rank, number) => {
    rows.push({
      ...passRow(step, rank), rank, number, head: true, name: shortName(step, rank), copies: rank.copies,
      waits: waitsOf(step, rank),
    });
    if (open.has(number))
      for (const row of streamRows(step, rank)) rows.push({ ...row, rank, number });
    if (copies.has(number))
      for (let k = 2; k <= Math.min(rank.copies, 1024); ++k)
        rows.push({ ...passRow(step, rank), rank, number, copy: k, name: `equal rank ${k}` });
  });
  return rows;
}

/** First slice of a row that ends after `t`. */
export function firstAfter(row, t) {
  let low = 0, high = row.ids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (row.end[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What an op is: its row in the pass's table. */
export function opFacts(step, rank, op) {
  const pass = passOf(rank, op), ops = step.passes[rank.program.pass[pass]].ops;
  const k = (op - rank.first[pass]) * kOp.size;
  return {
    pass, work: ops[k + kOp.work], stream: ops[k + kOp.stream], phase: ops[k + kOp.phase],
    label: ops[k + kOp.label], layer: ops[k + kOp.layer] - 1, spend: ops[k + kOp.spend],
  };
}

// Which of its stages, from 0 in order of the model, a rank has there: with DualPipe they do not lie
// a pipeline apart.
function chunkOf(program, stage) {
  if (!program.stages) {
    const own = new Set();
    for (let i = 0; i < program.count; ++i) {
      if (program.flags[i] & 1) own.add(program.stage[i]);
      if (program.flags[i] & 2) own.add(program.stage2[i]);
    }
    program.stages = [...own].sort((a, b) => a - b);
  }
  return program.stages.indexOf(stage);
}

/** {kind, shade, second}: names in the palette; `second`: of the other half of a pair. */
export function lookOf(step, row, i) {
  const id = row.ids[i], { program } = row.rank;
  if (row.type === "transfer") return { kind: "X", shade: 0 };
  if (row.type === "op") {
    const f = opFacts(step, row.rank, id);
    if (step.works[f.work].axis) return { kind: "X", shade: 0 };
    return { kind: kPhaseKinds[f.phase], shade: kHeavy.has(step.spends[f.spend]) ? 0 : 1 };
  }
  if (!(program.flags[id] & 1)) return { kind: "U", shade: 0 };
  const chunk = chunkOf(program, program.stage[id]) % 3;
  const kind = kLetterKinds[step.kinds[program.kind[id]]] ?? "O";
  if (!(program.flags[id] & 2)) return { kind, shade: chunk };
  const second = kLetterKinds[step.kinds[program.kind2[id]]] ?? "O";
  return { kind, shade: chunk, second };
}

export function nameOf(step, row, i) {
  const id = row.ids[i];
  if (row.type === "pass") return passText(step, row.rank.program, id);
  if (row.type === "transfer") return step.labels[step.transfers[id].label];
  return step.labels[opFacts(step, row.rank, id).label];
}

/** Pairs of a name and a text: all that is known of a slice. */
export function factsOf(step, row, i, time) {
  const id = row.ids[i], rank = row.rank, facts = [];
  const begin = row.begin[i], end = row.end[i];
  const add = (name, text) => facts.push([name, text]);
  const addAction = (pass) => {
    const { flags, stage, microbatch } = rank.program;
    add("pass", passText(step, rank.program, pass));
    if (flags[pass] & 1) {
      add("microbatch", String(microbatch[pass]));
      add("stage", `${stage[pass]}, chunk ${chunkOf(rank.program, stage[pass])} of the rank`);
    }
  };
  const addPrice = (work) => {
    const w = step.works[work];
    add("work", w.what);
    add("price", `${time(w.ps)}, ${step.origins[w.origin]}`);
    if (w.basis) add("known from", w.basis);
    const longer = end - begin - w.ps;
    if (Math.abs(longer) >= 1) add("against its price", `${longer > 0 ? "+" : "-"}${time(Math.abs(longer))}`);
  };
  add("rank", rank.name);
  add("from", time(begin));
  add("takes", time(end - begin));
  if (row.type === "pass") {
    addAction(id);
    add("ops", String(rank.first[id + 1] - rank.first[id]));
  } else if (row.type === "op") {
    const f = opFacts(step, rank, id);
    addAction(f.pass);
    if (f.layer >= 0) add("layer", `${f.layer} of the stage`);
    add("stream", step.streams[f.stream]);
    add("phase", step.phases[f.phase].replaceAll("_", " "));
    add("in the account", step.spend_titles[f.spend]);
    addPrice(f.work);
  } else {
    const t = step.transfers[id];
    if (t.roles.length > 0) add("between", t.roles.map((role) => step.roles[role].name).join(", "));
    addPrice(t.work);
  }
  return facts;
}

/** Sums of a rank by kind between two times, largest first: [[title, ps, key], ...]. */
export function sumsOf(step, rank, from, until) {
  const rows = streamRows(step, rank), sums = new Map();
  let computing = 0;
  const add = (key, title, ps) => {
    const line = sums.get(key) ?? { key, title, ps: 0, slices: 0 };
    line.ps += ps;
    ++line.slices;
    sums.set(key, line);
  };
  for (const row of rows) {
    for (let i = firstAfter(row, from); i < row.ids.length && row.begin[i] < until; ++i) {
      const ps = Math.min(row.end[i], until) - Math.max(row.begin[i], from);
      if (ps <= 0) continue;
      if (row.type === "transfer") {
        add("transfer " + row.name, `pipeline and groups: ${row.name}`, ps);
        continue;
      }
      const f = opFacts(step, rank, row.ids[i]);
      if (row.stream === 0) {
        computing += ps;
        add(step.spends[f.spend], step.spend_titles[f.spend], ps);
      } else {
        add("stream " + row.name, `${row.name} stream`, ps);
      }
    }
  }
  const all = [...sums.values()].sort((a, b) => b.ps - a.ps);
  const waiting = until - from - computing;
  if (waiting > 0) all.push({ key: "waiting", title: "compute stream stands still", ps: waiting, slices: 0 });
  return all;
}
