// SPDX-License-Identifier: Apache-2.0
// stepcast help CODE: what an error code means and what to do about it.
#include <cctype>

#include "report/error_codes.h"
#include "report/json_writer.h"
#include "tools/command.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

std::string as_json(std::span<const ErrorCode> codes) {
  JsonWriter json;
  json.begin_object();
  json.key("codes");
  json.begin_array();
  for (const ErrorCode& c : codes) {
    json.begin_object();
    json.member("code", c.code);
    json.member("title", c.title);
    json.member("explanation", c.explanation);
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.text() + '\n';
}

}  // namespace

int help_code_command(const Arguments& args, const Terminal& terminal) {
  std::string topic;
  for (const std::string& word : args.topic) topic += (topic.empty() ? "" : " ") + word;
  if (topic == "codes") {
    std::string text;
    for (const ErrorCode& c : error_codes())
      text += std::string(c.code) + "  " + std::string(c.title) + '\n';
    write_stdout(args.json ? as_json(error_codes()) : text);
    return 0;
  }
  std::string code = topic;
  for (char& c : code) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const ErrorCode* found = find_error_code(code);
  if (found == nullptr)
    usage_error("E007", "there is nothing to say about '" + topic + "'",
                "a command such as run, an error code such as E102, or `stepcast help codes`");
  write_stdout(args.json ? as_json({found, 1})
                         : std::string(found->code) + ": " + std::string(found->title) + "\n\n" +
                               wrap(found->explanation, "", terminal.out.width));
  return 0;
}

}  // namespace stepcast::cli
