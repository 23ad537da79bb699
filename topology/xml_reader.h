// SPDX-License-Identifier: Apache-2.0
// Elements and attributes of an XML document, with their places; enough of XML for files that
// programs write to be read by programs.
//
// Text between elements, comments, processing instructions and the declaration are passed over.
// Not read: document types (and with them entities of one's own), CDATA.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/import_text.h"

namespace stepcast {

struct XmlAttribute {
  std::string_view name;
  std::string value;  // with &amp; and the like resolved
  int line = 0, column = 0;
};

struct XmlElement {
  std::string_view name;
  int line = 0, column = 0;  // of its '<'
  int32_t parent = -1;       // -1: the root, which is element 0
  std::vector<XmlAttribute> attributes;

  // Nothing if it is not there.
  const XmlAttribute* find(std::string_view attribute) const;
  std::string_view value_of(std::string_view attribute) const;  // "" if it is not there
};

// All elements in the order of their begin.  Refers to `text`.  Throws InputError: E321 for what is
// not well formed, more than 64 levels or 100,000 elements; E322 where the text ends too early,
// naming what is still open.
std::vector<XmlElement> read_xml(std::string_view text, const ImportText& lines);

}  // namespace stepcast
