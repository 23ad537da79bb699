// SPDX-License-Identifier: Apache-2.0
// What reports in HTML say of a scenario besides its result.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/html/page.h"
#include "scenarios/scenario.h"
#include "sim/results/result.h"
#include "sim/results/training_result.h"

namespace stepcast {

std::vector<SettingLine> setting_lines_of(const Scenario& scenario);

// Its name and size: "llama3-8b, 8.030 B parameters"; of several scenarios each model once, with
// "; " between them.
std::string model_facts_of(std::span<const Scenario> scenarios);

// `command` makes the report again; empty where none does.
PageFacts page_facts_of(const Result& result, const Scenario& scenario, std::string_view version,
                        std::string command);

// As many of each; of `whole_runs` as many or none.  The results are needed while the page is
// written.
std::vector<PageCase> page_cases_of(std::span<const Result> results,
                                    std::span<const Scenario> scenarios,
                                    std::span<const std::string> names,
                                    std::span<const std::optional<TrainingPlan>> whole_runs);

}  // namespace stepcast
