// SPDX-License-Identifier: Apache-2.0
// "Did you mean": what a misspelt word comes close to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stepcast {

// Edits (insert, delete, replace, swap neighbours) that make `b` of `a`.  O(|a| |b|).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate that `word` comes closest to (the first of equals), compared without case and with
// '_' = '-'; empty if none is close: more than a third of it would be wrong.
std::string_view closest(std::string_view word, std::span<const std::string_view> candidates);

// "1, 2, 4 or 8".
std::string or_list(std::span<const std::string> words);

}  // namespace stepcast
