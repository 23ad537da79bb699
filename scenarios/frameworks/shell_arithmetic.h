// SPDX-License-Identifier: Apache-2.0
// What $((...)) computes: C's operators on whole numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace stepcast {

// Nothing if it is no number, or beyond 64 bits, or if `value_of` does not know a name in it; a
// number with digits behind the point counts as no number.  Without `value_of` no name is known.
std::optional<int64_t> shell_number(
    std::string_view text,
    const std::function<std::optional<std::string>(const std::string& name)>& value_of);

}  // namespace stepcast
