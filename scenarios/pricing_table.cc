// SPDX-License-Identifier: Apache-2.0
#include "scenarios/pricing_table.h"

#include <utility>

#include "sim/diagnostic.h"
#include "sim/hash.h"

namespace stepcast {

std::shared_ptr<const CalibrationTable> read_calibration(const std::string& text,
                                                         const std::string& file) {
  CostTable table = CostTable::parse(text, file);
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
      CalibrationTable{file, hex_of(hash_text(text)), std::move(table)});
}

PricingTable pricing_table(const Scenario& scenario) {
  if (scenario.calibration != nullptr) {
    const CalibrationTable& own = *scenario.calibration;
    return {&own.table, "table of " + own.table.name() + " in " + own.file, own.hash};
  }
  const std::string& gpu = scenario.cluster.node.gpu.name;
  const CostTable* shipped = shipped_table(gpu);
  if (shipped == nullptr) return {nullptr, "no table: roofline", ""};
  return {shipped, "table " + gpu, hex_of(hash_text(shipped_table_text(gpu)))};
}

}  // namespace stepcast
