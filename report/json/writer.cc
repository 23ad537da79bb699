// SPDX-License-Identifier: Apache-2.0
#include "report/json/writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "sim/text.h"

namespace stepcast {

namespace {

void append_u16(std::string& s, uint32_t unit) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  s += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) s += kHex[(unit >> shift) & 15];
}

void append_escaped(std::string& s, uint32_t c) {
  if (c <= 0xFFFF) return append_u16(s, c);
  append_u16(s, 0xD800 + ((c - 0x10000) >> 10));
  append_u16(s, 0xDC00 + ((c - 0x10000) & 0x3FF));
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string s = "\"";
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (!c.valid) {
      append_u16(s, 0xFFFD);
    } else if (c.value == '"' || c.value == '\\') {
      s += '\\';
      s += text[at];
    } else if (c.value == '\n') {
      s += "\\n";
    } else if (c.value == '\t') {
      s += "\\t";
    } else if (c.value < 0x20 || c.value == 0x7f || c.value == '<' || is_deceptive(c.value)) {
      append_escaped(s, c.value);
    } else {
      s += text.substr(at, c.length);
    }
    at += c.length;
  }
  return s + '"';
}

void JsonWriter::key(std::string_view name) {
  separate();
  text_ += json_string(name);
  text_ += indent_ > 0 ? ": " : ":";
  after_key_ = true;
}

void JsonWriter::value(std::string_view text) {
  separate();
  text_ += json_string(text);
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  std::array<char, 64> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  text_.append(buffer.data(), end.ptr);
}

void JsonWriter::value(int64_t number) {
  separate();
  text_ += std::to_string(number);
}

void JsonWriter::value(bool flag) {
  separate();
  text_ += flag ? "true" : "false";
}

void JsonWriter::null() {
  separate();
  text_ += "null";
}

void JsonWriter::literal(std::string_view number) {
  separate();
  text_ += number;
}

void JsonWriter::seconds(Time t) {
  separate();
  static constexpr int64_t kSecond = 1'000'000'000'000;
  const int64_t ps = t.count();
  const int64_t magnitude = ps < 0 ? -ps : ps;
  if (ps < 0) text_ += '-';
  text_ += std::to_string(magnitude / kSecond);
  std::string fraction = std::to_string(magnitude % kSecond);
  fraction.insert(0, 12 - fraction.size(), '0');
  fraction.resize(fraction.find_last_not_of('0') + 1);
  text_ += '.' + (fraction.empty() ? "0" : fraction);
}

void JsonWriter::member_time(std::string_view name, Time t) {
  key(std::string(name) + "_s");
  seconds(t);
  member(std::string(name) + "_ps", int64_t{t.count()});
}

void JsonWriter::member_time(std::string_view name, std::optional<Time> t) {
  if (t) return member_time(name, *t);
  for (const char* unit : {"_s", "_ps"}) {
    key(std::string(name) + unit);
    null();
  }
}

void JsonWriter::open(char c) {
  separate();
  text_ += c;
  ++depth_;
  first_ = true;
}

void JsonWriter::close(char c) {
  --depth_;
  if (!first_) break_line();
  text_ += c;
  first_ = false;
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (depth_ == 0) return;
  if (!first_) text_ += ',';
  first_ = false;
  break_line();
}

void JsonWriter::break_line() {
  if (indent_ == 0) return;
  text_ += '\n';
  text_.append(static_cast<size_t>(depth_ * indent_), ' ');
}

}  // namespace stepcast
