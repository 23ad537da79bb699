// SPDX-License-Identifier: Apache-2.0
// The files of one load: reading them, `extends`, and what a scenario may name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/value.h"

namespace stepcast {

class ScenarioFiles {
 public:
  // Files that a scenario names must lie below `root`; empty: the folder of the first file.
  ScenarioFiles(Problems& problems, const std::string& root);
  // The same files, whose texts are in `problems` too: what is found from here on is added there.
  ScenarioFiles(const ScenarioFiles& other, Problems& problems);

  // The file the user named.  E101 and exit status 7 if it cannot be read.
  std::optional<uint32_t> open_first(const std::string& path);
  // The same for text that is in memory; `name` says where it would lie.
  uint32_t add_first(std::string text, const std::string& name);

  // A file that the value at `from` names: `path` is relative to the file it stands in.  E101 if it
  // cannot be read, E111 if it lies outside the root or is no regular file.
  std::optional<uint32_t> open(const std::string& path, const Mark& from);

  // Parses a source and merges what it extends below it.  E110 for circles, E111 beyond 8 levels or
  // 64 files.
  Value load(uint32_t source);
  // A file could not be read or parsed to its end: what is missing may stand there.
  bool incomplete() const { return incomplete_; }

 private:
  Value load(uint32_t source, std::vector<uint32_t>& stack);
  // Adds E107 for another tool's file that is taken for a scenario: of a text that is not parsed
  // yet a script, of one that is a config.json.
  bool refuse_other_file(uint32_t source, const Value* parsed);
  // Merges the file that one word of `extends` names into `base`.
  void extend(Value& base, const Value& word, std::vector<uint32_t>& stack);
  uint32_t add(std::string text, std::string name, std::string real_path);
  // Path from the root, for messages.
  std::string shown(uint32_t source) const;

  Problems& problems_;
  std::string root_;
  std::vector<std::string> real_paths_;  // by source; empty: no file
  int opened_ = 0;
  bool incomplete_ = false;
};

}  // namespace stepcast
