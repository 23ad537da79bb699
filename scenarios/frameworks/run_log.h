// SPDX-License-Identifier: Apache-2.0
// What a training run printed: its measured steps, and the configuration among other lines.
//
// Lines are those of Megatron-LM and Megatron-Bridge (" iteration 5/ 50 | ... | elapsed time per
// iteration (ms): 4150.0 | ... | global batch size: 64 |", "memory (MB) | ... | max allocated: X"),
// of NeMo ("... | global_batch_size: 128 | ... | train_step_timing in s: 6.08 | ...") and of
// torchtitan ("step: 20  loss: 8.1  ...  tps: 5,762  ...": tokens a second and GPU).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "scenarios/frameworks/import_draft.h"
#include "scenarios/frameworks/importers.h"

namespace stepcast {

// kind_of_log() is in import_run.h.

// One line after the other, without its end.
struct LogLines {
  std::string_view rest;
  int number = 0;

  std::optional<std::string_view> next();
};

// What steps of the log took becomes `measured`: the median of the lines, without the first tenth
// of them (at least one, if there are two) and without those of another global batch than the last.
// Adds E331 for numbers that cannot be read.
void draft_measured(const ImportSources& in, ScenarioDraft& draft, ImportCounts& counts);

// The file of a configuration, or, of a log, that which the run printed: what torchtitan writes
// after "Running with configs:" (--debug.print_config), the YAML that Megatron-Bridge and NeMo
// print.  Lines keep their numbers.  Adds E330 that says what is missing, and returns null, if it
// is a log without one.
// E330 is missing_configuration().
SourceRef torchtitan_configuration(const ImportSources& in);
SourceRef bridge_configuration(const ImportSources& in);

// Adds E330: the log `in.file` has no configuration (`what`); it says what its steps took, and how
// to compare that with a scenario.  `how`: the tool prints its configuration.
void missing_configuration(const ImportSources& in, std::string what, std::string how);

}  // namespace stepcast
