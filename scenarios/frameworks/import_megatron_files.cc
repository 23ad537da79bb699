// SPDX-License-Identifier: Apache-2.0
// import_megatron_args and import_megatron_log: the forms in which Megatron's arguments are kept.
#include <algorithm>
#include <array>

#include "scenarios/frameworks/import_log.h"
#include "scenarios/frameworks/import_megatron.h"
#include "scenarios/frameworks/import_shell.h"
#include "scenarios/frameworks/importers.h"

namespace stepcast {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

bool is_mapping_text(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

// A mapping of names to values: keys of the file itself, or below one that is named so.
std::vector<Argument> mapped_arguments(const Value& file, Environment& environment) {
  const Value* arguments = &file;
  for (const char* key : {"MODEL_ARGS", "args", "arguments", "model_args"})
    if (const Value* v = file.find(key); v != nullptr && v->is_mapping()) arguments = v;
  for (const char* key : {"ENV_VARS", "env", "env_vars"})
    if (const Value* env = file.find(key); env != nullptr && env->is_mapping())
      for (const Member& m : env->members) environment.emplace_back(m.key, m.value.text);
  std::vector<Argument> all;
  for (const Member& m : arguments->members) {
    if (m.value.is_mapping()) continue;
    all.push_back({argument_name(m.key), m.key, m.value});
    if (all.back().value.mark.line == 0) all.back().value.mark = m.key_mark;
  }
  return all;
}

std::vector<Argument> shell_arguments(const ImportSources& in, Environment& environment) {
  const ShellScript script = read_shell(in.file);
  for (const auto& [name, word] : script.exported) environment.emplace_back(name, word.text);
  std::vector<Argument> all;
  for (const std::vector<ShellWord>& command : script.commands) {
    std::vector<Argument> found = arguments_of(command);
    all.insert(all.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
  }
  return all;
}

// Whether most lines are "name: value".
bool looks_like_yaml(std::string_view text) {
  size_t lines = 0, keys = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const size_t first = line.find_first_not_of(" \t\r");
    if (first == std::string_view::npos || line[first] == '#') continue;
    ++lines;
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && line.find(' ', first) >= colon &&
        (colon + 1 == line.size() || line[colon + 1] == ' ' || line[colon + 1] == '\r'))
      ++keys;
  }
  return lines > 0 && keys * 2 >= lines;
}

void draft_all(const ImportSources& in, const std::vector<Argument>& arguments,
               const ImportCluster& cluster, ScenarioDraft& draft, ImportCounts& counts) {
  const ArgumentReader reader(megatron_arguments(), "megatron", arguments, in.problems);
  if (reader.used() == 0)
    return in.problems.add("E330", "there is no argument of Megatron in this file", {in.file, 1, 1},
                           1, {},
                           "read are a script or command line, the list that Megatron prints, and "
                           "YAML or JSON of names and values");
  counts.add(reader);
  draft_megatron(reader, cluster, draft);
}

// "8.41"
std::string seconds_text(Time t) {
  constexpr int64_t kHundredth = 10'000'000'000;
  const int64_t hundredths = (t.count() + kHundredth / 2) / kHundredth;
  const int64_t rest = hundredths % 100;
  return std::to_string(hundredths / 100) + (rest < 10 ? ".0" : ".") + std::to_string(rest);
}

}  // namespace

void import_megatron_args(const ImportSources& in, const ImportCluster& cluster,
                          ScenarioDraft& draft, ImportCounts& counts) {
  const std::string& text = in.file->text;
  Environment environment;
  std::vector<Argument> arguments = read_printed_arguments(in.file);
  if (arguments.empty()) {
    if (is_mapping_text(text) || looks_like_yaml(text)) {
      const Value file = read_mapping(in, in.file, "a file of arguments");
      if (in.problems.any()) return;
      arguments = mapped_arguments(file, environment);
    } else {
      arguments = shell_arguments(in, environment);
    }
  }
  draft_all(in, arguments, cluster, draft, counts);
  for (const auto& [name, value] : environment) draft_environment(name, value, draft);
}

void import_megatron_log(const ImportSources& in, const ImportCluster& cluster,
                         ScenarioDraft& draft, ImportCounts& counts) {
  const std::vector<Argument> arguments = read_printed_arguments(in.file);
  if (arguments.empty())
    return in.problems.add("E330", "the list of arguments is not in this log", {in.file, 1, 1}, 1,
                           {}, "Megatron prints it when it starts: lines 'num_layers ..... 32'");
  draft_all(in, arguments, cluster, draft, counts);
  const MeasuredIterations m = read_iterations(in.problems, in.file);
  if (m.used == 0)
    return draft.note("the log has no iteration with its elapsed time: nothing is measured");
  counts.measured = std::to_string(m.used) + " of " + std::to_string(m.printed) +
                    " iterations (median " + seconds_text(m.median) + " s, IQR " +
                    seconds_text(Time{m.high.count() - m.low.count()}) + ")";
  constexpr int64_t kMicrosecond = 1'000'000;
  draft.set("measured.step_time", std::to_string(m.median.count() / kMicrosecond) + "us",
            counts.measured);
  if (m.most_allocated)
    draft.set("measured.peak_memory", std::to_string(m.most_allocated->value) + "B",
              "max allocated");
  draft.set_text("measured.source", in.file->name, "");
}

}  // namespace stepcast
