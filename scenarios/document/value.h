// SPDX-License-Identifier: Apache-2.0
// A scenario file as it was written: a tree of values that all know their place.
//
// The subset of YAML that scenarios are written in (JSON included): mappings, sequences, scalars,
// comments.  No anchors, aliases, tags or merge keys; no duplicate keys; at most 16 MiB, 10^6 nodes
// and 64 levels.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/diagnostic.h"

namespace stepcast {

// A text that values point into.
struct Source {
  enum class Kind : uint8_t { file, preset, set };  // set: the right side of a --set

  std::string name;  // as shown in messages: "run.yaml", "--set parallel.tp"
  std::string text;
  Kind kind = Kind::file;
  std::string path{};   // of a file, absolute; empty: the text is of none
  uint32_t number = 0;  // sources are numbered as they are read: Problems::add_source
  std::string_view line(int n) const;  // from 1, without its end; empty if there is none
};
using SourceRef = std::shared_ptr<const Source>;

// A place in a source.  It carries its source, so that it can be looked up wherever it goes: a
// value outlives the load that read it.
struct Mark {
  SourceRef source{};  // null: nowhere
  int line = 0;        // from 1; 0 = nowhere (a default)
  int column = 0;      // from 1
  bool in_preset() const { return source != nullptr && source->kind == Source::Kind::preset; }
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

// Puts `over` on top of `base`: mappings merge key by key, everything else replaces, null deletes
// the key.
void merge(Value& base, Value over);

// `value` as YAML on one line: the right side of a --set.
std::string to_flow(const Value& value);

// The problems found so far in what one load reads.
class Problems {
 public:
  // A source for marks to point into; those of one load are numbered as they are added.
  SourceRef add_source(Source source);

  // Adds a problem at `mark` that underlines `length` characters; file, line and source line are
  // filled in.  A mark without a source is of the first one.
  void add(std::string code, std::string message, const Mark& mark, int length = 1,
           std::string label = {}, std::string help = {}, std::string note = {});
  bool any() const { return !found_.empty(); }
  // The problems by place, at most 20.
  std::vector<Diagnostic> diagnostics() const;
  // Throws them as an InputError if there are any.
  void throw_if_any() const;

 private:
  SourceRef first_;
  uint32_t sources_ = 0;
  std::vector<Diagnostic> found_;  // without their source lines yet
  std::vector<Mark> marks_;        // of each
};

}  // namespace stepcast
