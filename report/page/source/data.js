// SPDX-License-Identifier: Apache-2.0
// Reads what report/html/step_data.cc writes.

import { Reader, inflate } from "./bytes.js";

export const kOp = { work: 0, stream: 1, phase: 2, label: 3, layer: 4, spend: 5, size: 6 };

function readProgram(reader) {
  const count = reader.unsigned();
  const program = {
    count, pass: new Uint32Array(count), flags: new Uint8Array(count),
    kind: new Uint8Array(count), stage: new Uint16Array(count), microbatch: new Int32Array(count),
    kind2: new Uint8Array(count), stage2: new Uint16Array(count), microbatch2: new Int32Array(count),
  };
  let first = 0, second = 0;
  for (let i = 0; i < count; ++i) {
    program.pass[i] = reader.unsigned();
    const flags = program.flags[i] = reader.unsigned();
    if (flags & 1) {
      program.kind[i] = reader.unsigned();
      program.stage[i] = reader.unsigned();
      program.microbatch[i] = first += reader.signed();
    }
    if (flags & 2) {
      program.kind2[i] = reader.unsigned();
      program.stage2[i] = reader.unsigned();
      program.microbatch2[i] = second += reader.signed();
    }
  }
  return program;
}

function readRendezvous(reader, count) {
  const all = [];
  for (let i = 0; i < count; ++i) {
    const one = { work: reader.unsigned(), label: reader.unsigned(), roles: [] };
    for (let n = reader.unsigned(); n > 0; --n) one.roles.push(reader.unsigned());
    all.push(one);
  }
  return all;
}

function readRank(reader, step, rank, last) {
  const program = step.programs[rank.role], passes = step.passes;
  const base = new Float64Array(program.count);
  const first = new Int32Array(program.count + 1);
  let at = 0;
  for (let i = 0; i < program.count; ++i) {
    base[i] = (i > 0 ? base[i - 1] : 0) + reader.signed();
    first[i + 1] = first[i] + passes[program.pass[i]].count;
  }
  const ops = first[program.count];
  const begin = new Float64Array(ops), end = new Float64Array(ops);
  const passBegin = new Float64Array(program.count), passEnd = new Float64Array(program.count);
  for (let i = 0; i < program.count; ++i) {
    const run = last[program.pass[i]], n = run.begin.length;
    for (let k = 0; k < n; ++k) begin[at++] = base[i] + (run.begin[k] += reader.signed());
  }
  at = 0;
  for (let i = 0; i < program.count; ++i) {
    const run = last[program.pass[i]], n = run.begin.length, kinds = passes[program.pass[i]].ops;
    let low = Infinity, high = -Infinity;
    for (let k = 0; k < n; ++k, ++at) {
      end[at] = begin[at] + (run.duration[k] += reader.signed());
      if (kinds[k * kOp.size + kOp.stream] === 0) {
        if (begin[at] < low) low = begin[at];
        if (end[at] > high) high = end[at];
      }
    }
    if (low > high && n > 0) {  // nothing on the compute stream
      low = begin[at - n];
      high = low;
      for (let k = at - n; k < at; ++k) high = Math.max(high, end[k]);
    }
    passBegin[i] = low;
    passEnd[i] = high;
  }
  return { ...rank, program, first, begin, end, passBegin, passEnd, ops };
}

/** The whole step; see step_data.h for what is in it. */
export async function readStep(text) {
  const reader = new Reader(await inflate(text));
  const step = reader.header();
  for (const pass of step.passes) pass.count = pass.ops.length / kOp.size;
  step.programs = step.roles.map(() => readProgram(reader));
  step.transfers = readRendezvous(reader, step.rendezvous);
  const last = step.passes.map((pass) => {
    const duration = new Float64Array(pass.count);
    for (let k = 0; k < pass.count; ++k) duration[k] = step.works[pass.ops[k * kOp.size]].ps;
    return { begin: new Float64Array(pass.count), duration };
  });
  step.ranks = [];
  for (const lane of step.lanes) {
    const begin = new Float64Array(step.rendezvous), end = new Float64Array(step.rendezvous);
    let at = 0;
    for (let i = 0; i < step.rendezvous; ++i) {
      begin[i] = at += reader.signed();
      end[i] = at + step.works[step.transfers[i].work].ps + reader.signed();
    }
    lane.begin = begin;
    lane.end = end;
    for (const rank of lane.ranks) {
      const whole = readRank(reader, step, rank, last);
      whole.lane = lane;
      whole.copies = step.folded ? step.roles[rank.role].ranks : 1;
      step.ranks.push(whole);
    }
  }
  return step;
}

/** Number of the pass that op `op` of a rank is in. */
export function passOf(rank, op) {
  let low = 0, high = rank.program.count - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (rank.first[middle] <= op) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** "5F12", "(5F12;2B4)", or the name of a pass without an action. */
export function passText(step, program, i) {
  const flags = program.flags[i];
  if (!(flags & 1)) return step.passes[program.pass[i]].name;
  const one = program.stage[i] + step.kinds[program.kind[i]] + program.microbatch[i];
  if (!(flags & 2)) return one;
  return `(${one};${program.stage2[i]}${step.kinds[program.kind2[i]]}${program.microbatch2[i]})`;
}
