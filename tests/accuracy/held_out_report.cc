// SPDX-License-Identifier: Apache-2.0
// held_out_report: the section "Measured against predicted" of docs/calibration.md.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

#include "calibrate/table/attention_prices.h"
#include "calibrate/table/cost_table.h"
#include "scenarios/cluster_section.h"
#include "tests/accuracy/held_out.h"
#include "tests/csv_rows.h"

namespace stepcast::accuracy {
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
    lines += line(what + ", " + t.gpu, e, {});
    all.add(e);
  }
  if (all.table.empty()) return "";
  return line("**" + what + "**, all tables", all, target) + lines;
}

std::string best_shapes(const std::string& data) {
  std::string out;
  for (const auto& row : testing::read_rows(data + "/calibrate/best_shapes.csv")) {
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
