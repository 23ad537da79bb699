// SPDX-License-Identifier: Apache-2.0
#include "scenarios/highest_mfu.h"

#include <fmt/format.h>

#include <utility>

#include "sim/csv.h"
#include "sim/diagnostic.h"
#include "topology/cluster/gpu_architecture.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> highest_mfu_files();

int64_t product_bits(const Plan& plan) {
  switch (plan.precision.scaling) {
    case Scaling::none: return 16;
    case Scaling::nvfp4: return 4;
    default: return 8;
  }
}

std::vector<HighestMfu> parse_highest_mfu(std::string_view text) {
  std::vector<HighestMfu> table;
  for (const CsvRow& row : csv_rows(text, "gpus,bits,mfu,runs")) {
    HighestMfu m{std::string(row.cells[0]), row.number<int64_t>(1), row.number(2),
                 row.number<int64_t>(3)};
    if (m.gpus.empty() || !(m.mfu > 0 && m.mfu < 1) || m.runs < 1)
      refuse("'" + m.gpus + "': no utilization that runs reached");
    table.push_back(std::move(m));
  }
  return table;
}

std::span<const HighestMfu> highest_mfu() {
  static const std::vector<HighestMfu> table = parse_highest_mfu(highest_mfu_files()[0].second);
  return table;
}

std::optional<std::string> remark_on_mfu(const Scenario& scenario, double mfu) {
  if (!scenario.plan.trains()) return {};
  const std::string_view gpus = name_of(scenario.cluster.node.gpu.arch);
  const int64_t bits = product_bits(scenario.plan);
  constexpr int64_t kFew = 50;  // runs: another may well be faster than all of them
  for (const HighestMfu& m : highest_mfu()) {
    if (m.runs < kFew) continue;
    if (m.gpus != gpus || m.bits != bits || mfu <= m.mfu) continue;
    return fmt::format(
        "an MFU of {:.1f} % is more than any of {} published {} on GPUs of this generation with "
        "products in {} bits reached ({:.1f} %): the forecast is likely too fast",
        100 * mfu, m.runs, m.runs == 1 ? "run" : "runs", bits, 100 * m.mfu);
  }
  return {};
}

}  // namespace stepcast
