// SPDX-License-Identifier: Apache-2.0
// stepcast calibrate show and diff: what cost tables say.
#include "calibrate/table/table_diff.h"
#include "report/json/writer.h"
#include "sim/text.h"
#include "tools/calibrate.h"
#include "tools/calibrate_input.h"
#include "tools/calibrate_view.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

constexpr size_t kMostRows = 20;  // of a kind, in the text of a difference

std::string ratio_text(double ratio) {
  return fixed(ratio, 3);
}

std::string families_table(const TableDifference& d, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows = {
      {"rows", "both", "changed", "only first", "only second", "median ratio", "90th, factor"}};
  const auto count = [](size_t n) { return grouped(static_cast<int64_t>(n)); };
  for (const FamilyDifference& f : d.families)
    rows.push_back({std::string(f.family), count(f.both), count(f.changed), count(f.only_before),
                    count(f.only_after), f.both > 0 ? ratio_text(f.median_ratio) : "-",
                    f.both > 0 ? ratio_text(f.p90_factor) : "-"});
  return titled_table(rows, "<>>>>>>", style);
}

std::string value_text(const RowDifference& r, double value) {
  return r.row.starts_with("fit") || r.row.starts_with("ratio") || r.row.starts_with("interference")
             ? fixed(value, 3)
             : micros_text(value);
}

std::string more_text(size_t all) {
  return all <= kMostRows ? ""
                          : "  and " + grouped(static_cast<int64_t>(all - kMostRows)) +
                                " more (--json has all)\n";
}

std::string changed_table(const TableDifference& d, const TextStyle& style) {
  if (d.changed.empty()) return "\n  what both have is equal\n";
  std::vector<std::vector<std::string>> rows = {
      {"largest differences", "first", "second", "ratio"}};
  for (size_t i = 0; i < std::min(kMostRows, d.changed.size()); ++i) {
    const RowDifference& r = d.changed[i];
    rows.push_back({r.row, value_text(r, r.before), value_text(r, r.after), ratio_text(r.ratio)});
  }
  return '\n' + titled_table(rows, "<>>>", style) + more_text(d.changed.size());
}

std::string only_list(const std::string& title, std::span<const std::string> all,
                      const TextStyle& style) {
  if (all.empty()) return "";
  std::string s = '\n' + paint("  " + title, Tone::dim, style) + '\n';
  for (size_t i = 0; i < std::min(kMostRows, all.size()); ++i)
    s += "  " + escape_text(all[i]) + '\n';
  return s + more_text(all.size());
}

std::string difference_json(const TableDifference& d, const CalibrateInput& a,
                            const CalibrateInput& b) {
  return json_document([&](JsonWriter& json) {
    for (const auto& [name, in] : {std::pair{"first", &a}, {"second", &b}})
      json.object(name, [&, in = in] {
        json.member("name", in->name);
        json.member("gpu", in->table.gpu);
        json.member("hash", hex_of(hash_text(in->text)));
      });
    json.objects("families", d.families, [&](const FamilyDifference& f) {
      json.member("family", f.family);
      json.member("both", static_cast<int64_t>(f.both));
      json.member("changed", static_cast<int64_t>(f.changed));
      json.member("only_first", static_cast<int64_t>(f.only_before));
      json.member("only_second", static_cast<int64_t>(f.only_after));
      json.member("median_ratio", f.median_ratio);
      json.member("p90_factor", f.p90_factor);
    });
    json.objects("changed", d.changed, [&](const RowDifference& r) {
      json.member("row", r.row);
      json.member("first", r.before);
      json.member("second", r.after);
      json.member("ratio", r.ratio);
    });
    json.values("only_first", d.only_before);
    json.values("only_second", d.only_after);
  });
}

}  // namespace

int calibrate_show_command(const Arguments& args, const Terminal& terminal) {
  const bool csv = args.calibrate.csv;
  if (csv && args.json)
    usage_error("E004", "--csv and --json are two forms of the answer", "leave one of them out");
  const CalibrateInput in = read_table(args.file, false);
  const TableView view = view_of(in.table, in.name, hex_of(hash_text(in.text)));
  if (!args.svg.empty())
    deliver(fit_plots_svg("Cost table of " + in.table.gpu + ": measured against fit",
                          fit_plots(in.table)),
            args.svg, args.force);
  if (args.svg == "-") return 0;
  write_stdout(csv         ? table_csv(view)
               : args.json ? json_document([&](JsonWriter& json) { write_table_view(json, view); })
                           : table_text(view, terminal.out));
  return 0;
}

int calibrate_diff_command(const Arguments& args, const Terminal& terminal) {
  if (args.files.size() != 2)
    usage_error("E003", "two tables are compared, not " + std::to_string(args.files.size()));
  const CalibrateInput first = read_table(args.files[0], false),
                       second = read_table(args.files[1], false);
  const TableDifference d = difference(first.table, second.table);
  if (args.json) {
    write_stdout(difference_json(d, first, second));
    return 0;
  }
  const TextStyle& style = terminal.out;
  write_stdout("first   " + escape_text(first.name) + " (" + escape_text(first.table.gpu) +
               ")\nsecond  " + escape_text(second.name) + " (" + escape_text(second.table.gpu) +
               ")\n\n" + families_table(d, style) + changed_table(d, style) +
               only_list("only in the first", d.only_before, style) +
               only_list("only in the second", d.only_after, style));
  return 0;
}

}  // namespace stepcast::cli
