// SPDX-License-Identifier: Apache-2.0
// What a scenario says, row by row of the field table: read, checked one by one, defaults filled
// in.
//
// Relations between values (does tp divide the heads?) are checked by whoever resolves them; here a
// value is right or wrong by itself.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/field_datum.h"
#include "scenarios/fields.h"
#include "scenarios/scenario.h"
#include "scenarios/value.h"

namespace stepcast {

class FieldValues {
 public:
  // Reads the rows below `prefix` ("" = all) from the mapping `root`, shorthand written out.  Adds
  // E102 for keys that are no rows, E107, E120-E126 for wrong values, E130 for values and
  // sections that are not modelled yet.  Rows inside lists and free names are not read.
  FieldValues(Value root, const std::string& prefix, Problems& problems);
  // The same values; what is found wrong with them from here on is added to `problems`.
  FieldValues(const FieldValues& other, Problems& problems);

  // There is a value, given or default.  False also for a value that was wrong, so that one mistake
  // is reported once.
  bool has(std::string_view path) const;
  // The user or a preset wrote something here, right or wrong; perhaps under a misspelt key.
  bool given(std::string_view path) const;

  // Somebody says what it is: the user, a preset or the profile of his software.
  bool stated(std::string_view path) const;
  // Whether there is a value and it is `word`, in plain text: "true", "2", "bf16-mixed".
  bool is(std::string_view path, std::string_view word) const;

  // REQUIRES: has(path), and the row is of a type that is kept so (field_datum.h).
  int64_t whole(std::string_view path) const;
  double real(std::string_view path) const;
  bool flag(std::string_view path) const;
  const std::string& text(std::string_view path) const;
  const std::vector<std::string>& texts(std::string_view path) const;

  // As written; nullptr if it was not.
  const Value* value(std::string_view path) const;
  // Place of the value, or of the key; of the nearest section around it if it was not written.
  Mark mark(std::string_view path) const;
  Mark key_mark(std::string_view path) const;
  // Length of the value as written, for underlining.
  int length(std::string_view path) const;

  // Adds a problem with what was written at `path`, or in the nearest section around it.
  void refuse(std::string code, std::string_view path, std::string message, std::string help = {},
              std::string label = {}) const;

  // Adds E126 and returns false if nothing was given.
  bool require(std::string_view path, std::string help = {});

  // Fills a value in that follows from others.
  void derive(std::string_view path, Datum datum, std::string shown, std::string origin);

  // Puts `value` in the place of the row's default, unless a value was written.  Adds E102 if
  // there is no such row that holds a value, and what wrong values have.
  void assume(std::string_view path, const Value& value, std::string origin);

  // All rows that have a value, in the order of the table.
  std::vector<Setting> settings() const;
  // All values in a form that does not depend on how they were written, but for the rows that
  // `skip` is true for.
  std::string canonical(bool (*skip)(std::string_view path)) const;
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Entry {
    Datum datum;
    std::string shown, origin;
  };
  const Entry& entry(std::string_view path) const;
  void check_keys(const Value& section, const std::string& path);
  void unknown_key(const Member& m, const std::string& section);
  void read_row(const Field& field);
  std::string shown_name(const Field& field) const;

  Value root_;
  std::string prefix_;  // "" or ends with '.'
  Problems& problems_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::set<std::string, std::less<>> assumed_;   // rows that assume() has filled
  std::set<std::string, std::less<>> suspects_;  // rows that an unknown key was probably meant for
  std::vector<std::string> warnings_;
  int unknown_ = 0;  // keys so far
};

// Where a value comes from, as `explain` says it: "run.yaml:3:12", "--set", "preset llama3-8b".
std::string origin_of(const Mark& mark, const Problems& problems);

}  // namespace stepcast
