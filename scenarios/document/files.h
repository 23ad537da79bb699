// SPDX-License-Identifier: Apache-2.0
// From files and texts to trees of values: parsing, the files of one load, `extends`, and what a
// scenario may name.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/value.h"

namespace stepcast {

// How deep collections may be nested in a text.
inline constexpr size_t kMostNesting = 64;

// Parses the text of `source`.  Adds E100-E106 problems and returns a null value where it cannot go
// on.
Value parse_yaml(Problems& problems, const SourceRef& source);

// A key that a mapping has had before.
struct RepeatedKey {
  std::string key;
  Mark mark;
  bool changes = false;  // its value is another one, which counts
};

// The same for a file of another tool, which may have what a scenario may not: anchors and aliases,
// `<<` of mappings, tags (they are skipped), and a key that is repeated, whose last value counts,
// as it does for PyYAML and Python's json.
Value parse_foreign_yaml(Problems& problems, const SourceRef& source,
                         std::vector<RepeatedKey>& repeated);

// Adds a text that is part of the library, of a preset or of defaults, as a source, and parses it.
// That is done once in a process, as the text never changes: callers get copies.  Safe to call from
// several threads.  REQUIRES: `text` lives as long as the process.
Value parse_embedded(Problems& problems, std::string name, std::string_view text);

// What a text is, if it is an answer of Stepcast or another page and so no scenario: "a report of
// Stepcast".  Empty for other texts.
std::string name_of_page(std::string_view text);
// Whether a mapping is what a command prints with --json.
bool is_json_answer(const Value& mapping);

class ScenarioFiles {
 public:
  // Files that a scenario names must lie below `root`; empty: the folder of the first file.
  ScenarioFiles(Problems& problems, const std::string& root);
  // The same files; what is found wrong from here on is added to `problems`.
  ScenarioFiles(const ScenarioFiles& other, Problems& problems);

  // The file the user named; null if it cannot be read: E101.
  SourceRef open_first(const std::string& path);
  // The same for text that is in memory; `path` says where it would lie.
  SourceRef add_first(std::string text, const std::string& name, const std::string& path);

  // A file that the value at `from` names: `path` is relative to the file it stands in.  Files are
  // read once, however often they are named.  Null, and E101 if it cannot be read, E106 if it is
  // too large, E111 if it lies outside the root, is no regular file or one of too many.
  SourceRef open(const std::string& path, const Mark& from);

  // Parses a source and merges what it extends below it.  E110 for cycles, E111 beyond 8 levels or
  // 64 words of `extends`.
  Value load(const SourceRef& source);
  // The file that a value names, absolute: relative to the file that the value stands in, or to the
  // root.
  std::string place_of(const std::string& path, const Mark& from) const;
  // The files opened so far that are no scenarios: tables, schedules, configurations of models.
  std::vector<SourceRef> named_data() const;
  // All files opened so far, absolute.
  std::vector<std::string> paths() const;
  // A file could not be read or parsed to its end: what is missing may stand there.
  bool incomplete() const { return incomplete_; }

 private:
  Value load(const SourceRef& source, std::vector<SourceRef>& stack);
  // Adds E107 if the file is another tool's, or an answer, and no scenario.  A script and a page
  // are recognised by their text, before it is parsed (`parsed` is null), a config.json and an
  // answer in JSON by their keys, after that.
  bool refuse_other_file(const SourceRef& source, const Value* parsed);
  // Merges the file that one word of `extends` names into `base`.
  void extend(Value& base, const Value& word, std::vector<SourceRef>& stack);
  SourceRef add(std::string text, std::string name, std::string real_path);
  // Path from the root, for messages.
  std::string shown(const Source& source) const;

  Problems& problems_;
  std::string root_;
  std::string shown_root_;                  // as the user names it; empty: the working directory
  std::map<std::string, SourceRef> files_;  // that were read, by their absolute paths
  std::map<const Source*, Value> loaded_;   // of files_, with what they extend
  std::set<std::string> scenarios_;         // of files_: paths of those that load() took
  size_t bytes_ = 0;                        // of files_ together
  int named_ = 0;                           // how often the scenario names a file
  bool incomplete_ = false;
};

}  // namespace stepcast
