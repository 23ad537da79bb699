// SPDX-License-Identifier: Apache-2.0
// The table of everything a scenario may say.
//
// One row a key: its type, its default and why, what is modelled so far.  Reading, messages about
// unknown keys, `explain` and the JSON Schema all come from this table, so they cannot drift.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace stepcast {

enum class FieldType : uint8_t {
  section,    // mapping of the rows below it; a scalar stands for its `shorthand` keys
  text,       // any scalar
  flag,       // true, false
  count,      // whole number from 1
  whole,      // whole number from 0
  number,     // from 0, no unit
  bytes,      // "80GiB"
  bandwidth,  // "400Gb/s", "50GB/s"
  time,       // "2.5us"
  flop_rate,  // "989TFLOP/s"
  share,      // "5%", 0.05
  tokens,     // 2048, "15T", "8Ki"
  choice,     // one of `choices`
  choices,    // list of them
  texts,      // list of scalars
  pairs,      // mapping of free keys to scalars
  list,       // list of mappings; the rows below are "path[].key"
  names,      // mapping with free keys; the rows below are "path.*.key"
  opaque,     // read elsewhere: `model`, `compare.cases.*`, ...
  noted,      // any YAML that says nothing of a step: `tags`
  later,      // the same, for commands that are not there yet: accepted with a warning
};

struct Field {
  std::string_view path;  // "parallel.tp"; "[]" = each item, "*" = each name
  FieldType type = FieldType::text;
  std::string_view summary{};   // one line, for the schema
  std::string_view fallback{};  // default as one would write it; empty = none
  std::string_view reason{};    // why this default
  std::string_view choices{};   // choice, choices: "a|b|c"
  std::string_view now{};       // what is modelled so far, "a|b" ("1" for counts); empty = all
  std::string_view
      shorthand{};  // section: the keys that a scalar sets, "kind" or "attention|hidden"
};

// All rows in the order of the schema; a section comes before what is in it.
std::span<const Field> scenario_fields();
// Those of the section `cluster` alone.
std::span<const Field> cluster_fields();

// "tp" of "parallel.tp".
std::string last_word(std::string_view path);

// nullptr if there is no such row.  The path of a value: list positions and free names as in Field.
const Field* find_field(std::string_view path);

// The words of "a|b|c".
struct Words {
  std::string_view rest;
  std::optional<std::string_view> next();
};
bool one_of(std::string_view word, std::string_view choices);
// "a, b or c".
std::string choices_text(std::string_view choices);

}  // namespace stepcast
