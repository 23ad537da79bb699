// SPDX-License-Identifier: Apache-2.0
#include "calibrate/check_rows.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/row_reader.h"
#include "calibrate/row_shape.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

constexpr double kMost = 1e15;  // as the reader has it

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
    d.message = "row '" + row + "' has " + what;
    d.help = "leave the row out, or measure it again";
    problems_.push_back(std::move(d));
  }

  void check_source(const std::string& row, uint16_t source) {
    if (source >= t_.sources.size()) problem(row, "a source that does not exist");
  }

  static bool is_constant(double value) { return value >= 0 && value <= kMost; }

  void check_number(const std::string& row, double value, uint16_t source) {
    check_source(row, source);
    // As the reader has it: a picosecond or less is no time.
    if (!std::isfinite(value) || value <= 1e-6 || value > kMost)
      problem(row, "the time " + (std::isnan(value) ? "nan" : std::to_string(value)));
  }

  template <class Row>
  void check(const Row& r, std::initializer_list<int64_t> sizes) {
    const bool good = std::isfinite(r.us) && r.us > 1e-6 && r.us <= kMost &&
                      is_constant(r.spread) && r.source < t_.sources.size();
    bool positive = true;
    for (const int64_t size : sizes) positive = positive && size > 0 && size <= int64_t{1} << 50;
    if (good && positive) return;
    const std::string row = row_text(r);  // only for the message
    check_number(row, r.us, r.source);
    if (!is_constant(r.spread)) problem(row, "a bad spread");
    if (!positive) problem(row, "a size that is not from 1 to 2^50");
  }

  const TableText& t_;
  std::vector<Diagnostic> problems_;
};

}  // namespace

void check_rows(const TableText& table) {
  RowCheck check(table);
}

}  // namespace stepcast
