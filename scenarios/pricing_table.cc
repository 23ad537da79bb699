// SPDX-License-Identifier: Apache-2.0
#include "scenarios/pricing_table.h"

#include <fmt/format.h>

#include <algorithm>
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

PricingTable pricing_table(const Scenario& scenario) {
  if (scenario.calibration != nullptr) {
    const CalibrationTable& own = *scenario.calibration;
    return {&own.table,
            "table of " + own.table.name() + " in " + own.file +
                (own.remark.empty() ? "" : "; " + own.remark),
            own.hash};
  }
  const Gpu& gpu = scenario.cluster.node.gpu;
  const CostTable* const own = shipped_table(gpu.name);
  const Gpu* const like = gpu.like.get();
  const CostTable* const other = like != nullptr ? shipped_table(like->name) : nullptr;
  if (own != nullptr && other != nullptr)
    return {own, fmt::format("table {}, else that of {}, scaled", gpu.name, like->name),
            hex_of(hash_text(hex_of(own->text_hash()) + hex_of(other->text_hash())))};
  if (own != nullptr) return {own, "table " + gpu.name, hex_of(own->text_hash())};
  if (other != nullptr)
    return {other, "table " + like->name + ", scaled", hex_of(other->text_hash())};
  return {nullptr, "no table: roofline", ""};
}

std::string remark_on_fits(const CostTable& table, const OpGraph& graph, const Prices& prices) {
  std::vector<const FitRow*> flagged;
  for (size_t i = 0; i < graph.works.size(); ++i) {
    Work work = graph.works[i];
    // A wait is the difference of two products, or of kernels.
    if (work.kind == WorkKind::expert_wait && work.kernel == Kernel::none)
      work.kind = WorkKind::grouped_gemm;
    const Origin origin = prices.by_work[i].origin;
    if (origin != Origin::interpolated && origin != Origin::extrapolated) continue;
    const FitRow* fit = table.fit_of(work);
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
