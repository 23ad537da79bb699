// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/run_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <vector>

#include "sim/text.h"
#include "sim/units.h"

namespace stepcast {
namespace {

constexpr std::string_view kMegatronStep = "elapsed time per iteration (ms):";
constexpr std::string_view kDeepSpeedStep = "elapsed time per iteration (s):";
constexpr std::string_view kNemoStep = "train_step_timing in s:";
constexpr std::string_view kTitanRate = "tps:";

bool has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

// Whether `part` begins a word: "tps:" does not in "https:".  The colour before it ends in an m.
bool has_word(std::string_view line, std::string_view part) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  for (size_t at = line.find(part); at != line.npos; at = line.find(part, at + 1)) {
    const std::string_view before = line.substr(0, at);
    const size_t colour = before.rfind('\x1b');
    if (before.empty() || !is_letter(before.back())) return true;
    if (colour != before.npos && before.find('m', colour) == at - 1) return true;
  }
  return false;
}

bool is_titan_step(std::string_view line) {
  return has_word(line, kTitanRate) && has_word(line, "step:") && !has(line, "validate");
}

// The number after the first `label` in the line, from `from` on, and where it stands.
struct Found {
  double value = 0;
  bool readable = false;
  size_t at = 0, length = 0;
};
std::optional<Found> number_after(std::string_view line, std::string_view label, size_t from = 0) {
  const size_t begin = line.find(label, from);
  if (begin == std::string_view::npos) return {};
  Found f;
  f.at = begin + label.size();
  while (f.at < line.size() && line[f.at] == ' ') ++f.at;
  // Where ranks write at once, a number may be followed by the next rank's "[Rank 3]".
  const size_t end = std::min(line.find_first_of(" |[\x1b", f.at), line.size());
  f.length = end - f.at;
  std::string text(line.substr(f.at, f.length));
  std::erase(text, ',');  // torchtitan groups digits by thousands
  const char* last = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), last, f.value);
  constexpr double kMost = 1e15;
  f.readable = error == std::errc() && stop == last && f.value > 0 && f.value < kMost;
  return f;
}

struct LoggedStep {
  double figure = 0;  // seconds, or tokens a second and GPU
  double batch = 0;   // 0: not printed
};

struct LoggedSteps {
  bool rates = false;                    // figures are tokens a second and GPU
  int64_t printed = 0;                   // lines
  int64_t used = 0;                      // of the last batch size, after the warm-up
  double batch = 0;                      // of those; 0: not printed
  double median = 0, low = 0, high = 0;  // of those; low and high: quartiles
  std::optional<Bytes> most_allocated;   // of all ranks that printed it
  std::optional<Bytes> most_reserved;    // likewise
};

void summarise(std::span<const LoggedStep> all, LoggedSteps& result) {
  result.printed = static_cast<int64_t>(all.size());
  if (all.empty()) return;
  const double batch = result.batch = all.back().batch;
  const size_t warm = all.size() < 2 ? 0 : std::max<size_t>(1, all.size() / 10);
  std::vector<double> figures;
  for (size_t i = warm; i < all.size(); ++i)
    if (all[i].batch == batch) figures.push_back(all[i].figure);
  std::sort(figures.begin(), figures.end());
  result.used = static_cast<int64_t>(figures.size());
  // Interpolates between the two values around the quartile.
  const auto at = [&](size_t quarter) {
    const size_t doubled = (figures.size() - 1) * quarter;  // four times the place
    const double below = figures[doubled / 4];
    const double above = figures[std::min(doubled / 4 + 1, figures.size() - 1)];
    return below + (above - below) * static_cast<double>(doubled % 4) / 4;
  };
  result.low = at(1);
  result.median = at(2);
  result.high = at(3);
}

class StepReader {
 public:
  StepReader(Problems& problems, const SourceRef& source) : problems_(problems), source_(source) {}

  LoggedSteps read() {
    LogLines lines{source_->text};
    while (const auto line = lines.next()) {
      number_ = lines.number;
      read_step(*line);
      read_memory(*line);
    }
    if (most_ > 0) result_.most_allocated = Bytes{std::llround(most_)};
    if (most_reserved_ > 0) result_.most_reserved = Bytes{std::llround(most_reserved_)};
    summarise(all_, result_);
    return result_;
  }

 private:
  // Nothing where `label` is not in the line from there on; adds E331 for what cannot be a
  // measurement.
  std::optional<double> figure(std::string_view line, std::string_view label, double most,
                               size_t from = 0) {
    const std::optional<Found> f = number_after(line, label, from);
    if (!f) return {};
    if (f->readable && f->value < most) return f->value;
    problems_.add("E331", "this is no number that a measurement can be",
                  {source_, number_, static_cast<int>(f->at) + 1},
                  static_cast<int>(std::max<size_t>(1, f->length)), {}, "was the log cut off?");
    return {};
  }

  void read_step(std::string_view line) {
    constexpr double kMost = 1e9;
    if (is_titan_step(line)) {
      result_.rates = true;
      if (const auto rate = figure(line, kTitanRate, kMost)) all_.push_back({*rate, 0});
      return;
    }
    for (const auto& [label, batch_label, unit] :
         {std::tuple{kMegatronStep, "global batch size:", 1e-3},
          {kDeepSpeedStep, "global batch size:", 1.0},
          {kNemoStep, "global_batch_size:", 1.0}}) {
      const auto time = figure(line, label, kMost);
      if (time) all_.push_back({*time * unit, figure(line, batch_label, kMost).value_or(0)});
    }
  }

  void read_memory(std::string_view line) {
    constexpr double kMebibyte = 1024.0 * 1024.0;  // what Megatron calls MB
    constexpr double kMostMebibytes = 1e9;
    const auto raise = [&](double& most, size_t begin, size_t end, const char* label) {
      const auto mebibytes = figure(line.substr(0, end), label, kMostMebibytes, begin);
      most = std::max(most, kMebibyte * mebibytes.value_or(0));
    };
    // Ranks that write at once may share a line.
    constexpr std::string_view kMemory = "memory (MB)";
    for (size_t at = line.find(kMemory); at != line.npos;) {
      const size_t next = line.find(kMemory, at + 1);
      raise(most_, at, next, "max allocated:");
      raise(most_reserved_, at, next, "max reserved:");
      at = next;
    }
    if (has(line, kNemoStep))
      most_ = std::max(most_, figure(line, "max_memory_allocated:", 1e15).value_or(0));
  }

  Problems& problems_;
  const SourceRef& source_;
  int number_ = 0;
  double most_ = 0, most_reserved_ = 0;  // bytes
  std::vector<LoggedStep> all_;
  LoggedSteps result_;
};

// "8.41"
std::string seconds_text(double seconds) {
  const int64_t hundredths = std::llround(seconds * 100);
  return fmt::format("{}.{:02}", hundredths / 100, hundredths % 100);
}

// Without what a launcher puts before each line: "[rank0]:", "[default0]: ", "0: ".
std::string_view without_launcher(std::string_view line) {
  size_t end = line.find_first_of(": \t");
  if (end == std::string_view::npos || line[end] != ':' || end == 0) return line;
  const std::string_view word = line.substr(0, end);
  const bool rank = word.find_first_not_of("0123456789") == std::string_view::npos ||
                    (word.front() == '[' && word.back() == ']');
  return rank ? line.substr(end + 1) : line;
}

// How deep a line of YAML is indented; nullopt if it is none.
std::optional<size_t> yaml_indent(std::string_view line) {
  const size_t at = line.find_first_not_of(' ');
  if (at == std::string_view::npos) return {};
  const std::string_view rest = line.substr(at);
  if (rest == "-" || rest.starts_with("- ")) return at;
  const size_t key =
      rest.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
  const bool is_key = key != std::string_view::npos && key > 0 && rest[key] == ':' &&
                      (key + 1 == rest.size() || rest[key + 1] == ' ');
  return is_key ? std::optional<size_t>(at) : std::nullopt;
}

// The longest run of lines of YAML with a section `model`, on the lines where it stands; empty if
// there is none.
std::string yaml_in(std::string_view text) {
  std::vector<std::string_view> all;
  LogLines lines{text};
  while (const auto line = lines.next()) {
    std::string_view bare = without_launcher(*line);
    // A blank after the launcher's colon is the launcher's.
    if (bare.size() < line->size() && bare.starts_with(' ')) bare.remove_prefix(1);
    all.push_back(bare);
  }
  size_t best = 0, best_end = 0;
  for (size_t begin = 0; begin < all.size();) {
    size_t end = begin;
    bool model = false;
    while (end < all.size() && yaml_indent(all[end])) {
      model = model || all[end].substr(*yaml_indent(all[end])) == "model:";
      ++end;
    }
    if (model && end - begin > best_end - best) {
      best = begin;
      best_end = end;
    }
    begin = std::max(end, begin + 1);
  }
  if (best == best_end) return {};
  std::string yaml(best, '\n');
  const size_t indent = *yaml_indent(all[best]);
  for (size_t i = best; i < best_end; ++i) {
    const size_t cut = std::min(indent, *yaml_indent(all[i]));
    yaml += std::string(all[i].substr(cut)) + '\n';
  }
  return yaml;
}

// From the brace at `begin` to the one that closes it; npos if none does.
size_t end_of_braces(std::string_view text, size_t begin) {
  int depth = 0;
  char quote = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{') {
      ++depth;
    } else if (c == '}' && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// What torchtitan prints of its configuration, on the lines where it stands.
std::string braces_in(std::string_view text) {
  for (const std::string_view words : {"Running with configs: {", "Running with args: {"}) {
    const size_t at = text.find(words);
    if (at == std::string_view::npos) continue;
    const size_t begin = at + words.size() - 1, end = end_of_braces(text, begin);
    if (end == std::string_view::npos) continue;
    std::string found(static_cast<size_t>(std::count(text.begin(), text.begin() + begin, '\n')),
                      '\n');
    LogLines lines{text.substr(begin, end - begin)};
    while (const auto line = lines.next()) found += std::string(without_launcher(*line)) + '\n';
    return found;
  }
  return {};
}

// The configuration that `found` is, as a source of its own.
SourceRef configuration(const ImportSources& in, std::string found, const std::string& tool,
                        const std::string& how) {
  if (!found.empty()) return in.problems.add_source({in.file->name, std::move(found)});
  missing_configuration(in,
                        fmt::format("this log of {} says what steps took, but not what was "
                                    "trained: the configuration (model, layout, batch) is missing",
                                    tool),
                        how);
  return nullptr;
}

// The section `measured` of what was measured.
LogMeasurement measurement_of(const LoggedSteps& m, const std::string& file) {
  LogMeasurement found;
  found.global_batch = std::llround(m.batch);
  if (m.rates) {
    found.summary = fmt::format("{} of {} iterations (median {:.0f} tokens a second and GPU)",
                                m.used, m.printed, m.median);
    found.set.emplace_back("tokens_per_gpu_s", fmt::format("{:.0f}", m.median));
  } else {
    found.summary = fmt::format("{} of {} iterations (median {} s, IQR {})", m.used, m.printed,
                                seconds_text(m.median), seconds_text(m.high - m.low));
    found.set.emplace_back("step_time", fmt::format("{}us", std::llround(m.median * 1e6)));
  }
  if (m.most_allocated)
    found.set.emplace_back("peak_memory", fmt::format("{}B", m.most_allocated->value));
  if (m.most_reserved)
    found.set.emplace_back("reserved_memory", fmt::format("{}B", m.most_reserved->value));
  found.set.emplace_back("source", yaml_text(file));
  return found;
}

}  // namespace

std::optional<std::string_view> LogLines::next() {
  if (rest.empty()) return {};
  const size_t end = std::min(rest.find('\n'), rest.size());
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  ++number;
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string_view kind_of_log(std::string_view text) {
  LogLines lines{text};
  while (const auto line = lines.next()) {
    if (is_titan_step(*line)) return "torchtitan";
    if (has(*line, kNemoStep)) return "bridge";
    if (!has(*line, kMegatronStep) && !has(*line, kDeepSpeedStep)) continue;
    const bool arguments = has(text, " ....");
    return !arguments && !yaml_in(text).empty() ? "bridge" : "megatron-log";
  }
  return has(text, "end of arguments ---") ? "megatron-log" : "";
}

void missing_configuration(const ImportSources& in, std::string what, std::string how) {
  Problems ignored;
  const LoggedSteps steps = StepReader(ignored, in.file).read();
  std::string help = std::move(how);
  if (steps.used > 0) {
    const std::string measured = steps.rates ? fmt::format("tokens_per_gpu_s: {:.0f}", steps.median)
                                             : fmt::format("step_time: {:.4g}s", steps.median);
    help += fmt::format(
        "; of a scenario that says what was trained, `stepcast check SCENARIO --log {}` compares "
        "{} with its forecast, as `measured: {{{}}}` in it does",
        in.file->name, measurement_of(steps, in.file->name).summary, measured);
  }
  in.problems.add("E330", std::move(what), {in.file, 1, 1}, 1, {}, std::move(help));
}

LogMeasurement measured_in_log(const std::string& file, const std::string& text) {
  Problems problems;
  const SourceRef source = problems.add_source({file, text});
  const LoggedSteps steps = StepReader(problems, source).read();
  if (steps.used == 0)
    problems.add("E330", "no line of this log says what a step took", {source, 1, 1}, 1, {},
                 "known are lines of Megatron-LM (elapsed time per iteration), NeMo "
                 "(train_step_timing in s) and torchtitan (tps:)");
  problems.throw_if_any();
  return measurement_of(steps, file);
}

void draft_measured(const ImportSources& in, ScenarioDraft& draft, ImportCounts& counts) {
  const LoggedSteps m = StepReader(in.problems, in.file).read();
  if (m.used == 0)
    return draft.note("the log has no iteration with its elapsed time: nothing is measured");
  const LogMeasurement found = measurement_of(m, in.file->name);
  counts.measured = found.summary;
  for (const auto& [key, value] : found.set)
    draft.set("measured." + key, value,
              key == "source"            ? ""
              : key == "peak_memory"     ? "max allocated"
              : key == "reserved_memory" ? "max reserved"
                                         : found.summary);
}

SourceRef torchtitan_configuration(const ImportSources& in) {
  if (kind_of_log(in.file->text) != "torchtitan") return in.file;
  return configuration(in, braces_in(in.file->text), "torchtitan",
                       "--debug.print_config prints it when the run starts");
}

SourceRef bridge_configuration(const ImportSources& in) {
  if (kind_of_log(in.file->text).empty()) return in.file;
  return configuration(in, yaml_in(in.file->text), "Megatron-Bridge or NeMo",
                       "Megatron-Bridge prints its YAML by print_yaml()");
}

}  // namespace stepcast
