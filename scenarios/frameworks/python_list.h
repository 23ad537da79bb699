// SPDX-License-Identifier: Apache-2.0
// Python expressions of whole numbers and lists of them, as arguments of Megatron have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace stepcast {

// "([0]*3+[1]*58)", "[0, 1]".  Nothing if it is no list, or longer than 100,000.
std::optional<std::vector<int64_t>> python_list(std::string_view text);
// "8*4", "32/8".  Nothing if it is no whole number.
std::optional<int64_t> python_whole(std::string_view text);

}  // namespace stepcast
