// SPDX-License-Identifier: Apache-2.0
#include "scenarios/pricing_table.h"

#include <utility>

#include "calibrate/table_text.h"
#include "sim/diagnostic.h"
#include "sim/hash.h"

namespace stepcast {
namespace {

std::string remark_on_fits(const TableText& rows) {
  std::string remark;
  for (const FitRow& f : rows.fits)
    if (f.flag != FitFlag::none)
      remark += (remark.empty() ? "fit of " : ", of ") + std::string(name_of(f.kind)) + ' ' +
                std::string(name_of(f.dtype)) + ' ' + std::string(name_of(f.flag));
  const bool gaps = !rows.gemms.empty() || !rows.attentions.empty();
  return rows.fits.empty() && gaps ? "no fits: `stepcast calibrate fit` makes them" : remark;
}

}  // namespace

std::shared_ptr<const CalibrationTable> read_calibration(const std::string& text,
                                                         const std::string& file) {
  const TableText rows = parse_table_text(text, file);
  CostTable table = CostTable::of(rows);
  if (!table.share_from().empty()) {
    const CostTable* other = shipped_table(table.share_from());
    if (other == nullptr) {
      Diagnostic d;
      d.code = "E306";
      d.message =
          "there is no shipped table of '" + table.share_from() + "', which '# share:' names";
      d.file = file;
      throw InputError(std::move(d));
    }
    table.take_over(*other);
  }
  return std::make_shared<const CalibrationTable>(
      CalibrationTable{file, hex_of(hash_text(text)), remark_on_fits(rows), std::move(table)});
}

PricingTable pricing_table(const Scenario& scenario) {
  if (scenario.calibration != nullptr) {
    const CalibrationTable& own = *scenario.calibration;
    return {&own.table,
            "table of " + own.table.name() + " in " + own.file +
                (own.remark.empty() ? "" : "; " + own.remark),
            own.hash};
  }
  const std::string& gpu = scenario.cluster.node.gpu.name;
  const CostTable* shipped = shipped_table(gpu);
  if (shipped == nullptr) return {nullptr, "no table: roofline", ""};
  return {shipped, "table " + gpu, hex_of(hash_text(shipped_table_text(gpu)))};
}

}  // namespace stepcast
