// SPDX-License-Identifier: Apache-2.0
#include "scenarios/schema/keys.h"

#include <fmt/format.h>

#include "scenarios/document/time_units.h"

namespace stepcast {
namespace {

std::string quote(std::string_view text) {
  std::string s = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') s += '\\';
    s += c;
  }
  return s + '"';
}

std::string pattern(std::string_view regex) {
  return "\"type\": \"string\", \"pattern\": " + quote(regex);
}

std::string words(const Choices& choices) {
  std::string s;
  for (const Word& w : choices.words) {
    // "0|1|2|3" are numbers in the file.
    const bool number = w.text.find_first_not_of("0123456789") == std::string_view::npos;
    s += (s.empty() ? "" : ", ") + (number ? std::string(w.text) : quote(w.text));
  }
  return '[' + s + ']';
}

bool is_child(const Field& field, std::string_view path) {
  if (path.empty()) return field.path.find('.') == std::string_view::npos;
  if (!field.path.starts_with(path) || field.path.size() <= path.size()) return false;
  return field.path[path.size()] == '.' &&
         field.path.find('.', path.size() + 1) == std::string_view::npos;
}

std::string schema_of(const Field& field, size_t depth);

// `"properties": {...}` of the rows right below `path`, one a line.
std::string properties(std::string_view path, size_t depth) {
  const std::string indent(2 * depth, ' ');
  std::string s;
  for (const Field& field : scenario_fields()) {
    if (!is_child(field, path)) continue;
    const std::string_view key = path.empty() ? field.path : field.path.substr(path.size() + 1);
    if (key == "*") continue;
    s += (s.empty() ? "\n" : ",\n") + indent + "  " + quote(key) + ": " +
         schema_of(field, depth + 1);
  }
  return "\"additionalProperties\": false, \"properties\": {" + s + '\n' + indent + '}';
}

constexpr std::string_view kNumber = "^[0-9]+(\\.[0-9]+)?([eE][+-]?[0-9]+)? *";

std::string regex(std::string_view unit) {
  return std::string(kNumber) + std::string(unit) + '$';
}

std::string any_of(std::string_view a, std::string_view b) {
  return "\"anyOf\": [{" + std::string(a) + "}, {" + std::string(b) + "}]";
}

std::string section_type(const Field& field, size_t depth) {
  const std::string object = "\"type\": \"object\", " + properties(field.path, depth);
  if (field.shorthand[0].empty()) return object;
  return any_of("\"type\": [\"string\", \"number\"]", object);
}

std::string names_type(const Field& field, size_t depth) {
  const Field* content = find_field(std::string(field.path) + ".*");
  const std::string inner =
      content != nullptr
          ? "\"type\": \"object\""
          : "\"type\": \"object\", " + properties(std::string(field.path) + ".*", depth);
  return "\"type\": \"object\", \"additionalProperties\": {" + inner + '}';
}

std::string most(const Field& field) {
  return field.most == 0 ? "" : fmt::format(", \"maximum\": {}", field.most);
}

// "(ps|ns|...)".
std::string time_units() {
  std::string s;
  for (const TimeUnit& u : kTimeUnits) s += (s.empty() ? "(" : "|") + std::string(u.text);
  return s + ')';
}

std::string type_of(const Field& field, size_t depth) {
  switch (field.type) {
    case FieldType::section: return section_type(field, depth);
    case FieldType::text: return "\"type\": [\"string\", \"number\"]";
    case FieldType::flag: return "\"type\": \"boolean\"";
    case FieldType::count: return "\"type\": \"integer\", \"minimum\": 1" + most(field);
    case FieldType::whole: return "\"type\": \"integer\", \"minimum\": 0" + most(field);
    case FieldType::number: return "\"type\": \"number\", \"minimum\": 0";
    case FieldType::bytes: return pattern(regex("([kKMGTP]i?)?B"));
    case FieldType::bandwidth: return pattern(regex("([kKMGTP]i?)?[bB]/s"));
    case FieldType::time: return pattern(regex(time_units()));
    case FieldType::flop_rate: return pattern(regex("[kKMGTP]?(FLOP/s|FLOPS)"));
    case FieldType::power: return pattern(regex("[kKMGTP]?W"));
    case FieldType::share:
      return any_of("\"type\": \"number\", \"minimum\": 0, \"maximum\": 1", pattern(regex("%")));
    case FieldType::tokens:
      return any_of("\"type\": \"integer\", \"minimum\": 1", pattern(regex("([KMBT]|[KM]i)")));
    case FieldType::choice: return "\"enum\": " + words(field.choices);
    case FieldType::choices:
      return any_of("\"enum\": " + words(field.choices),
                    "\"type\": \"array\", \"items\": {\"enum\": " + words(field.choices) + '}');
    case FieldType::texts:
      return any_of("\"type\": \"string\"",
                    "\"type\": \"array\", \"items\": {\"type\": \"string\"}");
    case FieldType::pairs:
      return "\"type\": \"object\", \"additionalProperties\": {\"type\": [\"string\", "
             "\"number\", \"boolean\", \"null\"]}";
    case FieldType::list:
      return "\"type\": \"array\", \"items\": {\"type\": \"object\", " +
             properties(std::string(field.path) + "[]", depth) + '}';
    case FieldType::names: return names_type(field, depth);
    case FieldType::opaque:
      return field.shorthand[0].empty() ? "\"type\": \"object\""
                                        : "\"type\": [\"string\", \"object\"]";
    case FieldType::noted: return {};
  }
  return {};
}

std::string schema_of(const Field& field, size_t depth) {
  std::string s = type_of(field, depth);
  const auto add = [&](std::string_view key, const std::string& value) {
    s += (s.empty() ? "" : ", ") + quote(key) + ": " + value;
  };
  std::string description(field.summary);
  if (!field.fallback.empty())
    description += (description.empty() ? "default " : "; default ") + std::string(field.fallback) +
                   ": " + std::string(field.reason);
  if (!description.empty()) add("description", quote(description));
  // Every key may be null: that drops an inherited one.
  return '{' + any_of("\"type\": \"null\"", s) + '}';
}

}  // namespace

std::string scenario_json_schema() {
  return "{\"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
         "\"title\": \"Stepcast scenario\",\n\"type\": \"object\",\n" +
         properties("", 0) + "}\n";
}

}  // namespace stepcast
