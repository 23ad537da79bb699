// SPDX-License-Identifier: Apache-2.0
#include "scenarios/pricing_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "calibrate/price/plausible_times.h"
#include "calibrate/table/table_text.h"
#include "scenarios/cluster_section.h"
#include "scenarios/presets.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// Without fits exact rows answer alone.
std::string remark_on(const TableText& rows) {
  const bool needs_some = !rows.gemms.empty() || !rows.attentions.empty();
  return rows.fits.empty() && needs_some ? "no fits: `stepcast calibrate fit` makes them" : "";
}

// Refuses times that the GPU of the table cannot have.  Of a GPU that is neither a preset nor `gpu`
// nothing is known.
void check_times(const TableText& rows, const Gpu& gpu, const std::string& file,
                 std::string_view text) {
  if (preset_text(PresetKind::gpu, rows.gpu)) {
    check_plausible(rows, preset_node("", rows.gpu).gpu, file, text);
  } else if (rows.gpu == gpu.name) {
    check_plausible(rows, gpu, file, text);
  }
}

// Empty if the table is of `gpu`.
std::string warning_of_another(const TableText& rows, const Gpu& gpu, const std::string& file) {
  if (rows.gpu == gpu.name) return {};
  std::string warning =
      fmt::format("the cost table {} is of {}, the cluster has {}", file, rows.gpu, gpu.name);
  for (const Diagnostic& d : implausible_times(rows, gpu)) {
    warning += fmt::format("; {}", d.message);
    if (!d.note.empty()) warning += fmt::format(" ({})", d.note);
  }
  return warning;
}

}  // namespace

std::shared_ptr<const CalibrationTable> read_calibration(const std::string& text,
                                                         const std::string& file, const Gpu& gpu) {
  const TableText rows = parse_table_text(text, file);
  check_times(rows, gpu, file, text);
  CostTable table = CostTable::of(rows);
  if (!table.share_from().empty()) {
    const CostTable* other = shipped_table(table.share_from());
    if (other == nullptr)
      throw file_error(
          "E306",
          "there is no shipped table of '" + table.share_from() + "', which '# share:' names", file,
          "`stepcast calibrate show NAME` shows those that are shipped");
    table.take_over(*other);
  }
  return std::make_shared<const CalibrationTable>(
      CalibrationTable{file, hex_of(hash_text(text)), remark_on(rows),
                       warning_of_another(rows, gpu, file), std::move(table)});
}

std::vector<const CostTable*> measured_tables(const Gpu& gpu) {
  std::vector<const CostTable*> tables;
  for (const Gpu* g = &gpu; g != nullptr; g = g->like.get())
    if (const CostTable* table = shipped_table(g->name)) tables.push_back(table);
  return tables;
}

namespace {

// All of a GPU that prices are scaled by.
std::string rates_of(const Gpu& gpu) {
  std::string text = fmt::format("{} {} {} {}", gpu.name, name_of(gpu.arch),
                                 gpu.memory_bandwidth.value, gpu.power.value);
  for (const auto& [type, rate] : gpu.peak)
    text += fmt::format(" {} {}", name_of(type), rate.value);
  return text;
}

// ", else that of b200-sxm, scaled".
std::string words_of(std::span<const CostTable* const> others) {
  std::string words;
  for (const CostTable* other : others) words += ", else that of " + other->name();
  return others.empty() ? "" : words + ", scaled";
}

}  // namespace

PricingTable pricing_table(const Scenario& scenario) {
  const Gpu& gpu = scenario.cluster.node.gpu;
  const CalibrationTable* const users = scenario.calibration.get();
  PricingTable pricing;
  pricing.others = measured_tables(gpu);
  if (users != nullptr) {
    // It stands for the GPU's own.
    if (!pricing.others.empty() && pricing.others.front()->name() == gpu.name)
      pricing.others.erase(pricing.others.begin());
    pricing.table = &users->table;
    pricing.title = "table of " + users->table.name() + " in " + users->file;
  } else if (!pricing.others.empty()) {
    pricing.table = pricing.others.front();
    pricing.others.erase(pricing.others.begin());
    pricing.title = "table " + pricing.table->name();
  } else {
    pricing.title = "no table: roofline";
    return pricing;
  }
  const bool is_scaled = users == nullptr && pricing.table->name() != gpu.name;
  pricing.title += pricing.others.empty() && is_scaled ? ", scaled" : words_of(pricing.others);
  if (users != nullptr && !users->remark.empty()) pricing.title += "; " + users->remark;
  pricing.hash = users != nullptr ? users->hash : hex_of(pricing.table->text_hash());
  if (pricing.others.empty() && !is_scaled) return pricing;
  std::string all = pricing.hash;
  for (const CostTable* other : pricing.others) all += " " + hex_of(other->text_hash());
  for (const Gpu* g = &gpu; g != nullptr; g = g->like.get()) all += "\n" + rates_of(*g);
  pricing.hash = hex_of(hash_text(all));
  return pricing;
}

std::string remark_on_fits(const PricingTable& pricing, const OpGraph& graph,
                           const Prices& prices) {
  const auto fit_of = [&](const Work& work) {
    const FitRow* fit = pricing.table->fit_of(work);
    for (size_t i = 0; fit == nullptr && i < pricing.others.size(); ++i)
      fit = pricing.others[i]->fit_of(work);
    return fit;
  };
  std::vector<const FitRow*> flagged;
  for (size_t i = 0; i < graph.works.size(); ++i) {
    Work work = graph.works[i];
    // A wait is the difference of two products, or of kernels.
    if (work.kind == WorkKind::expert_wait && work.kernel == Kernel::none)
      work.kind = WorkKind::grouped_gemm;
    const Origin origin = prices.by_work[i].origin;
    if (origin != Origin::interpolated && origin != Origin::extrapolated) continue;
    const FitRow* fit = fit_of(work);
    if (fit != nullptr && fit->flag != FitFlag::none) flagged.push_back(fit);
  }
  std::ranges::sort(flagged, {}, [](const FitRow* f) { return std::pair(f->kind, f->dtype); });
  flagged.erase(std::unique(flagged.begin(), flagged.end()), flagged.end());
  std::string remark;
  for (const FitRow* f : flagged) {
    remark += (remark.empty() ? "fit of " : ", of ") + std::string(name_of(f->kind)) + ' ' +
              std::string(name_of(f->dtype)) + ' ' + std::string(name_of(f->flag));
  }
  return remark;
}

}  // namespace stepcast
