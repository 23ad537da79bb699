// SPDX-License-Identifier: Apache-2.0
// One value of one row of the field table, read by the row's type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "scenarios/fields.h"
#include "scenarios/value.h"

namespace stepcast {

// whole, count, tokens, bytes and time (picoseconds) are kept as int64_t; number, share, bandwidth
// and flop_rate as double; text and choice as a string; texts, choices and pairs ("key=value") as
// strings.
using Datum = std::variant<int64_t, double, bool, std::string, std::vector<std::string>>;

// Whether rows of this type hold a Datum: not sections, lists, names, opaque, noted and later.
bool is_leaf(const Field& field);

// Nothing if the value is none of the row's type: the problem has been added (E107, E120-E125, E130
// for a word that is not modelled yet).  Messages call it `name`.  REQUIRES: is_leaf(field).
std::optional<Datum> read_datum(const Value& value, const Field& field, std::string_view name,
                                Problems& problems);

// The row's default, read as if it had been written, so that the table cannot hold a wrong one.
// REQUIRES: is_leaf(field), and it has one.
Datum default_datum(const Field& field);

// The same for values that mean the same, however they were written: "true", "2", one word a line.
std::string plain_text(const Datum& datum);

}  // namespace stepcast
