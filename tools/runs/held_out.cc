// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/held_out.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "calibrate/fit/fit_table.h"
#include "calibrate/price/collective_price.h"
#include "calibrate/price/roofline.h"
#include "calibrate/runs/run_record.h"
#include "calibrate/table/attention_prices.h"
#include "calibrate/table/cost_table.h"
#include "calibrate/table/curve.h"
#include "calibrate/table/gemm_prices.h"
#include "calibrate/table/table_text.h"
#include "scenarios/cluster_section.h"
#include "scenarios/presets.h"
#include "sim/csv.h"
#include "sim/statistics.h"
#include "tools/runs/collectives.h"

namespace stepcast::accuracy {
namespace {

constexpr double kClock = 50;  // us: of rows that are judged
constexpr double kShortKernel = 10;

// The same numbers everywhere, unlike std::shuffle: which of `count` things are held out.
std::vector<bool> a_fifth(size_t count, uint32_t seed) {
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  uint64_t state = seed * uint64_t{0x9e3779b97f4a7c15} + 1;
  for (size_t i = count; i > 1; --i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[i - 1], order[(state >> 33) % i]);
  }
  std::vector<bool> out(count);
  for (size_t i = 0; i < count / 5; ++i) out[order[i]] = true;
  return out;
}

Work work_of(const AttentionRow& r) {
  Work w;
  w.kind = r.backward ? WorkKind::attention_backward : WorkKind::attention_forward;
  w.dtype = r.dtype;
  w.causal = r.causal;
  w.m = r.m;
  w.n = r.n;
  w.k = r.k;
  w.heads = r.heads;
  w.kv_heads = r.kv_heads;
  w.batch = r.batch;
  w.flops = attention_flops(r);
  return w;
}

Work work_of(const MemoryRow& r) {
  Work w;
  w.kernel = r.kernel;
  w.bytes = {r.bytes};
  return w;
}

double data_sheet_us(const Work& w, const Gpu& gpu) {
  const auto peak = gpu.peak.find(w.dtype);
  const double rate = peak == gpu.peak.end() ? 0 : peak->second.value;
  const double arithmetic = rate > 0 ? w.flops.value / rate : 0;
  const double memory = static_cast<double>(operand_bytes(w).value) / gpu.memory_bandwidth.value;
  return 1e6 * std::max(arithmetic, memory);
}

template <class Row>
void judge(const TableText& table, const CostTable& rest, const std::vector<Row>& held,
           double shortest, HeldOutErrors& errors) {
  const Gpu gpu = preset_node("", table.gpu).gpu;
  for (const Row& r : held) {
    if (table.sources[r.source].derived || r.us < shortest) continue;
    const Work w = work_of(r);
    const auto price = rest.lookup(w, gpu);
    if (!price) continue;
    errors.table.push_back(std::fabs(price->us / r.us - 1));
    errors.contrast.push_back(std::fabs(data_sheet_us(w, gpu) / r.us - 1));
    errors.by_origin[static_cast<size_t>(price->origin)].push_back(errors.table.back());
    const double roofline = 1e6 * to_seconds(roofline_time(w, gpu));
    errors.by_origin[static_cast<size_t>(Origin::roofline)].push_back(
        std::fabs(roofline / r.us - 1));
  }
}

// Splits rows into those kept and those held out.
template <class Row, class Out>
std::vector<Row> take_out(std::vector<Row>& rows, Out out) {
  std::vector<Row> kept, held;
  for (size_t i = 0; i < rows.size(); ++i) (out(i) ? held : kept).push_back(rows[i]);
  rows = std::move(kept);
  return held;
}

CostTable refitted(TableText table) {
  return CostTable::of(fit_table(std::move(table)).table);
}

template <class Row>
bool has_measured(const TableText& t, const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const Row& r) { return !t.sources[r.source].derived; });
}

}  // namespace

void HeldOutErrors::add(const HeldOutErrors& other) {
  table.insert(table.end(), other.table.begin(), other.table.end());
  contrast.insert(contrast.end(), other.contrast.begin(), other.contrast.end());
  for (size_t o = 0; o < by_origin.size(); ++o)
    by_origin[o].insert(by_origin[o].end(), other.by_origin[o].begin(), other.by_origin[o].end());
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return upper_quantile(std::move(values), share);
}

HeldOutErrors held_out_gemms(const TableText& table, Holdout how, uint32_t seed) {
  TableText rest = table;
  const auto plain = [](const GemmRow& r) { return r.batch == 1; };
  std::vector<GemmRow> held;
  if (how == Holdout::rows) {
    const std::vector<bool> out = a_fifth(table.gemms.size(), seed);
    held = take_out(rest.gemms, [&](size_t i) { return plain(table.gemms[i]) && out[i]; });
  } else {
    std::set<std::pair<int64_t, int64_t>> seen;
    for (const GemmRow& r : table.gemms) {
      if (plain(r)) seen.emplace(r.n, r.k);
    }
    const std::vector<std::pair<int64_t, int64_t>> weights(seen.begin(), seen.end());
    const std::vector<bool> out = a_fifth(weights.size(), seed);
    held = take_out(rest.gemms, [&](size_t i) {
      const GemmRow& r = table.gemms[i];
      const auto at = std::lower_bound(weights.begin(), weights.end(), std::pair(r.n, r.k));
      return plain(r) && out[static_cast<size_t>(at - weights.begin())];
    });
  }
  HeldOutErrors errors;
  judge(table, refitted(std::move(rest)), held, kClock, errors);
  return errors;
}

HeldOutErrors held_out_attention(const TableText& table, uint32_t seed) {
  TableText rest = table;
  const std::vector<bool> out = a_fifth(table.attentions.size(), seed);
  const auto held = take_out(rest.attentions, [&](size_t i) { return out[i]; });
  HeldOutErrors errors;
  judge(table, refitted(std::move(rest)), held, 0, errors);
  return errors;
}

HeldOutErrors held_out_memory(const TableText& table, uint32_t seed) {
  TableText rest = table;
  const std::vector<bool> out = a_fifth(table.memories.size(), seed);
  const auto held = take_out(rest.memories, [&](size_t i) { return out[i]; });
  HeldOutErrors errors;
  judge(table, refitted(std::move(rest)), held, kShortKernel, errors);
  return errors;
}

HeldOutErrors thinned_collectives(const std::string& folder, int every) {
  HeldOutErrors errors;
  const auto step = static_cast<size_t>(every);
  for (const Log& log : read_logs(folder)) {
    if (!log.scored || log.transfer) continue;
    Curve kept;
    std::vector<SizedTime> line;
    for (size_t i = 0; i < log.points.size(); i += step) {
      kept.push_back({static_cast<int64_t>(log.points[i].bytes), log.points[i].seconds * 1e6});
      line.push_back({log.points[i].bytes, log.points[i].seconds * 1e6});
    }
    if (kept.size() < 2) continue;
    const AlphaBeta fit = fit_alpha_beta(line);
    for (size_t i = 0; i < log.points.size(); ++i) {
      if (i % step == 0) continue;
      const Point& p = log.points[i];
      const CurveValue v =
          collective_on(kept, log.kind, {static_cast<int64_t>(p.bytes)}, log.shape, log.cluster);
      errors.table.push_back(std::fabs(v.us * 1e-6 / p.seconds - 1));
      const double straight = (fit.alpha_us + fit.us_per_byte * p.bytes) * 1e-6;
      errors.contrast.push_back(std::fabs(straight / p.seconds - 1));
    }
  }
  return errors;
}

std::vector<TableText> tables_with_rows() {
  std::vector<TableText> tables;
  for (const std::string_view name : preset_names(PresetKind::gpu)) {
    const std::string_view text = shipped_table_text(name);
    if (text.empty()) continue;
    TableText t = parse_table_text(text, std::string(name));
    if (has_measured(t, t.gemms) || has_measured(t, t.attentions) || has_measured(t, t.memories))
      tables.push_back(std::move(t));
  }
  return tables;
}

// ---- the report

namespace {

constexpr std::array<uint32_t, 3> kSeeds{1, 2, 3};

struct Target {
  double median = 0, p90 = 0;  // 0: none
};

std::string cell(double error, double target) {
  if (target <= 0) return fmt::format("{:.1f}", 100 * error);
  return fmt::format("{:.1f} ({:.1f}{})", 100 * error, 100 * target,
                     error <= target ? "" : ", missed");
}

// "| what | rows | median | p90 | contrast median | p90 |"
std::string line(const std::string& what, const HeldOutErrors& e, Target target) {
  return fmt::format("| {} | {} | {} | {} | {:.1f} | {:.1f} |\n", what, e.table.size(),
                     cell(percentile(e.table, 0.5), target.median),
                     cell(percentile(e.table, 0.9), target.p90), 100 * percentile(e.contrast, 0.5),
                     100 * percentile(e.contrast, 0.9));
}

template <class Held>
std::string family(const std::string& what, const std::vector<TableText>& tables, Target target,
                   Held held) {
  std::string lines;
  HeldOutErrors all;
  for (const TableText& t : tables) {
    HeldOutErrors e;
    for (const uint32_t seed : kSeeds) e.add(held(t, seed));
    if (e.table.empty()) continue;
    lines += line(fmt::format("{}, {}", what, t.gpu), e, {});
    all.add(e);
  }
  if (all.table.empty()) return "";
  return line(fmt::format("**{}**, all tables", what), all, target) + lines;
}

std::string best_shapes(const std::string& data) {
  std::string out;
  for (const auto& row : csv_records(read_text_file(data + "/calibrate/best_shapes.csv"))) {
    const CostTable* table = shipped_table(row.at("gpu"));
    if (table == nullptr) continue;
    Work w;
    w.kind = WorkKind::gemm;
    w.dtype = row.at("dtype") == "fp8" ? DType::fp8 : DType::bf16;
    w.m = std::stoll(row.at("m"));
    w.n = std::stoll(row.at("n"));
    w.k = std::stoll(row.at("k"));
    w.flops = {2.0 * static_cast<double>(w.m) * static_cast<double>(w.n) *
               static_cast<double>(w.k)};
    const auto price = table->lookup(w, preset_node("", row.at("gpu")).gpu);
    if (!price) continue;
    const double rate = w.flops.value / price->us * 1e-6;
    const double best = std::stod(row.at("tflops"));
    out += fmt::format("| {} | {} | {}x{}x{} | {:.0f} | {:.0f} | {:.2f} |\n", row.at("gpu"),
                       row.at("dtype"), w.m, w.n, w.k, best, rate, rate / best);
  }
  return out;
}

}  // namespace

std::string held_out_report(const std::string& data) {
  constexpr std::string_view kHead = "\n|---|---|---|---|---|---|\n";
  const std::vector<TableText> tables = tables_with_rows();
  std::string out =
      "| rows held out | rows | median error, % (target) | 90th percentile (target) | data sheet's "
      "roofline: median | 90th percentile |";
  out += kHead;
  out += family(
      "products, a fifth of the rows", tables, {0.025, 0.10},
      [](const TableText& t, uint32_t seed) { return held_out_gemms(t, Holdout::rows, seed); });
  out += family(
      "products, a fifth of the (n, k) whole", tables, {0.045, 0.15},
      [](const TableText& t, uint32_t seed) { return held_out_gemms(t, Holdout::weights, seed); });
  out += family("fused attention, a fifth of the rows", tables, {0.08, 0}, held_out_attention);
  out += family("memory-bound kernels, a fifth of the rows", tables, {0.08, 0}, held_out_memory);
  out +=
      "\n| logs of collectives thinned | rows | median error, % (target) | 90th percentile "
      "(target) "
      "| alpha-beta of the rows kept: median | 90th percentile |";
  out += kHead;
  out += line("every second size kept", thinned_collectives(data + "/collectives", 2), {});
  out += line("**every fourth size kept**", thinned_collectives(data + "/collectives", 4),
              {0.025, 0.10});
  out +=
      "\nRows are measured as training runs them; a search over shapes finds rates that few of its "
      "shapes reach:\n";
  out +=
      "\n| GPU | type | best shape of a search | its TFLOP/s | the table's at that shape | ratio |";
  out += kHead;
  return out + best_shapes(data);
}

}  // namespace stepcast::accuracy
