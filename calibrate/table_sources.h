// SPDX-License-Identifier: Apache-2.0
// Where the rows of a table come from (TableSource), all rows together.
#pragma once

#include <string_view>

#include "calibrate/table_text.h"

namespace stepcast {

// Key of the fits and ratios that fit_table (fit_table.h) made of a table's own rows.
constexpr std::string_view kFitSource = "fit";

// Removes the sources that no row names.  REQUIRES: rows name existing sources.
void drop_unused_sources(TableText& table);

}  // namespace stepcast
