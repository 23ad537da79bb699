// SPDX-License-Identifier: Apache-2.0
// A scenario file as it was written: a tree of values that all know their place.
//
// The subset of YAML that scenarios are written in (JSON included): mappings, sequences, scalars,
// comments.  No anchors, aliases, tags or merge keys; no duplicate keys; at most 16 MiB, 10^6 nodes
// and 64 levels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/diagnostic.h"

namespace stepcast {

// A text that values point into: a file, a preset, or the right side of a --set.
struct Source {
  std::string name;  // as shown in messages: "run.yaml", "--set parallel.tp"
  std::string text;
  bool is_preset = false;
  std::string_view line(int n) const;  // from 1, without its end; empty if there is none
};

struct Mark {
  uint32_t source = 0;  // index into Sources
  int line = 0;         // from 1; 0 = nowhere (a default)
  int column = 0;       // from 1
};

struct Member;

struct Value {
  enum class Kind : uint8_t { null, scalar, sequence, mapping };
  Kind kind = Kind::null;
  Mark mark;
  bool quoted = false;          // scalar in quotes: always text, never a number
  std::string text;             // scalar, as written
  std::vector<Value> items;     // sequence
  std::vector<Member> members;  // mapping, in order of appearance, keys unique

  // nullptr if this is no mapping or has no such key.
  const Value* find(std::string_view key) const;
  Value* find(std::string_view key);
  bool is_mapping() const { return kind == Kind::mapping; }
  bool is_scalar() const { return kind == Kind::scalar; }
};

struct Member {
  std::string key;
  Mark key_mark;
  Value value;
};

// The texts of one load and the problems found in them so far.
class Problems {
 public:
  uint32_t add_source(Source source);
  const Source& source(uint32_t i) const { return sources_[i]; }

  // Adds a problem at `mark` that underlines `length` characters; file, line and source line are
  // filled in.
  void add(std::string code, std::string message, const Mark& mark, int length = 1,
           std::string label = {}, std::string help = {}, std::string note = {});
  bool any() const { return !found_.empty(); }
  int exit_status = 2;
  // Throws all problems (at most 20, by place) as an InputError if there are any.
  void throw_if_any() const;

 private:
  std::vector<Source> sources_;
  std::vector<Diagnostic> found_;  // without their source lines yet
  std::vector<Mark> marks_;        // of each
};

// Parses the text of source `source`.  Adds E100-E106 problems and returns a null value where it
// cannot go on.
Value parse_yaml(Problems& problems, uint32_t source);

}  // namespace stepcast
