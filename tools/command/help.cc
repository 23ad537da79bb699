// SPDX-License-Identifier: Apache-2.0
// stepcast help TOPIC: the options of a command; what an error code means and what to do about it.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <cctype>
#include <optional>

#include "report/diagnostics.h"
#include "report/json/writer.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

std::string as_json(std::span<const ErrorCode> codes) {
  return json_document([&](JsonWriter& json) {
    json.objects("codes", codes, [&](const ErrorCode& c) {
      json.member("code", c.code);
      json.member("title", c.title);
      json.member("explanation", c.explanation);
    });
  });
}

// `stepcast help`, `help run`, `help schedule show`: what --help prints; nothing if `topic` is no
// command.
std::optional<std::string> help_of_command(const CLI::App& app,
                                           std::span<const std::string> topic) {
  const CLI::App* chosen = &app;
  std::string path;
  for (const std::string& word : topic) {
    const CLI::App* next = nullptr;
    for (const CLI::App* sub : chosen->get_subcommands({}))
      if (sub->get_name() == word) next = sub;
    if (next == nullptr) return std::nullopt;
    path += (path.empty() ? "stepcast" : " ") + (chosen == &app ? "" : chosen->get_name());
    chosen = next;
  }
  return chosen == &app ? app.help() : chosen->help(path);
}

std::string all_codes() {
  std::string text;
  for (const ErrorCode& c : error_codes())
    text += std::string(c.code) + "  " + std::string(c.title) + '\n';
  return text;
}

std::string explained(const ErrorCode& code, int width) {
  return std::string(code.code) + ": " + std::string(code.title) + "\n\n" +
         wrap(code.explanation, "", width);
}

int help_command(const CLI::App& app, const Arguments& args, const Terminal& terminal) {
  if (const std::optional<std::string> text = help_of_command(app, args.topic)) {
    write_stdout(args.json ? json_document([&](JsonWriter& json) { json.member("help", *text); })
                           : *text);
    return 0;
  }
  std::string topic;
  for (const std::string& word : args.topic) topic += (topic.empty() ? "" : " ") + word;
  if (topic == "codes") {
    write_stdout(args.json ? as_json(error_codes()) : all_codes());
    return 0;
  }
  std::string code = topic;
  for (char& c : code) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const ErrorCode* found = find_error_code(code);
  if (found == nullptr)
    usage_error("E007", "there is nothing to say about '" + topic + "'",
                "a command such as run, an error code such as E102, or `stepcast help codes`");
  write_stdout(args.json ? as_json({found, 1}) : explained(*found, terminal.out.width));
  return 0;
}

}  // namespace

void add_help(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(app, "help", "Explain a command or an error code", chosen,
                              [&app](const Arguments& a, const Terminal& terminal) {
                                return help_command(app, a, terminal);
                              });
  sub->add_option("TOPIC", args.topic, "a command, an error code (E102), or codes for all of them")
      ->option_text(" ");
  add_common(sub, args);
}

}  // namespace stepcast::cli
