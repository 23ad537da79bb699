// SPDX-License-Identifier: Apache-2.0
// What is known of records by what they say: rules.yaml, what their words stand for ("A100-40GB"
// for a cluster preset, a version of a framework for the kernels it launches), and
// known_causes.yaml, why forecasts of some are off.
//
//   - when: {software: "NeMo", parallelism.flags: "tp-comm-overlap"}   all of these hold
//     set: {overlap.dp_grad: true}                                     keys of a scenario
//     skip: "why such a record cannot be a scenario"
//     assumed: "what nobody stated, and why this is taken"
//     source: "where it is documented"
//
//   - when: {source: mlperf_training, id: azure}
//     cause: "one sentence"
//
// A condition holds if the text at that path of the record contains its word, or a list has an item
// that does; of several words, [A100, PCIe], it must contain all.  A word of digits alone must
// stand alone there: 1 is not in 16, fp16 is not 16.  The `source` of a cause is the file of a
// record (RunRecord::source) and compared as a whole.
//
// All rules that apply are applied in order, so later ones win; of the causes that apply the last
// one is it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "calibrate/runs/run_record.h"
#include "scenarios/document/value.h"

namespace stepcast {

// Path in the record, word.
using RunConditions = std::vector<std::pair<std::string, std::string>>;

struct RunRule {
  RunConditions when;
  std::vector<std::pair<std::string, Value>> set;  // path in the scenario
  std::string skip, assumed, source;
};

// Throws InputError (E102, E107, E126) for what is no such file.
std::vector<RunRule> parse_run_rules(const std::string& text, const std::string& name);
// Throws InputError (E101) if the file cannot be read.
std::vector<RunRule> read_run_rules(const std::string& path);

bool applies(const RunRule& rule, const RunRecord& record);

// Why the forecasts of some records are off, where it is known and not modelled.
struct KnownCause {
  std::string source;  // "": any
  RunConditions when;
  std::string cause;
  int line = 0;  // of the file
};

// As parse_run_rules and read_run_rules.
std::vector<KnownCause> parse_known_causes(const std::string& text, const std::string& name);
std::vector<KnownCause> read_known_causes(const std::string& path);

bool applies(const KnownCause& cause, const RunRecord& record);
// "" if none is known.
std::string cause_of(const RunRecord& record, const std::vector<KnownCause>& causes);

}  // namespace stepcast
