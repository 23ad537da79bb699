// SPDX-License-Identifier: Apache-2.0
// How far a word is from one that it may have been meant to be.
#pragma once

#include <cstddef>
#include <string_view>

namespace stepcast {

// Edits (insert, delete, replace, swap neighbours) that make `b` of `a`.  O(|a| |b|).
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace stepcast
