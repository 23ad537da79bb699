// SPDX-License-Identifier: Apache-2.0
// A scenario in the making: keys by dotted path.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "scenarios/document/value.h"

namespace stepcast::accuracy {

class ScenarioWriter {
 public:
  void set(std::string_view path, Value value);
  void set(std::string_view path, std::string_view text);
  void set(std::string_view path, const char* text) { set(path, std::string_view(text)); }
  void set(std::string_view path, int64_t number) { set(path, std::to_string(number)); }
  void set(std::string_view path, bool flag) { set(path, flag ? "true" : "false"); }
  bool has(std::string_view path) const;
  std::string text(std::string_view path) const;  // "" if there is none
  void erase(std::string_view section);           // a section of the first level

  // A line for each section.
  std::string yaml() const;

 private:
  Value root_ = mapping();
  static Value mapping();
};

}  // namespace stepcast::accuracy
