// SPDX-License-Identifier: Apache-2.0
// What the words of a record stand for: "A100-40GB" for a cluster preset, a version of a framework
// for the kernels it launches.  The rules are data, tests/accuracy/rules.yaml:
//
//   - when: {software: "NeMo", parallelism.flags: "tp-comm-overlap"}   all of these hold
//     set: {overlap.dp_grad: true}                                     keys of a scenario
//     skip: "why such a record cannot be a scenario"
//     assumed: "what nobody stated, and why this is taken"
//     source: "where it is documented"
//
// A condition holds if the text at that path of the record contains its word, or a list has an item
// that does; of several words, [A100, PCIe], it must contain all.  A word of digits alone must
// stand alone there: 1 is not in 16, fp16 is not 16.  All rules that apply are applied in order, so
// later ones win.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "scenarios/document/value.h"

namespace stepcast::accuracy {

struct Rule {
  std::vector<std::pair<std::string, std::string>> when;  // path in the record, word
  std::vector<std::pair<std::string, Value>> set;         // path in the scenario
  std::string skip, assumed, source;
};

// Throws InputError (E102, E107, E126) for what is no such file.
std::vector<Rule> parse_rules(const std::string& text, const std::string& name);
// Throws InputError (E101) if the file cannot be read.
std::vector<Rule> read_rules(const std::string& path);

// `m` of a `when`: one word, or a list of them.  Adds E107 for anything else.
void add_condition(const Member& m, Rule& rule, Problems& problems);

bool applies(const Rule& rule, const Value& record);

}  // namespace stepcast::accuracy
