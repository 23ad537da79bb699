// SPDX-License-Identifier: Apache-2.0
// What a scenario says, row by row of the table of keys (keys.h): read, checked one by one,
// defaults filled in.
//
// Relations between values (does tp divide the heads?) are checked by whoever resolves them; here a
// value is right or wrong by itself.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "scenarios/document/value.h"
#include "scenarios/scenario.h"
#include "scenarios/schema/keys.h"
#include "sim/check.h"

namespace stepcast {

// Whether rows of this type hold a Datum: not sections, lists, names, opaque and noted.
bool is_leaf(const Field& field);

// Reads a value by the row's type.  Nothing if it is none of that type: the problem has been added
// (E107, E120-E125, E130 for a word that is not modelled yet).  Messages call it `name`.
// REQUIRES: is_leaf(field).
std::optional<Datum> read_datum(const Value& value, const Field& field, std::string_view name,
                                Problems& problems);

// The row's default, read as if it had been written, so that the table cannot hold a wrong one.
// REQUIRES: is_leaf(field), and it has one.
Datum default_datum(const Field& field);

// A text that is equal for values of equal meaning, however they were written: "true", "2", one
// word a line.
std::string plain_text(const Datum& datum);

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
  bool has(Key key) const { return entries_[key.index()].has_value(); }
  // The user or a preset wrote something here, right or wrong; perhaps under a misspelt key.
  bool given(Key key) const;
  // The user, a preset or the profile of the software states a value.
  bool stated(Key key) const;

  // The value, as value_as<T>().  REQUIRES: has(key).
  template <class T>
  T get(std::type_identity_t<KeyOf<T>> key) const;
  // Puts the value into `to`, which stays as it is if there is none.
  template <class T>
  void read(std::type_identity_t<KeyOf<T>> key, T& to) const {
    if (has(key)) to = get<T>(key);
  }
  // Puts the values of all rows that name a member of a Whole into it; members whose row has no
  // value stay as they are.
  template <class Whole>
  void fill(Whole& whole) const {
    for (const Field& field : scenario_fields())
      if (field.into.whole == &type_mark<Whole> && has(Key(field)))
        field.into.put(field, datum(Key(field)), &whole);
  }
  // Whether there is a value and it is this one.
  template <class T>
  bool is(std::type_identity_t<KeyOf<T>> key, T value) const {
    return has(key) && get<T>(key) == value;
  }
  // What the words of a list stand for, in the order of the user.  REQUIRES: has(key).
  template <class Enum>
  std::vector<Enum> list(std::type_identity_t<KeyOf<Enum>> key) const {
    std::vector<Enum> all;
    for (const std::string& word : std::get<Texts>(datum(key)))
      all.push_back(static_cast<Enum>(key.row().choices.find(word)->meaning));
    return all;
  }
  // Short forms for the types that messages need most.
  int64_t whole(KeyOf<int64_t> key) const { return std::get<int64_t>(datum(key)); }
  double real(KeyOf<double> key) const { return std::get<double>(datum(key)); }
  bool flag(KeyOf<bool> key) const { return get<bool>(key); }
  const std::string& text(KeyOf<std::string> key) const {
    return std::get<std::string>(datum(key));
  }
  const std::vector<std::string>& texts(KeyOf<std::vector<std::string>> key) const {
    return std::get<Texts>(datum(key));
  }

  // As written; nullptr if it was not.
  const Value* value(Key key) const;
  // Place of the value, or of the key; of the nearest section around it if it was not written.
  Mark mark(Key key) const { return mark_at(key.path()); }
  Mark key_mark(Key key) const { return key_mark_at(key.path()); }
  // Length of the value as written, for underlining.
  int length(Key key) const;

  // Adds a problem with what was written for `key`, or in the nearest section around it.
  void refuse(std::string code, Key key, std::string message, std::string help = {},
              std::string label = {}) const;

  // Adds E126 and returns false if nothing was given.
  bool require(Key key, std::string help = {});

  // Fills a value in that follows from others.  `shown` is what `explain` says it is, if that is
  // not its plain text.
  template <class T>
  void derive(std::type_identity_t<KeyOf<T>> key, T value, std::string origin,
              std::string shown = {});

  // Profiles of software name keys by text.  Whether there is a value at `path` and its plain text
  // is `word`: "true", "2", "bf16-mixed".
  bool says(std::string_view path, std::string_view word) const;
  // Puts `value` in the place of the row's default, unless a value was written.  Adds E102 if no
  // row of that path holds a value, and the problems of a wrong value.
  void assume(std::string_view path, const Value& value, std::string origin);

  // All rows that have a value, in the order of the table.
  std::vector<Setting> settings() const;
  // All values in a form that does not depend on how they were written, without the rows that
  // `skip` is true for.
  std::string canonical(bool (*skip)(std::string_view path)) const;

 private:
  struct Entry {
    Datum datum;
    std::string shown, origin;
  };
  const Datum& datum(Key key) const;
  void put(Key key, Datum datum, std::string shown, std::string origin);
  void check_keys(const Value& section, const std::string& path);
  void unknown_key(const Member& m, const std::string& section);
  void read_row(const Field& field);
  std::string shown_name(const Field& field) const;
  // The same by paths, which may lead below a row.
  const Value* value_at(std::string_view path) const;
  Mark mark_at(std::string_view path) const;
  Mark key_mark_at(std::string_view path) const;

  Value root_;
  std::string prefix_;  // "" or ends with '.'
  Problems& problems_;
  std::vector<std::optional<Entry>> entries_;    // of each row
  std::set<std::string, std::less<>> assumed_;   // rows that assume() has filled
  std::set<std::string, std::less<>> suspects_;  // rows that an unknown key was probably meant for
  int unknown_ = 0;                              // keys so far
};

// Where a value comes from, as `explain` says it: "run.yaml:3:12", "--set", "preset llama3-8b".
std::string origin_of(const Mark& mark);

// ----------------------------------------------------------------------------- implementation

template <class T>
T FieldValues::get(std::type_identity_t<KeyOf<T>> key) const {
  return value_as<T>(key.row(), datum(key));
}

template <class T>
void FieldValues::derive(std::type_identity_t<KeyOf<T>> key, T value, std::string origin,
                         std::string shown) {
  STEPCAST_CHECK(key.row().into.put == nullptr, "a derived value is put where it is derived");
  Datum d;
  if constexpr (std::is_same_v<T, Bytes> || std::is_same_v<T, Bandwidth>) {
    d = value.value;
  } else if constexpr (std::is_constructible_v<Datum, T> && !std::is_enum_v<T>) {
    d = std::move(value);
  } else {
    for (const Word& w : key.row().choices.words)
      if (w.modelled && w.meaning == static_cast<int>(value)) {
        d = std::string(w.text);
        break;
      }
  }
  put(key, std::move(d), std::move(shown), std::move(origin));
}

}  // namespace stepcast
