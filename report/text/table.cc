// SPDX-License-Identifier: Apache-2.0
#include "report/text/table.h"

#include "sim/csv.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace stepcast {

namespace {

using Rows = std::vector<std::vector<std::string>>;

// With three to four digits.
std::string short_number(double value) {
  if (value <= 0) return "-";
  return fixed(value, value < 10 ? 2 : value < 1000 ? 1 : 0);
}

std::string shortest(double value) {
  std::array<char, 32> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

std::string count_or_dash(int64_t n) {
  return n == 0 ? "-" : grouped(n);
}

std::string head_text(const TableView& v, const TextStyle& style) {
  const std::array<std::string, 2> first{paint(escape_text(v.gpu), Tone::strong, style),
                                         escape_text(v.title)};
  std::string s = flow(first, style.width);
  const auto field = [&](std::string_view name, const std::string& text) {
    if (!text.empty()) s += wrap(escape_text(text), "  " + pad_right(name, 12), style.width);
  };
  field("about", v.about);
  field("software", v.software);
  for (size_t i = 0; i < v.conditions.size(); ++i)
    field(i == 0 ? "conditions" : "", v.conditions[i]);
  if (v.nvlink_gbs > 0)
    field("NVLink", short_number(v.nvlink_gbs) + " GB/s a GPU, one direction" +
                        (v.in_network_reduction ? ", with in-network reduction (NVLS)" : ""));
  field("takes over", v.shared);
  field("hash", v.hash);
  return s;
}

std::string groups_table(const TableView& v, const TextStyle& style) {
  if (v.groups.empty()) return "  no rows\n";
  const bool spreads = std::any_of(v.groups.begin(), v.groups.end(),
                                   [](const TableGroup& g) { return g.spread > 0; });
  Rows rows = {{"rows", "measured", "derived", "shapes", "times", spreads ? "spread" : ""}};
  for (const TableGroup& g : v.groups)
    rows.push_back({g.what, count_or_dash(g.measured), count_or_dash(g.derived), g.range,
                    micros_text(g.least_us) +
                        (g.longest_us > g.least_us ? " - " + micros_text(g.longest_us) : ""),
                    g.spread > 0 ? percent(g.spread) : ""});
  return titled_table(rows, "<>><<>", style);
}

std::string fits_table(const TableView& v, const TextStyle& style) {
  if (v.fits.empty()) return "";
  Rows rows = {{"fits", "t0", "TFLOP/s", "GB/s", "rows", "median", "90th", "", "source"}};
  for (const TableFit& f : v.fits)
    rows.push_back({f.what, micros_text(f.t0_us), short_number(f.tflops), short_number(f.gbs),
                    count_or_dash(f.rows), f.rows > 0 ? percent(f.median_error) : "-",
                    f.rows > 0 ? percent(f.p90_error) : "-", f.flag.empty() ? "" : "! " + f.flag,
                    f.source});
  return '\n' + titled_table(rows, "<>>>>>><<", style);
}

std::string lines_table(const TableView& v, const TextStyle& style) {
  if (v.lines.empty()) return "";
  Rows rows = {{"alpha-beta, for comparison", "latency", "bus GB/s", "rows", "rms"}};
  for (const TableFit& f : v.lines)
    rows.push_back({f.what, micros_text(f.t0_us), short_number(f.gbs), grouped(f.rows),
                    percent(f.median_error)});
  return '\n' + titled_table(rows, "<>>>>", style);
}

std::string numbers_table(const TableView& v, const TextStyle& style) {
  if (v.numbers.empty()) return "";
  Rows rows = {{"single figures", "", "source"}};
  for (const TableNumber& n : v.numbers) rows.push_back({n.what, n.value, n.source});
  return '\n' + titled_table(rows, "<><", style);
}

std::string sources_text(const TableView& v, const TextStyle& style) {
  if (v.sources.empty()) return "";
  std::string s = '\n' + paint("  sources", Tone::dim, style) + '\n';
  for (const TableSourceLine& l : v.sources) {
    s += "  " + paint(escape_text(l.key), Tone::strong, style) + "  " +
         (l.derived ? "derived" : "measured") + ", " + grouped(l.rows) +
         (l.rows == 1 ? " row" : " rows") + '\n';
    s += wrap(escape_text(l.text), "      ", style.width);
  }
  return s;
}

void write_fit(JsonWriter& json, const TableFit& f) {
  json.member("what", f.what);
  json.member("t0_us", f.t0_us);
  json.member("tflops", f.tflops);
  json.member("gbs", f.gbs);
  json.member("rows", f.rows);
  json.member("median_error", f.median_error);
  json.member("p90_error", f.p90_error);
  json.member("flag", f.flag);
  json.member("source", f.source);
}

}  // namespace

std::string micros_text(double us) {
  if (us >= 1e6) return fixed(us * 1e-6, us < 1e7 ? 2 : 1) + " s";
  if (us >= 1e3) return fixed(us * 1e-3, us < 1e4 ? 2 : us < 1e5 ? 1 : 0) + " ms";
  return fixed(us, us < 10 ? 2 : us < 100 ? 1 : 0) + " us";
}

std::string table_summary(const TableView& view, const TextStyle& style) {
  return groups_table(view, style) + fits_table(view, style) + numbers_table(view, style);
}

std::string table_text(const TableView& view, const TextStyle& style) {
  return head_text(view, style) + '\n' + groups_table(view, style) + fits_table(view, style) +
         lines_table(view, style) + numbers_table(view, style) + sources_text(view, style);
}

void write_table_view(JsonWriter& json, const TableView& v) {
  json.member("schema_version", 1);
  json.member("title", v.title);
  json.member("gpu", v.gpu);
  json.member("about", v.about);
  json.member("software", v.software);
  json.values("conditions", v.conditions);
  json.member("hash", v.hash);
  json.member("nvlink_gbs", v.nvlink_gbs);
  json.member("in_network_reduction", v.in_network_reduction);
  json.member("takes_over", v.shared);
  json.objects("groups", v.groups, [&](const TableGroup& g) {
    json.member("family", g.family);
    json.member("what", g.what);
    json.member("measured", g.measured);
    json.member("derived", g.derived);
    json.member("range", g.range);
    json.member("least_us", g.least_us);
    json.member("longest_us", g.longest_us);
    json.member("spread", g.spread);
  });
  json.objects("fits", v.fits, [&](const TableFit& f) { write_fit(json, f); });
  json.objects("lines", v.lines, [&](const TableFit& f) {
    json.member("what", f.what);
    json.member("alpha_us", f.t0_us);
    json.member("bus_gbs", f.gbs);
    json.member("rows", f.rows);
    json.member("rms", f.median_error);
  });
  json.objects("numbers", v.numbers, [&](const TableNumber& n) {
    json.member("what", n.what);
    json.member("value", n.value);
    json.member("source", n.source);
  });
  json.objects("sources", v.sources, [&](const TableSourceLine& l) {
    json.member("key", l.key);
    json.member("derived", l.derived);
    json.member("rows", l.rows);
    json.member("text", l.text);
  });
}

std::string table_csv(const TableView& view) {
  std::string s = "family,shape,time_us,fitted_us,time_over_fitted,origin,source\n";
  for (const TableRow& r : view.rows) {
    const bool fitted = r.fitted_us > 0;
    s += r.family + ',' + csv_cell(r.shape) + ',' + shortest(r.us) + ',' +
         (fitted ? fixed(r.fitted_us, 3) : "") + ',' +
         (fitted ? fixed(r.us / r.fitted_us, 4) : "") + ',' + (r.derived ? "derived" : "measured") +
         ',' + csv_cell(r.source) + '\n';
  }
  return s;
}

}  // namespace stepcast
