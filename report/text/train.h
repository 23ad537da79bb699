// SPDX-License-Identifier: Apache-2.0
// `stepcast train`: a whole training run as text and JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/format.h"
#include "report/json/writer.h"
#include "report/text/cells.h"
#include "sim/results/training_result.h"

namespace stepcast {

// A screen: days, GPU-hours, where they go, checkpoints, what is assumed.  Ends with '\n'.
std::string training_text(const TrainingResult& result, const TextStyle& style = {});
std::string training_json(const TrainingResult& result, std::string_view version);

enum class TrainingPart : uint8_t {
  useful,
  slow_ranks,
  evaluation,
  checkpoint,
  redo,
  restart,
  wait
};

// Where the wall time goes, as text and report show it; parts of nothing are left out but the
// first.
struct WaterfallLine {
  TrainingPart part{};
  std::string_view name;  // "redo"
  double seconds = 0;
  double share = 0;    // of the wall time
  std::string amount;  // days or hours, which add up as they are shown
};
struct Waterfall {
  bool hours = false;  // of a run of less than two days; else days
  std::vector<WaterfallLine> lines;
};
Waterfall waterfall_of(const TrainingTimes& times);

// "75.0 days"
std::string days_of_seconds(double seconds);
std::string number_text(double n);
std::string dollars(double usd);

// Of a run whose batch grows, and of other numbers of GPUs.  No row without them.
CellTable phases_table(const TrainingResult& result);
CellTable plans_table(const TrainingResult& result);
std::string plans_title(const TrainingResult& result);
// "of the step and of published failure rates"
std::string_view interval_origin(const TrainingResult& result);
// "1,000 runs: 92.4 days in the mean"; how far they lie apart by their failures alone, which is not
// the interval of the forecast: "80 % of them within 92.2 days to 92.6 days, ...", empty of one
// run.
std::string replicas_mean(const TrainingReplicas& replicas);
std::string replicas_scatter(const TrainingReplicas& replicas);
// Why checkpoints are made as often as they are: "as stated".
std::string_view checkpoint_reason(const TrainingResult& result);

// "energy         1.93 GJ a step, ..." in lines.
std::string step_energy_text(const StepEnergy& energy);
void write_step_energy(JsonWriter& json, const StepEnergy& energy);
// Steps side by side: one for each name, nothing where the GPU's power is not known.
std::string step_energies_table(std::span<const std::optional<StepEnergy>> energies,
                                std::span<const std::string> names);

// The rows of that table, a title first, names as they are; empty if nobody knows a whole training.
std::vector<std::vector<std::string>> whole_run_cells(
    std::span<const std::optional<TrainingPlan>> runs, std::span<const std::string> names);
// Whole runs side by side: one for each name, nothing where it is not known.  "" if none is.
std::string whole_runs_table(std::span<const std::optional<TrainingPlan>> runs,
                             std::span<const std::string> names);
void write_whole_run(JsonWriter& json, const TrainingPlan& run);

}  // namespace stepcast
