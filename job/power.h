// SPDX-License-Identifier: Apache-2.0
// What GPUs and their hosts draw, by what they do (job/power.csv).
//
// The compute stream of a rank says what its GPU does: products and attention compute, norms,
// activations and the optimizer move memory, exposed communication communicates, everything else
// stands idle.  Of the rating, or of power_limit below it, each draws a share.  Communication
// beside compute costs nothing more: compute draws the rating already.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/diagnostic.h"
#include "sim/graph/spend.h"
#include "sim/results/result.h"
#include "sim/results/training_result.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

enum class Draw : uint8_t { compute, memory, communication, idle };
constexpr int kDraws = 4;
Draw draw_of(Spend spend);

struct PowerTable {
  std::array<double, kDraws> share{};                         // of the rating, 0 to 1
  std::array<double, kGpuArchitectures.size()> host_rated{};  // watts a GPU; 0: not known
  double host_drawn = 0;                                      // share of it
  // Which of them no source was found for.
  std::array<bool, kDraws> share_assumed{};
  std::array<bool, kGpuArchitectures.size()> host_assumed{};
};
const PowerTable& power_table();
// Throws InputError if a line is wrong or one is missing.
PowerTable parse_power(std::string_view text);

// Watts of a GPU that does nothing else.  Nothing if its rating is not known.
std::optional<double> gpu_watts(const Gpu& gpu, Draw draw);
// Mean watts of the GPUs over a step, all roles alike.
std::optional<double> step_gpu_watts(const Gpu& gpu, const Account& account);
// Watts of a host for each of its GPUs: what the node draws beside them.
std::optional<double> host_watts(const Gpu& gpu);

// Why `step_energy` has no figure of this GPU, and what would help: its rating is not stated, or
// hosts of its architecture have none (power.csv).  Nothing if both are known.  The Diagnostic has
// neither code nor place.
std::optional<Diagnostic> check_power(const Gpu& gpu);

// What a host draws, in words: "hosts at 61 % of their rating".
std::string host_words();

// What of these figures is assumed, in words: "memory-bound kernels at 65 % of the rating".  Empty
// if all have a source.
std::string assumed_power(const Gpu& gpu);

// Of a forecast step.  Nothing where the rating of the GPU or its host is not known: check_power().
std::optional<StepEnergy> step_energy(const Gpu& gpu, const Result& result);

}  // namespace stepcast
