// SPDX-License-Identifier: Apache-2.0
// The timeline as a trace that ui.perfetto.dev opens, made here out of what the page has.  The format
// is Chrome's JSON: "X" for a slice, "M" for a name; times in microseconds, whose three decimals are
// nanoseconds.
import { passText } from "./data.js";
import { nameOf, streamRows } from "./rows.js";

/** Pieces of the JSON text. */
export function* traceJson(step) {
  let first = true;
  const event = (e) => {
    const text = (first ? "" : ",\n") + JSON.stringify(e);
    first = false;
    return text;
  };
  const micro = (ps) => Math.round(ps / 1e3) / 1e3;
  yield '{"displayTimeUnit":"ms","traceEvents":[\n';
  for (let n = 0; n < step.ranks.length; ++n) {
    const rank = step.ranks[n], pid = n + 1;
    yield event({ ph: "M", name: "process_name", pid, args: { name: rank.name } });
    yield event({ ph: "M", name: "process_sort_index", pid, args: { sort_index: n } });
    const rows = streamRows(step, rank);
    yield event({ ph: "M", name: "thread_name", pid, tid: 1, args: { name: "passes" } });
    for (let i = 0; i < rank.program.count; ++i)
      if (rank.passEnd[i] > rank.passBegin[i])
        yield event({ ph: "X", pid, tid: 1, name: passText(step, rank.program, i), ts: micro(rank.passBegin[i]), dur: micro(rank.passEnd[i] - rank.passBegin[i]) });
    for (let k = 0; k < rows.length; ++k) {
      yield event({ ph: "M", name: "thread_name", pid, tid: k + 2, args: { name: rows[k].name } });
      const row = { ...rows[k], rank };
      for (let i = 0; i < row.ids.length; ++i)
        yield event({ ph: "X", pid, tid: k + 2, name: nameOf(step, row, i), ts: micro(row.begin[i]), dur: micro(row.end[i] - row.begin[i]) });
    }
  }
  yield "\n]}\n";
}

export async function downloadTrace(step) {
  const pieces = traceJson(step), encoder = new TextEncoder();
  const stream = new ReadableStream({
    pull(controller) {
      let text = "";
      while (text.length < 1 << 18) {
        const { value, done } = pieces.next();
        if (done) {
          if (text) controller.enqueue(encoder.encode(text));
          controller.close();
          return;
        }
        text += value;
      }
      controller.enqueue(encoder.encode(text));
    },
  });
  const blob = await new Response(stream.pipeThrough(new CompressionStream("gzip"))).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = "stepcast-trace.json.gz";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}
