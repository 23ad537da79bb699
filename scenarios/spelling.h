// SPDX-License-Identifier: Apache-2.0
// "Did you mean": what a misspelt word comes close to.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stepcast {

// ASCII.
std::string lower_case(std::string_view text);

// The candidate that `word` comes closest to (of equals one that begins alike, else the first),
// compared without case and with '_' = '-'; empty if none is close: more than a third of it would
// be wrong, or half of a word of two letters.
std::string_view closest(std::string_view word, std::span<const std::string_view> candidates);

// The label of a message about `word`: "did you mean 'global'?", empty if nothing comes to mind.  A
// few names that go on where the word ends ("bf16-mixed" for "bf16") come before the closest, those
// that contain it ("dgx-h100" for "h100") after it.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates);

// "1, 2, 4".
std::string comma_list(std::span<const std::string_view> words);
// "1, 2, 4 or 8".
std::string or_list(std::span<const std::string> words);

}  // namespace stepcast
