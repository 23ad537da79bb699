// SPDX-License-Identifier: Apache-2.0
// What a reader refuses in a file, for tables that were made in memory.
#pragma once

#include "calibrate/table_text.h"

namespace stepcast {

// Throws InputError E310 naming rows whose time or spread is not a number, not finite, zero or
// negative, or whose sizes are not positive, groups that their nodes do not hold, constants that
// are not from 0 to 1e15, and sources that do not exist; the first 20 of them.
void check_rows(const TableText& table);

}  // namespace stepcast
