// SPDX-License-Identifier: Apache-2.0
// Writing files of text: whole, or a part between two marks, as pages have them.
#pragma once

#include <string>
#include <string_view>

namespace stepcast::accuracy {

// Throws InputError if it cannot be written.
void write_text_file(const std::string& path, std::string_view text);

// What stands in `whole` between the lines "<!-- NAME: begin -->" and "<!-- NAME: end -->".  Throws
// InputError if one of them is missing; `path` appears in the message.
std::string between_marks(const std::string& whole, std::string_view name, const std::string& path);
// Replaces it in the file.
void put_between_marks(const std::string& path, std::string_view name, std::string_view text);

}  // namespace stepcast::accuracy
