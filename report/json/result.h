// SPDX-License-Identifier: Apache-2.0
// Results as JSON.  Field names carry their unit; every time is given in seconds and as an integer
// number of picoseconds (`_ps`); fields never change their meaning within one schema_version.
//
// Equal results are equal bytes: nothing about when, where or how fast they were computed.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "report/json/writer.h"
#include "report/text/compare.h"
#include "sim/results/result.h"
#include "sim/results/training_result.h"

namespace stepcast {

constexpr int kResultSchemaVersion = 2;

// One result: what `stepcast run --json` prints.
// With `energy` it has what the step draws.
std::string run_json(const Result& result, std::string_view version,
                     const std::optional<StepEnergy>& energy = {});

// `baseline` is an index into results; `names` one for each.  REQUIRES: baseline < size, equal
// sizes.
std::string compare_json(std::span<const Result> results, std::span<const std::string> names,
                         size_t baseline, std::string_view version,
                         std::span<const LeftOut> left_out = {},
                         std::span<const std::optional<TrainingPlan>> whole_runs = {},
                         std::span<const std::optional<StepEnergy>> energies = {});

// The parts, as members of an object that is open: for `explain`.
void write_memory(JsonWriter& json, const Result& result);
void write_account(JsonWriter& json, const Result& result);
void write_bubble(JsonWriter& json, const Result& result);
void write_critical_path(JsonWriter& json, const Result& result);

}  // namespace stepcast
