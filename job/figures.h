// SPDX-License-Identifier: Apache-2.0
// How the figures of the job's tables are known: their column `known`.
#pragma once

#include <string_view>

#include "sim/diagnostic.h"

namespace stepcast {

// Whether no source was found for a figure.  Throws InputError for another word than published,
// derived and assumed.
inline bool assumed_figure(std::string_view known) {
  if (known == "assumed") return true;
  if (known == "published" || known == "derived") return false;
  refuse("a figure is published, derived or assumed");
}

}  // namespace stepcast
