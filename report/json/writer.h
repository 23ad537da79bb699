// SPDX-License-Identifier: Apache-2.0
// JSON text, key by key in the order it is written, so that equal results are equal bytes.
//
// Strings are escaped to plain ASCII where a character could do harm ('<' too: results are embedded
// in HTML); numbers are the shortest form that reads back the same; NaN and Infinity are null.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/units.h"

namespace stepcast {

std::string json_string(std::string_view text);  // with its quotes

class JsonWriter {
 public:
  // `indent` blanks a level; 0: everything on one line.
  explicit JsonWriter(int indent = 2) : indent_(indent) {}

  void begin_object() { open('{'); }
  void end_object() { close('}'); }
  void begin_array() { open('['); }
  void end_array() { close(']'); }
  void key(std::string_view name);
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(double number);
  void value(int64_t number);
  void value(int number) { value(int64_t{number}); }
  void value(uint32_t number) { value(int64_t{number}); }
  void value(bool flag);
  void null();

  template <class T>
  void member(std::string_view name, const T& v) {
    key(name);
    value(v);
  }
  // null if there is none.
  template <class T>
  void member(std::string_view name, const std::optional<T>& v) {
    key(name);
    v ? value(*v) : null();
  }
  // NAME: an array of `items`, each a text or a number.
  template <class Items>
  void values(std::string_view name, const Items& items) {
    key(name);
    begin_array();
    for (const auto& item : items) value(item);
    end_array();
  }
  // NAME: an object of what `write()` writes.
  template <class Write>
  void object(std::string_view name, Write write) {
    key(name);
    begin_object();
    write();
    end_object();
  }
  // NAME: an object of what `write(*maybe)` writes; null if there is none.
  template <class Maybe, class Write>
  void optional_object(std::string_view name, const Maybe& maybe, Write write) {
    if (maybe) {
      object(name, [&] { write(*maybe); });
    } else {
      key(name);
      null();
    }
  }
  // NAME: an array of objects, of what `write(item)` writes for each.
  template <class Items, class Write>
  void objects(std::string_view name, const Items& items, Write write) {
    key(name);
    begin_array();
    for (const auto& item : items) {
      begin_object();
      write(item);
      end_object();
    }
    end_array();
  }
  // A number that is written already: "74.5".  REQUIRES: JSON's grammar.
  void literal(std::string_view number);
  // Seconds, exact to the picosecond.
  void seconds(Time t);
  // NAME_s in seconds and NAME_ps as an integer.
  void member_time(std::string_view name, Time t);
  void member_time(std::string_view name, std::optional<Time> t);  // null if there is none

  // REQUIRES: everything that was begun is ended.
  const std::string& text() const { return text_; }

 private:
  void open(char c);
  void close(char c);
  void separate();
  void break_line();

  std::string text_;
  int indent_;
  int depth_ = 0;
  bool first_ = true;  // nothing yet in the innermost object or array
  bool after_key_ = false;
};

// A file: one object with the members that `write(json)` writes; ends with '\n'.
template <class Write>
std::string json_document(Write write) {
  JsonWriter json;
  json.begin_object();
  write(json);
  json.end_object();
  return json.text() + '\n';
}

}  // namespace stepcast
