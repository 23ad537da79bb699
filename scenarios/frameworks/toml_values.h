// SPDX-License-Identifier: Apache-2.0
// A text in TOML as a tree of values that know their places.
#pragma once

#include "scenarios/document/value.h"

namespace stepcast {

// Dates and times become text.  Adds E100 for a text that is no TOML, E105 beyond 64 levels, E106
// beyond 16 MiB, and returns null then.
Value parse_toml(Problems& problems, const SourceRef& source);

}  // namespace stepcast
