// SPDX-License-Identifier: Apache-2.0
// Why predictions of some records are off, where it is known and not modelled: known_causes.yaml.
//
//   - when: {source: mlperf_training, id: azure}     all of these hold
//     cause: "one sentence"
//
// `source` is the file of a record (RunRecord::source) and compared as a whole; the other
// conditions are those of rules.h.  Of those that apply the last one is it.
#pragma once

#include <string>
#include <vector>

#include "tests/accuracy/rules.h"
#include "tests/accuracy/run_record.h"

namespace stepcast::accuracy {

struct KnownCause {
  std::string source;  // "": any
  Rule rule;           // its `when`
  std::string cause;
  int line = 0;  // of the file
};

// Throws InputError (E102, E107, E126) for what is no such file.
std::vector<KnownCause> parse_known_causes(const std::string& text, const std::string& name);
// Throws InputError (E101) if the file cannot be read.
std::vector<KnownCause> read_known_causes(const std::string& path);

bool applies(const KnownCause& cause, const RunRecord& record);
// "" if none is known.
std::string cause_of(const RunRecord& record, const std::vector<KnownCause>& causes);

}  // namespace stepcast::accuracy
