// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/write_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/row_reader.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {

namespace {

class RowCheck {
 public:
  explicit RowCheck(const TableText& table) : t_(table) {
    for (const GemmRow& r : t_.gemms) check(r, {r.m, r.n, r.k, r.batch});
    for (const AttentionRow& r : t_.attentions)
      check(r, {r.heads, r.kv_heads, r.m, r.n, r.k, r.batch});
    for (const MemoryRow& r : t_.memories) check(r, {r.bytes});
    for (const CopyRow& r : t_.copies) check(r, {r.bytes});
    for (const CollectiveRow& r : t_.collectives) {
      check(r, {r.ranks, r.nodes, r.ranks_per_node, r.bytes});
      if (!is_constant(r.nic_gbs)) problem(row_text(r), "a bad nic_gbs");
      if (r.nodes > 0 && !is_group(r))
        problem(row_text(r), "ranks that are not nodes times ranks_per_node");
    }
    for (const FitRow& r : t_.fits) {
      check_source(row_text(r), r.source);
      for (const double x : {r.t0_us, r.tflops, r.gbs, r.median_error, r.p90_error}) {
        if (!is_constant(x)) problem(row_text(r), "a constant that is not from 0 to 1e15");
      }
      if (r.kind != WorkKind::memory_bound && r.tflops == 0) problem(row_text(r), "no tflops");
    }
    if (t_.launch_us) check_number("launch", *t_.launch_us, t_.launch_source);
    if (t_.graph_launch_us)
      check_number("graph_launch", *t_.graph_launch_us, t_.graph_launch_source);
    if (t_.interference) {
      check_number("interference", t_.interference->first, t_.interference_source);
      check_number("interference", t_.interference->second, t_.interference_source);
    }
    if (t_.ratio_nn) check_number("ratio,nn", *t_.ratio_nn, t_.ratio_nn_source);
    if (t_.ratio_nt) check_number("ratio,nt", *t_.ratio_nt, t_.ratio_nt_source);
    if (t_.ratio_skinny) check_number("ratio,skinny", *t_.ratio_skinny, t_.ratio_skinny_source);
    for (const TableSource& s : t_.sources) {
      if (!is_source_key(s.key)) problem(s.key, "a key that no source can have");
    }
    if (!problems_.empty()) throw InputError(std::move(problems_));
  }

 private:
  void problem(const std::string& row, const std::string& what) {
    if (problems_.size() >= kMostProblems) return;
    Diagnostic d;
    d.code = "E310";
    d.message = fmt::format("row '{}' has {}", row, what);
    d.help = "leave the row out, or measure it again";
    problems_.push_back(std::move(d));
  }

  void check_source(const std::string& row, uint16_t source) {
    if (source >= t_.sources.size()) problem(row, "a source that does not exist");
  }

  static bool is_constant(double value) { return value >= 0 && value <= kMostNumber; }

  void check_number(const std::string& row, double value, uint16_t source) {
    check_source(row, source);
    if (!std::isfinite(value) || value <= kLeastTime || value > kMostNumber)
      problem(row, std::isnan(value) ? "the time nan" : fmt::format("the time {:f}", value));
  }

  template <class Row>
  void check(const Row& r, std::initializer_list<int64_t> sizes) {
    const bool good = std::isfinite(r.us) && r.us > kLeastTime && r.us <= kMostNumber &&
                      is_constant(r.spread) && r.source < t_.sources.size();
    bool positive = true;
    for (const int64_t size : sizes) positive = positive && size > 0 && size <= kMostSize;
    if (good && positive) return;
    const std::string row = row_text(r);  // only for the message
    check_number(row, r.us, r.source);
    if (!is_constant(r.spread)) problem(row, "a bad spread");
    if (!positive) problem(row, "a size that is not from 1 to 2^50");
  }

  const TableText& t_;
  std::vector<Diagnostic> problems_;
};

template <class Row>
void sort_by_shape(std::vector<Row>& rows) {
  std::ranges::stable_sort(rows, {}, [](const Row& r) { return shape(r); });
}

template <class Row>
std::vector<const Row*> by_shape(const std::vector<Row>& rows) {
  std::vector<const Row*> sorted;
  sorted.reserve(rows.size());
  for (const Row& r : rows) sorted.push_back(&r);
  std::ranges::stable_sort(sorted, {}, [](const Row* r) { return shape(*r); });
  return sorted;
}

struct NamedRatio {
  std::string_view name;
  std::optional<double> value;
  uint16_t source;
};

std::array<NamedRatio, 3> ratios(const TableText& t) {
  return {{{"nn", t.ratio_nn, t.ratio_nn_source},
           {"nt", t.ratio_nt, t.ratio_nt_source},
           {"skinny", t.ratio_skinny, t.ratio_skinny_source}}};
}

// The lines of each of kChecked, header included.
class Lines {
 public:
  explicit Lines(const TableText& table) : t_(table) {
    STEPCAST_CHECK(!t_.gpu.empty(), "a cost table without a GPU");
    add_header();
    for (const GemmRow* r : by_shape(t_.gemms)) add_timed(*r);
    for (const AttentionRow* r : by_shape(t_.attentions)) add_timed(*r);
    for (const MemoryRow* r : by_shape(t_.memories)) add_timed(*r);
    for (const CopyRow* r : by_shape(t_.copies)) add_timed(*r);
    for (const CollectiveRow* r : by_shape(t_.collectives)) add_timed(*r);
    add_single("launch", t_.launch_us, t_.launch_source, t_.launch_spread);
    add_single("graph_launch", t_.graph_launch_us, t_.graph_launch_source, t_.graph_launch_spread);
    if (t_.interference) {
      add_row("interference",
              comma_joined({"interference", exact_text(t_.interference->first),
                            exact_text(t_.interference->second), key(t_.interference_source)}));
    }
    for (const FitRow* r : by_shape(t_.fits)) add_fit(*r);
    for (const NamedRatio& r : ratios(t_)) {
      if (r.value)
        add_row("ratio", comma_joined({"ratio", r.name, exact_text(*r.value), key(r.source)}));
    }
  }

  std::string text() const {
    std::string out = fmt::format("{}\n# format: {}\n{}# rows: {}\n", kTableMagic,
                                  kNewestTableFormat, lines_[0], rows_);
    for (size_t i = 0; i < kChecked.size(); ++i) {
      if (lines_[i].empty()) continue;
      out += fmt::format("# checksum: {} {}\n", kChecked[i], hex_of(hash_text(lines_[i])));
    }
    for (size_t i = 1; i < kChecked.size(); ++i) out += lines_[i];
    return out;
  }

 private:
  std::string_view key(uint16_t source) const {
    STEPCAST_CHECK(source < t_.sources.size(), "a row of a cost table without a source");
    return t_.sources[source].key;
  }

  void add_key(std::string_view name, std::string_view value) {
    lines_[0] += "# " + std::string(name) + ": ";
    for (const char c : value) {
      const bool control = static_cast<unsigned char>(c) < ' ' || c == '\x7f';
      lines_[0] += control ? ' ' : c;
    }
    lines_[0] += '\n';
  }

  void add_header() {
    add_key("gpu", t_.gpu);
    if (!t_.about.empty()) add_key("about", t_.about);
    if (!t_.software.empty()) add_key("software", t_.software);
    for (const std::string& c : t_.conditions) add_key("conditions", c);
    if (t_.power_watts > 0) add_key("power", exact_text(t_.power_watts) + "W");
    if (t_.nvlink_gbs > 0) add_key("nvlink_gbs", exact_text(t_.nvlink_gbs));
    if (t_.nvlink_gbs > 0 || t_.in_network_reduction)
      add_key("in_network_reduction", t_.in_network_reduction ? "yes" : "no");
    if (!t_.share_from.empty()) {
      std::string value = t_.share_from;
      for (size_t i = 0; i < kFamilies; ++i)
        if (t_.shared[i]) value += " " + std::string(name_of(static_cast<Family>(i)));
      add_key("share", value);
    }
    for (const TableSource& s : t_.sources) {
      STEPCAST_CHECK(is_source_key(s.key), "the key of a source: '" + s.key + "'");
      add_key("source", s.key + (s.derived ? " derived" : " measured") +
                            (s.text.empty() ? "" : " " + s.text));
      if (s.kind != TimingKind::unstated || s.data != TimingData::unstated)
        add_key("method", fmt::format("{} {} {}", s.key, name_of(s.kind), name_of(s.data)));
    }
  }

  void add_row(std::string_view family, const std::string& text) {
    const auto* found = std::find(kChecked.begin(), kChecked.end(), family);
    std::string& lines = lines_[static_cast<size_t>(found - kChecked.begin())];
    lines += text;
    lines += '\n';
    ++rows_;
  }

  static std::string spread_text(double spread) {
    return spread > 0 ? "," + exact_text(spread) : std::string();
  }

  template <class Row>
  void add_timed(const Row& r) {
    const std::string row = row_text(r);
    add_row(std::string_view(row).substr(0, row.find(',')),
            comma_joined({row, exact_text(r.us), key(r.source)}) + spread_text(r.spread));
  }

  void add_single(std::string_view family, std::optional<double> us, uint16_t source,
                  double spread) {
    if (us)
      add_row(family, comma_joined({family, exact_text(*us), key(source)}) + spread_text(spread));
  }

  void add_fit(const FitRow& r) {
    std::string row = comma_joined(
        {row_text(r), exact_text(r.t0_us), exact_text(r.tflops), exact_text(r.gbs), key(r.source)});
    if (r.rows > 0) {
      row += fmt::format(",{},{},{}", r.rows, exact_text(r.median_error), exact_text(r.p90_error));
      if (r.flag != FitFlag::none) row = comma_joined({row, name_of(r.flag)});
    }
    add_row("fit", row);
  }

  const TableText& t_;
  std::array<std::string, kChecked.size()> lines_;
  int64_t rows_ = 0;
};

}  // namespace

void check_rows(const TableText& table) {
  RowCheck check(table);
}

void sort_rows(TableText& table) {
  sort_by_shape(table.gemms);
  sort_by_shape(table.attentions);
  sort_by_shape(table.memories);
  sort_by_shape(table.copies);
  sort_by_shape(table.collectives);
  sort_by_shape(table.fits);
}

std::string write_table(const TableText& table) {
  return Lines(table).text();
}

std::vector<NamedTime> named_times(const TableText& t) {
  std::vector<NamedTime> all;
  const auto add_rows = [&](std::string_view family, const auto& rows) {
    for (const auto* r : by_shape(rows)) all.push_back({family, row_text(*r), r->us});
  };
  add_rows("gemm", t.gemms);
  add_rows("attention", t.attentions);
  add_rows("memory", t.memories);
  add_rows("copy", t.copies);
  add_rows("collective", t.collectives);
  if (t.launch_us) all.push_back({"launch", "launch", *t.launch_us});
  if (t.graph_launch_us) all.push_back({"graph_launch", "graph_launch", *t.graph_launch_us});
  if (t.interference) {
    all.push_back({"interference", "interference,compute", t.interference->first});
    all.push_back({"interference", "interference,communication", t.interference->second});
  }
  for (const FitRow* r : by_shape(t.fits)) {
    for (const auto& [name, value] :
         {std::pair("t0_us", r->t0_us), std::pair("tflops", r->tflops), std::pair("gbs", r->gbs)}) {
      if (value > 0) all.push_back({"fit", row_text(*r) + ',' + name, value});
    }
  }
  for (const NamedRatio& r : ratios(t)) {
    if (r.value) all.push_back({"ratio", comma_joined({"ratio", r.name}), *r.value});
  }
  return all;
}

}  // namespace stepcast
