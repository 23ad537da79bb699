// SPDX-License-Identifier: Apache-2.0
#include "report/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/text.h"

namespace stepcast {

namespace {

constexpr int kRemarkWidth = 100;  // help and notes are broken there
constexpr int kLongestLine = 160;  // columns of a source line that are shown

// A source line as it is shown, and where the underline goes.
struct Excerpt {
  std::string line;
  int column = 0;  // columns before the underline
  int length = 1;
};

// Tabs become one blank, deceptive characters their escapes; the underline moves along.  Columns of
// a Diagnostic count bytes or code points alike for the ASCII that scenarios are made of; anything
// else only shifts the caret, never the text.
Excerpt make_excerpt(const Diagnostic& d) {
  Excerpt e;
  const size_t start = static_cast<size_t>(std::max(d.column - 1, 0));
  const size_t stop = start + static_cast<size_t>(std::max(d.length, 1));
  int end_column = -1;
  e.column = -1;
  int width = 0;
  for (size_t at = 0, index = 0; at < d.source_line.size(); ++index) {
    const CodePoint c = decode_utf8(d.source_line, at);
    if (index == start) e.column = width;
    if (index == stop) end_column = width;
    const std::string_view piece = std::string_view(d.source_line).substr(at, c.length);
    const std::string shown = c.value == '\t' ? " " : escape_text(piece);
    e.line += shown;
    width += display_width(shown);
    at += c.length;
  }
  if (e.column < 0) e.column = width;
  if (end_column < 0) end_column = std::max(width, e.column + 1);
  e.length = std::max(1, end_column - e.column);
  return e;
}

// Keeps the underlined part of a very long line in sight.
void clip(Excerpt& e) {
  if (display_width(e.line) <= kLongestLine) return;
  const int from = std::max(0, e.column - kLongestLine / 2);
  std::string kept;
  int column = -1;
  for (const char c : e.line) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) ++column;
    if (column >= from && column < from + kLongestLine) kept += c;
  }
  e.line = (from > 0 ? "..." : "") + kept + (column >= from + kLongestLine ? "..." : "");
  e.column += (from > 0 ? 3 : 0) - from;
  e.length = std::min(e.length, display_width(e.line) - e.column);
}

std::string excerpt_lines(const Diagnostic& d, const std::string& margin, const TextStyle& style) {
  Excerpt e = make_excerpt(d);
  clip(e);
  const std::string bar = paint("|", Tone::dim, style);
  std::string s = margin + bar + '\n';
  s += paint(pad_left(std::to_string(d.line), static_cast<int>(margin.size()) - 1), Tone::dim,
             style);
  s += ' ' + bar + ' ' + e.line + '\n';
  std::string marks(static_cast<size_t>(e.length), '^');
  if (!d.label.empty()) marks += ' ' + escape_text(d.label);
  s += margin + bar + ' ' + std::string(static_cast<size_t>(e.column), ' ') +
       paint(marks, Tone::bad, style) + '\n';
  return s;
}

}  // namespace

std::string render_diagnostic(const Diagnostic& d, const TextStyle& style) {
  std::string s = paint("error[" + d.code + "]", Tone::bad, style) + ": " +
                  paint(escape_text(d.message), Tone::strong, style) + '\n';
  const size_t digits = std::to_string(std::max(d.line, 1)).size();
  const std::string margin(digits + 2, ' ');
  if (!d.file.empty()) {
    s += std::string(digits + 1, ' ') + paint("-->", Tone::dim, style) + ' ' + escape_text(d.file);
    if (d.line > 0) s += fmt::format(":{}", d.line);
    if (d.line > 0 && d.column > 0) s += fmt::format(":{}", d.column);
    s += '\n';
  }
  const bool has_excerpt = d.line > 0 && d.column > 0 && !d.source_line.empty();
  if (has_excerpt) s += excerpt_lines(d, margin, style);
  if (!has_excerpt && !d.label.empty()) s += margin + "= " + escape_text(d.label) + '\n';
  if (!d.help.empty()) s += wrap(escape_text(d.help), margin + "= help: ", kRemarkWidth);
  if (!d.note.empty()) s += wrap(escape_text(d.note), margin + "= note: ", kRemarkWidth);
  return s;
}

std::string render_diagnostics(std::span<const Diagnostic> all, const TextStyle& style,
                               std::string_view outcome) {
  std::string s;
  for (const Diagnostic& d : all) s += render_diagnostic(d, style);
  if (all.empty()) return s;
  s += all.size() == 1 ? "1 error. " : fmt::format("{} errors. ", all.size());
  s += "`stepcast help " + all.front().code + "` explains ";
  s += all.size() == 1 ? "it." : "a code.";
  if (!outcome.empty()) s += ' ' + std::string(outcome);
  return s + '\n';
}

void write_diagnostic(JsonWriter& json, const Diagnostic& d) {
  json.member("code", d.code);
  json.member("message", d.message);
  if (!d.file.empty()) json.member("file", d.file);
  if (d.line > 0) json.member("line", d.line);
  if (d.line > 0 && d.column > 0) json.member("col", d.column);
  if (!d.label.empty()) json.member("label", d.label);
  if (!d.help.empty()) json.member("help", d.help);
  if (!d.note.empty()) json.member("note", d.note);
}

std::string diagnostics_json(std::span<const Diagnostic> all) {
  return json_document([&](JsonWriter& json) {
    json.object("error", [&] { write_diagnostic(json, all.front()); });
    json.objects("errors", all, [&](const Diagnostic& d) { write_diagnostic(json, d); });
  });
}

namespace {

constexpr std::array kCodes{
    ErrorCode{"E001", "unknown command",
              "The first word after `stepcast` is a command; `stepcast --help` lists them."},
    ErrorCode{"E002", "unknown option",
              "Options belong to a command: `stepcast COMMAND --help` lists those of one command."},
    ErrorCode{"E003", "the command line cannot be read",
              "An argument is missing, given twice, or has no value."},
    ErrorCode{"E004", "the value of an option is not legal",
              "The message names the legal values. --set takes a dotted path, '=' and a value in "
              "YAML, for example --set parallel.tp=4 or --set 'recompute={granularity: full}'."},
    ErrorCode{"E005", "nothing to compare",
              "`stepcast compare` needs several files, or one with a compare section that names "
              "cases: each case is a set of dotted paths with the values they take."},
    ErrorCode{"E006", "unknown preset", "`stepcast presets` lists what has a name."},
    ErrorCode{"E007", "unknown help topic",
              "`stepcast help codes` lists all error codes, `stepcast --help` all commands."},
    ErrorCode{"E008", "nothing was measured",
              "`stepcast check` compares with a section measured: of the scenario: step_time, "
              "tokens_per_gpu_s or peak_memory, with source and tolerance."},
    ErrorCode{"E100", "not a YAML text that scenarios may be written in",
              "Scenarios are YAML mappings, sequences and scalars (JSON included) in UTF-8, one "
              "document a file. The position is where reading stopped; the cause is often in the "
              "line above: a missing colon, bracket or quote, or a tab in the indentation."},
    ErrorCode{"E101", "the file cannot be read",
              "It does not exist, is not a regular file, or may not be read by you."},
    ErrorCode{"E102", "unknown key",
              "Every key of a scenario is known; a misspelt one would silently mean the default. "
              "`stepcast schema` prints all of them with what they mean."},
    ErrorCode{"E103", "a key is given twice",
              "Which of the two should count? Remove one. Keys of a file that is extended may be "
              "given again; that is what `extends` is for."},
    ErrorCode{"E104", "anchors, aliases, tags and merge keys are not allowed",
              "They make a few bytes into a huge document, and a reader has to search for what a "
              "value is. Use `extends` to share settings between files."},
    ErrorCode{"E105", "nested too deeply", "Scenarios need a handful of levels; 64 are allowed."},
    ErrorCode{"E106", "the file is too large",
              "A scenario has at most 16 MiB and a million values. A table, trace or schedule that "
              "it names "
              "has at most 64 MiB, and all its files together at most 128 MiB."},
    ErrorCode{"E107", "a value of the wrong kind",
              "A number, text, list or mapping stands where another kind is due. yes, no, on and "
              "off are text; true and false are flags."},
    ErrorCode{"E110", "'extends' forms a cycle",
              "A file extends itself, directly or through others; the help line shows the cycle."},
    ErrorCode{"E111", "a file outside the scenario's folder",
              "Files that a scenario names (`extends`, `model: {hf: config.json}`, "
              "`schedule.file`, `calibration`, traces) must be regular files below the folder of "
              "the scenario; `--root DIR` names a wider folder. `extends` goes at most 8 files "
              "deep, and at most 64 files are read."},
    ErrorCode{
        "E120", "a unit is missing or not understood",
        "Quantities state their unit: 80GiB or 80GB, 400Gb/s (bits) or 50GB/s (bytes), 2.5us, "
        "989TFLOP/s. A bare number would have to be guessed, and bits and bytes differ by "
        "eight. Counts of sequences and tokens have none, but may be short: K, M, B and T are "
        "powers of 1000, Ki and Mi of 1024, so that 8K is 8,000 and 8Ki is 8,192."},
    ErrorCode{"E121", "a number that is not finite or not above zero",
              "NaN, infinity and zero have no meaning for this value."},
    ErrorCode{"E122", "a negative number", "This value cannot be below zero."},
    ErrorCode{"E123", "a number that is too large or too small, or not whole",
              "The value, or a product or quotient it enters, is beyond what can be counted "
              "exactly or kept, or a count has a fraction."},
    ErrorCode{"E124", "a form of number that is not read",
              "Write plain decimals: 010, 0x10, 1:30 and 1_000 mean different things to different "
              "readers of YAML."},
    ErrorCode{"E125", "not one of the legal words", "The help line lists the legal ones."},
    ErrorCode{"E126", "something that is needed is missing",
              "A scenario names at least a model, a cluster and a batch; see "
              "`stepcast presets` for names of models and clusters."},
    ErrorCode{"E127", "a value that contradicts another one",
              "Two settings cannot both hold; the message names both."},
    ErrorCode{
        "E130", "not supported yet",
        "The key is known and would change the result, but this version does not simulate it. "
        "It is an error because a forecast that ignores it would be wrong."},
    ErrorCode{"E201", "the number of GPUs does not fit the layout",
              "GPUs = tp * cp * pp * dp. dp may be left out, then it is what remains."},
    ErrorCode{"E202", "the layers do not fit the stages",
              "Layers are spread evenly over pp * vpp stages. `parallel.split: products` takes any "
              "number of layers, and goes with all schedules; `parallel.layout` states a split, in "
              "the notation of Megatron's --pipeline-model-parallel-layout: "
              "'Et*11|(t*12|)*6t*11L' is 94 layers on 8 stages."},
    ErrorCode{"E203", "the batch does not fit the layout",
              "The global batch is split over dp replicas into microbatches of `batch.micro` "
              "sequences; it must be a multiple of micro * dp. It is never rounded."},
    ErrorCode{"E204", "the sequence cannot be split",
              "Sequence parallelism splits each sequence over the tp ranks: seq must be a multiple "
              "of tp."},
    ErrorCode{
        "E205", "the schedule does not go with the layout",
        "Schedules have rules of their own: interleaved ones need vpp > 1 and microbatches in "
        "groups, others a fixed number of chunks. `stepcast presets schedules` has them."},
    ErrorCode{"E206", "the experts cannot be spread",
              "ep must divide the number of experts, and etp the width of one expert."},
    ErrorCode{"E210", "tp does not divide the model",
              "Tensor parallelism splits attention heads, key-value heads, the width of the MLP "
              "and the vocabulary into tp equal parts."},
    ErrorCode{"E211", "the sequence is longer than the model allows",
              "A model with learned positions has no more rows than max_position_embeddings."},
    ErrorCode{
        "E220", "the nodes are not connected",
        "Pipeline stages and data-parallel groups need a path between the nodes they are on."},
    ErrorCode{"E221", "the topology is not sound",
              "Nodes, switches and links have names of their own, links join two different things "
              "that exist, tiers grow outwards and the outermost holds the whole cluster."},
    ErrorCode{
        "E229", "nodes of different kinds",
        "The nodes of a cluster, also of a topology written out, have the same GPUs, as many of "
        "them and the same links inside."},
    ErrorCode{"E230", "the GPU does not compute in this number format",
              "Its preset states no peak rate for it; choose another precision or add the rate to "
              "cluster.node.gpu.peak."},
    ErrorCode{"E240", "a place that the job or the cluster does not have",
              "`perturb` and `cluster.placement` name ranks, GPUs, nodes, NICs and pipeline stages "
              "by number, from 0; the message says how many there are."},
    ErrorCode{"E301", "not a cost table",
              "Cost tables are CSV files whose '#' header says so; docs/costs.md has the format."},
    ErrorCode{"E302", "a cost table of a newer format",
              "It was written by a later version of Stepcast."},
    ErrorCode{"E303", "the header of a cost table is incomplete",
              "It names at least its format, the GPU and the number of rows."},
    ErrorCode{"E304", "a row of an unknown kind",
              "Or one with too many or too few fields; docs/costs.md lists the kinds."},
    ErrorCode{"E305", "a bad number in a cost table",
              "Numbers are plain decimals, finite, and above zero."},
    ErrorCode{"E306", "an unknown word in a cost table",
              "A data type, layout, kernel, collective, copy, flag or source that does not exist."},
    ErrorCode{"E307", "a row that was there before",
              "Two rows answer the same question; remove one."},
    ErrorCode{"E308", "a cost table that was cut off",
              "The header states the number of rows, and there are more or fewer of them."},
    ErrorCode{
        "E309", "a cost table that was edited",
        "Its rows or its header are not those that were written; `stepcast calibrate fit FILE "
        "--accept-edits` takes them as they are."},
    ErrorCode{"E310", "measurements that nothing can be fitted to",
              "The message names the rows: a time or a size that is not a positive number, or "
              "tables of different GPUs."},
    ErrorCode{
        "E311", "times that the GPU of a cost table cannot have",
        "A row is faster than the data sheet allows, or a hundred times slower, or a launch takes "
        "longer than 10 ms; the message says what is plausible. Times are in microseconds."},
    ErrorCode{
        "E312", "not a file of own runs",
        "`stepcast calibrate runs` writes one; a later version may write another form, or have "
        "other parameters: then it makes the file anew."},
    ErrorCode{
        "E313", "own runs that do not go together",
        "What is learnt holds for one generation of GPUs and hosts, and for software of 2022 and "
        "before or of later years (kernels.libraries): runs of others have a file of their own, "
        "and a scenario names that of its cluster."},
    ErrorCode{"E314", "runs that nothing can be learnt from",
              "A run that took more than twice as long as forecast, or less than half of it, is "
              "doubtful and has no say: most of what was measured is something else than what the "
              "scenario describes."},
    ErrorCode{"E320", "not a topology that can be read",
              "Read are the matrix of `nvidia-smi topo -m`, NCCL's topology XML "
              "(NCCL_TOPO_DUMP_FILE), the output of ibnetdiscover and scenarios; docs/topology.md "
              "has an example of each."},
    ErrorCode{"E321", "a topology file with a mistake in it",
              "The message points at the place. Files that were pasted lose blanks and tabs."},
    ErrorCode{"E322", "a topology file that was cut off",
              "Something that the file begins or names is not in it to its end."},
    ErrorCode{"E330", "not a file of that tool",
              "`stepcast import KIND FILE` found nothing of what files of that kind have; "
              "docs/import.md has an example of each."},
    ErrorCode{"E331", "an argument of another tool that cannot be read",
              "The value is not of the form that the tool takes, or a variable stands there that "
              "the file does not define."},
    ErrorCode{"E332", "arguments of another tool that do not go together",
              "One that the tool needs is missing, two exclude each other, or their sizes do not "
              "fit; the tool itself would not start with them either."},
    ErrorCode{"E333", "a file of measurements that is broken or was cut off",
              "A row has too few or too many columns, a number is none, or the file ends in the "
              "middle of something. The message points at the place. Options that contradict what "
              "the file says are refused with this code too."},
    ErrorCode{"E334", "a file of measurements does not say what it was measured on",
              "The GPU, the ranks and nodes, the network of a node or the collective: an option "
              "states what the file leaves out, nothing is guessed."},
    ErrorCode{"E335", "measurements whose own check failed",
              "The tool that measured found wrong results, so its times are not those of a "
              "collective or kernel that works."},
    ErrorCode{"E336", "a script that trains no model",
              "It prepares data, converts or evaluates, or only sets variables for another script: "
              "no command in it trains with sizes of a model."},
    ErrorCode{
        "E340", "not a calibration plan",
        "`stepcast calibrate plan SCENARIO` writes one; a newer version of Stepcast may write "
        "a form that this one does not read, and one that was cut off has fewer rows than it "
        "counts."},
    ErrorCode{"E341", "a calibration plan with a mistake in it",
              "The rows are those of a cost table without time and source, with a weight and how "
              "the shape is priced now."},
    ErrorCode{"E342", "the measuring program is not there or failed",
              "`stepcast calibrate run` starts stepcast-measure, which is built where the CUDA "
              "toolkit is found: docs/calibration.md."},
    ErrorCode{"E343", "neither a cost table nor measurements",
              "`stepcast calibrate fit` reads cost tables and what several tools write; "
              "docs/calibration.md lists them. --kind names the kind of a file."},
    ErrorCode{"E401", "the schedule deadlocks",
              "Ranks wait for each other in a cycle, so the step would hang. The help line walks "
              "the cycle: what each rank is about to do, and whom it waits for."},
    ErrorCode{"E402", "the schedule is incomplete or out of order",
              "Every stage and microbatch needs one F and either one B or one I and one W, on the "
              "rank that holds the stage; B or I after F, W after I."},
    ErrorCode{"E403", "a schedule that cannot be read",
              "Schedules are lists of actions in the notation of torch.distributed.pipelining: "
              "2F0 is the forward of stage 2 for microbatch 0; B backward, I input gradient, W "
              "weight gradient."},
    ErrorCode{"E500", "standard input cannot be read", "'-' in place of a file is standard input."},
    ErrorCode{"E501", "the output exists already",
              "Results are not overwritten unless --force is given."},
    ErrorCode{"E502", "a file cannot be written",
              "The system's reason is in the message. Files appear under their name only when they "
              "are complete; nothing was left behind."},
    ErrorCode{"E503", "standard output cannot be written",
              "The system's reason is in the message; what was printed is not complete."},
    ErrorCode{"E510", "a store that another process has open",
              "One process writes a file of a store. Parts of one search or sweep have files of "
              "their own (--shard); two that have nothing to do with each other take two folders."},
    ErrorCode{"E511", "a file that is no store",
              "`stepcast search` and `sweep` make stores with --store; other databases, and other "
              "files, are neither read nor written."},
    ErrorCode{"E512", "a store of a later version",
              "Its rows have columns that this version does not know."},
    ErrorCode{"E513", "a damaged store",
              "Nothing in it is used. What it held is forecast again if it is moved away and the "
              "line repeated."},
};

}  // namespace

std::span<const ErrorCode> error_codes() {
  return kCodes;
}

const ErrorCode* find_error_code(std::string_view code) {
  const auto found = std::find_if(kCodes.begin(), kCodes.end(),
                                  [code](const ErrorCode& c) { return c.code == code; });
  return found == kCodes.end() ? nullptr : &*found;
}

}  // namespace stepcast
