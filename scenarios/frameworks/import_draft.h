// SPDX-License-Identifier: Apache-2.0
// A scenario that is being written by an importer: values with the argument each came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/document/value.h"

namespace stepcast {

// Where a value comes from: in words, which become a comment, and its place in the imported file.
struct Origin {
  Origin(const char* words) : text(words) {}
  Origin(std::string words, Mark place = {}) : text(std::move(words)), mark(std::move(place)) {}
  std::string text;
  Mark mark;
};

struct DraftValue {
  std::string path;
  std::string value;  // YAML on one line
  Origin origin;
};

struct DraftText {
  std::string text;
  std::vector<const DraftValue*> of_line;  // the value on each line, from 1; null: there is none
};

class ScenarioDraft {
 public:
  // `value` is YAML on one line.  A path that no scenario has, or a word that its key does not
  // know, becomes a note instead: "ORIGIN: not modelled, left out".
  void set(const std::string& path, std::string value, const Origin& origin);
  void set(const std::string& path, int64_t value, const Origin& origin);
  void set(const std::string& path, bool value, const Origin& origin);
  // Text that is no number and no word of YAML.
  void set_text(const std::string& path, std::string_view text, const Origin& origin);
  // As set(), for what the file does not say: a note tells the user, too.
  void assume(const std::string& path, const std::string& value, const std::string& why);
  // A value that the user states; the notes about what was assumed for it go.
  void override_with(const std::string& path, const std::string& value);
  // Tells the user something, once.
  void note(std::string text);
  void left_out(const std::string& what);  // the note "WHAT: not modelled, left out"

  const std::vector<std::string>& notes() const { return notes_; }
  // The whole scenario, `head` and the notes as comments first.  Its values live in the draft.
  DraftText text(const std::string& head) const;

 private:
  void put(DraftValue value);

  std::vector<DraftValue> values_;  // those of a section one after the other
  std::vector<std::string> notes_;
};

// As a YAML scalar in quotes where it needs them.
std::string yaml_text(std::string_view text);

}  // namespace stepcast
