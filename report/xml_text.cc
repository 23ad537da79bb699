// SPDX-License-Identifier: Apache-2.0
#include "report/xml_text.h"

#include "report/format.h"

namespace stepcast {

std::string xml_text(std::string_view text) {
  std::string s;
  for (const char c : escape_text(text)) {
    switch (c) {
      case '&': s += "&amp;"; break;
      case '<': s += "&lt;"; break;
      case '>': s += "&gt;"; break;
      case '"': s += "&quot;"; break;
      default: s += c;
    }
  }
  return s;
}

std::string elided(std::string_view text, int64_t most) {
  if (display_width(text) <= most) return std::string(text);
  size_t bytes = 0;
  int64_t characters = 0;
  for (; bytes < text.size(); ++bytes)
    if ((static_cast<unsigned char>(text[bytes]) & 0xC0) != 0x80 && ++characters > most - 3) break;
  return std::string(text.substr(0, bytes)) + "...";
}

}  // namespace stepcast
