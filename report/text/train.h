// SPDX-License-Identifier: Apache-2.0
// `stepcast train`: a whole training run as text and JSON.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "report/format.h"
#include "report/json/writer.h"
#include "sim/training_result.h"

namespace stepcast {

// A screen: days, GPU-hours, where they go, checkpoints, what is assumed.  Ends with '\n'.
std::string training_text(const TrainingResult& result, const TextStyle& style = {});
std::string training_json(const TrainingResult& result, std::string_view version);

// "energy         1.93 GJ a step, ..." in lines.
std::string step_energy_text(const StepEnergy& energy);
void write_step_energy(JsonWriter& json, const StepEnergy& energy);

// Whole runs side by side: one for each name, nothing where it is not known.  "" if none is.
std::string whole_runs_table(std::span<const std::optional<TrainingPlan>> runs,
                             std::span<const std::string> names);
void write_whole_run(JsonWriter& json, const TrainingPlan& run);

}  // namespace stepcast
