// SPDX-License-Identifier: Apache-2.0
#include "calibrate/fit/own_runs_text.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

#include "sim/csv.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

constexpr std::string_view kFirstLine = "# stepcast own runs";
constexpr std::string_view kFormat = "1";
constexpr const char* kMakeAnew = "`stepcast calibrate runs` makes one of runs that were measured";

constexpr std::string_view kBetween = ", ";

std::vector<std::string> listed(std::string_view text) {
  std::vector<std::string> all;
  for (size_t at = text.find(kBetween); at != text.npos; at = text.find(kBetween)) {
    all.emplace_back(text.substr(0, at));
    text.remove_prefix(at + kBetween.size());
  }
  all.emplace_back(text);
  return all;
}

// What stands after "# KEY: "; nullopt without such a line.
std::optional<std::string> header(std::string_view text, std::string_view key) {
  const std::string begin = fmt::format("# {}: ", key);
  for (const std::string_view line : split_csv_lines(text))
    if (line.starts_with(begin)) return std::string(line.substr(begin.size()));
  return {};
}

}  // namespace

bool is_own_runs(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  return text.starts_with(kFirstLine);
}

std::string write_own_runs(const OwnRunsText& own) {
  std::string text =
      fmt::format("{}\n# format: {}\n# gpu: {}\n# prices: {}\n# runs: {}\n", kFirstLine, kFormat,
                  own.gpu, fmt::join(own.prices, kBetween), own.runs);
  for (std::string remark : own.remarks) {
    for (char& c : remark)
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    text += fmt::format("# {}\n", remark);
  }
  return text + in_situ_text(own.parameters);
}

OwnRunsText parse_own_runs(std::string_view text, const std::string& file) {
  const auto refused = [&](std::string what, std::string help = kMakeAnew) {
    return file_error("E312", std::move(what), file, std::move(help));
  };
  if (!is_own_runs(text)) throw refused("this is no file of own runs");
  const std::optional<std::string> format = header(text, "format"), gpu = header(text, "gpu"),
                                   prices = header(text, "prices"), runs = header(text, "runs");
  if (format && *format != kFormat)
    throw refused("own runs of format " + *format + ", and this version reads format 1");
  OwnRunsText own;
  for (const auto& [line, key] :
       {std::pair{&format, "format"}, {&gpu, "gpu"}, {&prices, "prices"}, {&runs, "runs"}})
    if (!*line) throw refused(fmt::format("the line '# {}: ' is missing", key));
  own.gpu = *gpu;
  own.prices = listed(*prices);
  const auto [end, error] = std::from_chars(runs->data(), runs->data() + runs->size(), own.runs);
  if (error != std::errc() || end != runs->data() + runs->size() || own.runs < 1)
    throw refused("'# runs: ' is followed by a whole number from 1");
  try {
    own.parameters = parse_in_situ(text);
  } catch (const InputError& e) {
    throw refused(e.diagnostics.front().message);
  }
  if (own.parameters.empty()) throw refused("no parameter is in it: it was cut off");
  return own;
}

}  // namespace stepcast
