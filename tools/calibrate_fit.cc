// SPDX-License-Identifier: Apache-2.0
// stepcast calibrate fit and merge: rows of several inputs in one table, with its fits.
#include <algorithm>

#include "calibrate/fit/fit_table.h"
#include "calibrate/table/unite.h"
#include "calibrate/table/write_table.h"
#include "report/json/writer.h"
#include "scenarios/presets.h"
#include "sim/diagnostic.h"
#include "sim/text.h"
#include "tools/calibrate.h"
#include "tools/calibrate_input.h"
#include "tools/calibrate_view.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

constexpr size_t kMostNotes = 12;  // of one input, on a terminal

// A scenario asks for the table of its GPU by the preset's name.
std::string remark_on_gpu(const std::string& gpu) {
  const std::vector<std::string_view> names = preset_names(PresetKind::gpu);
  if (std::find(names.begin(), names.end(), gpu) != names.end()) return {};
  const std::string near = did_you_mean(gpu, names);
  return "no GPU preset is called '" + gpu + '\'' + (near.empty() ? "" : "; " + near);
}

// A table that has nothing and takes nothing over answers nothing.
std::string remark_on_rows(const TableText& t) {
  const bool any = !t.gemms.empty() || !t.attentions.empty() || !t.memories.empty() ||
                   !t.collectives.empty() || !t.copies.empty() || t.launch_us ||
                   t.graph_launch_us || t.interference || !t.share_from.empty();
  return any ? "" : "no rows: a forecast with this table is one without measurements";
}

std::string summary(const TableView& view, std::span<const CalibrateInput> inputs,
                    const United& united, std::span<const std::string> remarks,
                    const TextStyle& style) {
  std::string s =
      paint(escape_text(view.gpu), Tone::strong, style) + '\n' + table_summary(view, style);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t dropped = united.dropped[i];
    if (dropped == 0 && inputs[i].notes.empty()) continue;
    s += '\n' + paint("  " + escape_text(inputs[i].name), Tone::dim, style) + '\n';
    if (dropped > 0)
      s += "  " + grouped(static_cast<int64_t>(dropped)) + (dropped == 1 ? " row" : " rows") +
           " left out: another input has the shape\n";
    for (size_t n = 0; n < std::min(kMostNotes, inputs[i].notes.size()); ++n)
      s += wrap(escape_text(inputs[i].notes[n]), "  ", style.width);
    if (inputs[i].notes.size() > kMostNotes)
      s += "  and " + std::to_string(inputs[i].notes.size() - kMostNotes) + " more\n";
  }
  if (!remarks.empty()) s += '\n';
  for (const std::string& r : remarks) s += wrap(escape_text(r), "  ! ", style.width);
  return s;
}

std::string as_json(const TableView& view, const std::string& text, const std::string& output,
                    std::span<const CalibrateInput> inputs, const United& united,
                    std::span<const std::string> remarks) {
  return json_document([&](JsonWriter& json) {
    write_table_view(json, view);
    size_t i = 0;
    json.objects("inputs", inputs, [&](const CalibrateInput& in) {
      json.member("name", in.name);
      json.member("dropped", static_cast<int64_t>(united.dropped[i++]));
      json.values("notes", in.notes);
    });
    json.values("remarks", remarks);
    // Where the table did not go to a file it is here.
    if (output.empty()) json.member("table", text);
  });
}

int make_table(const Arguments& args, const Terminal& terminal,
               const std::vector<CalibrateInput>& inputs) {
  if (args.json && args.output == "-")
    usage_error("E004", "--json and the table cannot both go to standard output",
                "-o FILE names a file for the table");
  std::vector<TableText> tables;
  for (const CalibrateInput& in : inputs) tables.push_back(in.table);
  const United united = unite(tables, {args.gpu});
  FittedTable fitted = fit_table(united.table);
  fitted.remarks.insert(fitted.remarks.begin(), united.remarks.begin(), united.remarks.end());
  for (std::string r : {remark_on_gpu(fitted.table.gpu), remark_on_rows(fitted.table)})
    if (!r.empty()) fitted.remarks.push_back(std::move(r));
  const std::string text = write_table(fitted.table);
  const TableView view = view_of(fitted.table, args.output, hex_of(hash_text(text)));
  if (!args.json || !args.output.empty()) deliver(text, args.output, args.force);
  if (args.json) {
    write_stdout(as_json(view, text, args.output, inputs, united, fitted.remarks));
  } else if (!args.quiet) {
    write_stderr(summary(view, inputs, united, fitted.remarks, terminal.err));
  }
  return 0;
}

// What `--gpu` is about in `fit`: files that do not say it.  A table does.
void refuse_other_gpus(const std::vector<CalibrateInput>& inputs, const std::string& gpu) {
  for (const CalibrateInput& in : inputs) {
    if (gpu.empty() || in.table.gpu == gpu) continue;
    throw file_error("E310", "the table is of " + in.table.gpu + ", not of " + gpu, in.name,
                     "`stepcast calibrate merge --gpu` carries rows over, as derived ones");
  }
}

}  // namespace

int calibrate_fit_command(const Arguments& args, const Terminal& terminal) {
  std::vector<CalibrateInput> inputs;
  for (const std::string& input : args.files) inputs.push_back(read_measurements(input, args));
  refuse_other_gpus(inputs, args.gpu);
  return make_table(args, terminal, inputs);
}

int calibrate_merge_command(const Arguments& args, const Terminal& terminal) {
  std::vector<CalibrateInput> inputs;
  for (const std::string& input : args.files)
    inputs.push_back(read_table(input, args.calibrate.accept_edits));
  return make_table(args, terminal, inputs);
}

}  // namespace stepcast::cli
