// SPDX-License-Identifier: Apache-2.0
// A scenario that is being written by an importer: values with the argument each came from.
#pragma once

#include <cstdint>
#include <optional>
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

// How a size of the batch that a file does not state follows from what it does state, `count`.
// Frameworks reckon it when the job starts, from the replicas that there then are.
struct DerivedBatch {
  enum class Rule : uint8_t {
    microbatches,  // batch.global = count x batch.micro x replicas
    sequences,     // batch.global = count x replicas
    split,         // batch.micro = batch.global / (count x replicas)
  };
  Rule rule = Rule::microbatches;
  int64_t count = 1;     // of a replica and step: microbatches (split, too) or sequences
  int64_t replicas = 1;  // as the file has them, or as they are assumed
  std::optional<std::string> assumed_why{};  // nothing: the file says how
};

struct DraftValue {
  std::string path;
  std::string value;  // YAML on one line; empty while a derived size is not worked out
  Origin origin;
  std::optional<DerivedBatch> derived{};
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
  // A size of the batch that settle_batch() works out, and that no text has before.  The first is
  // set; the second is assumed, so that a note tells the user, too.
  void derive(const std::string& path, DerivedBatch how, const Origin& origin);
  void assume_derived(const std::string& path, DerivedBatch how, const std::string& why);
  // Works the derived sizes of the batch out, for a job of so many replicas; nothing: those of the
  // file.  Notes those that are assumed.  REQUIRES: whatever the user states has been said.
  void settle_batch(std::optional<int64_t> replicas);
  // A value that the user states; the notes about it and what is below it go.
  void override_with(const std::string& path, const std::string& value);
  // Tells the user something, once.
  void note(std::string text);
  // The note "PATH: TEXT", about a value as it is now.
  void note_about(const std::string& path, std::string_view text);
  void left_out(const std::string& what);  // the note "WHAT: not modelled, left out"

  std::vector<std::string> notes() const;
  // The whole scenario, `head` and the notes as comments first.  Its values live in the draft.
  DraftText text(const std::string& head) const;

 private:
  struct Note {
    std::string path;  // of the value that it is about; empty: of none
    std::string text;
  };

  void put(DraftValue value);
  void add_note(Note note);
  void note_assumed(const std::string& path, const std::string& value, const std::string& why);

  std::vector<DraftValue> values_;  // those of a section one after the other
  std::vector<Note> notes_;
};

// As a YAML scalar in quotes where it needs them.
std::string yaml_text(std::string_view text);

}  // namespace stepcast
