// SPDX-License-Identifier: Apache-2.0
// A scenario that is being written by an importer: values with the argument each came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

class ScenarioDraft {
 public:
  // `value` is YAML on one line; `why` becomes a comment.  A path that no scenario has, or a value
  // that its row does not know, becomes a note instead: "WHY: not modelled, left out".
  void set(const std::string& path, std::string value, const std::string& why);
  void set(const std::string& path, int64_t value, const std::string& why);
  void set(const std::string& path, bool value, const std::string& why);
  // Text that is no number and no word of YAML.
  void set_text(const std::string& path, std::string_view text, const std::string& why);
  // As set(), for what the file does not say: a note tells the user, too.
  void assume(const std::string& path, const std::string& value, const std::string& why);
  // What the user says himself: nothing is assumed about it any more.
  void override_with(const std::string& path, const std::string& value);
  // What the user should know, once.
  void note(std::string text);

  bool has(std::string_view path) const;
  const std::vector<std::string>& notes() const { return notes_; }
  // Everything that changed hands, `head` as comments first.
  std::string text(const std::string& head) const;

 private:
  struct Entry {
    std::string path, value, why;
  };
  void put(Entry entry);

  std::vector<Entry> entries_;  // of a section one after the other
  std::vector<std::string> notes_;
};

// As a YAML scalar in quotes where it needs them.
std::string yaml_text(std::string_view text);

}  // namespace stepcast
