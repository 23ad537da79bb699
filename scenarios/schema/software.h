// SPDX-License-Identifier: Apache-2.0
// Software profiles: what a version of a training framework launches, overlaps and keeps, as
// defaults for keys of a scenario.  Each is a file, scenarios/presets/software/NAME.yaml:
//
//   summary: one line
//   base: NAME                                  another profile, whose facts come first
//   facts:
//     - set: {overlap.dp_grad: false}           keys of the field table, by their whole paths
//       when: {precision.preset: fp16-mixed}    only where these have these values; may be left out
//       source: where it is documented
//
// A profile replaces defaults of the field table, and nothing else: whatever the user or a hardware
// preset states wins over it.  Later facts win over earlier ones.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/document/value.h"
#include "scenarios/schema/values.h"

namespace stepcast {

struct SoftwareFact {
  std::vector<std::pair<std::string, Value>> set;         // path of a leaf row, value
  std::vector<std::pair<std::string, std::string>> when;  // path, its value as text
  std::string source;                                     // where it is documented
  std::string profile;                                    // whose file states it
};

// The profile `name`, the facts of its bases first.  Adds E125, with `from` as its place, if there
// is none of that name; E102, E107, E110 and E126 for a file that is no profile.
std::vector<SoftwareFact> software_facts(std::string_view name, const Mark& from,
                                         Problems& problems);

// Fills the facts of the profile that `software` names into `values`.
void apply_software(FieldValues& values, Problems& problems);

}  // namespace stepcast
