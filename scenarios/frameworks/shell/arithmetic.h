// SPDX-License-Identifier: Apache-2.0
// What $((...)) computes: C's operators on whole numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// Whose numbers they are: the shell's, where 010 is 8; those of expr and bc, where it is 10; or
// Python's, where // rounds down, and / is known only if nothing is left.
enum class NumberRules : uint8_t { shell, decimal, python };

// Nothing if it is no number, or beyond 64 bits, or if `value_of` does not know a name in it; a
// number with digits behind the point counts as no number.  Without `value_of` no name is known.
// Texts of more than 10,000 characters, those of the names among them, are not known.
std::optional<int64_t> shell_number(
    std::string_view text,
    const std::function<std::optional<std::string>(const std::string& name)>& value_of,
    NumberRules rules = NumberRules::shell);

// The variables that an arithmetic text sets: "A = 2", "A *= 2", "A++".
struct ShellAssigned {
  std::vector<std::string> names;
  std::optional<std::string> value;  // if that is all it does: what the variable becomes
  bool is_before = false;            // "A++" is what A was before
};
ShellAssigned shell_assigned(std::string_view text);

}  // namespace stepcast
