// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/measure_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <utility>

#include "calibrate/measure/collectives/options.h"
#include "sim/diagnostic.h"

namespace stepcast::measure {
namespace {

constexpr std::array<std::string_view, 7> kFamilyWords{
    "gemm", "attention", "memory", "launch", "copy", "collective", "interference"};

Grid grid_of(std::string_view word) {
  if (word == "none") return Grid::none;
  if (word == "small") return Grid::small;
  if (word == "full") return Grid::full;
  refuse("--grid is none, small or full, not '" + std::string(word) + "'");
}

std::set<std::string> families_of(std::string_view list) {
  std::set<std::string> families;
  while (!list.empty()) {
    const size_t end = std::min(list.find(','), list.size());
    const std::string_view word = list.substr(0, end);
    if (std::find(kFamilyWords.begin(), kFamilyWords.end(), word) == kFamilyWords.end()) {
      refuse("--families has no '" + std::string(word) +
             "'; there are gemm, attention, memory, launch, copy, collective "
             "and interference");
    }
    families.emplace(word);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  if (families.empty()) refuse("--families names none");
  return families;
}

int device_of(std::string_view word) {
  int device = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), device);
  if (error != std::errc() || end != word.data() + word.size() || device < 0) {
    refuse("--device is a number from 0, not '" + std::string(word) + "'");
  }
  return device;
}

}  // namespace

MeasureOptions read_measure_options(std::span<const std::string> arguments) {
  MeasureOptions o;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--list") {
      o.list = true;
      continue;
    }
    if (flag == "--help" || flag == "-h") {
      o.help = true;
      continue;
    }
    static constexpr std::array<std::string_view, 7> kWithValue{
        "--plan", "--grid", "--budget", "--families", "-o", "--device", "--gpu"};
    if (std::find(kWithValue.begin(), kWithValue.end(), flag) == kWithValue.end()) {
      refuse("unknown argument '" + flag + "'; --help lists them");
    }
    if (i + 1 == arguments.size()) refuse(flag + " needs a value");
    const std::string& value = arguments[++i];
    if (flag == "--plan") o.plan = value;
    if (flag == "--grid") o.grid = grid_of(value);
    if (flag == "--families") o.families = families_of(value);
    if (flag == "-o") o.output = value;
    if (flag == "--device") o.device = device_of(value);
    if (flag == "--gpu") o.gpu = value;
    if (flag == "--budget") {
      o.budget_s = value == "none" ? std::numeric_limits<double>::infinity() : seconds_of(value);
    }
  }
  return o;
}

std::string_view measure_usage() {
  return R"(usage: stepcast-measure [OPTIONS]
       stepcast-measure layer [OPTIONS]         kernels of a layer in a loop beside those alone
       stepcast-measure collectives [OPTIONS]   NCCL over all GPUs, of several nodes too

Measures kernels, copies and collectives of the GPU at hand into a cost table.

  --plan FILE      the shapes of a plan (`stepcast calibrate plan`), heaviest first
  --grid GRID      usual shapes beside it: none, small (default) or full
  --budget TIME    90s, 5min (default), 1h or none: what is worth most comes first
  --families LIST  only these: gemm,attention,memory,launch,copy,collective,interference
  --list           print the points in order and the time each takes, and stop; needs no GPU
  -o TABLE         where the table goes; rows that are there already are not measured again
  --device N       which GPU, from 0
  --gpu NAME       the preset that the table is for, if the GPU's own name does not tell

An interrupted run (Ctrl-C ends it after the point that it is at) goes on when it is started again
with the same -o.
)";
}

std::vector<SweepPoint> asked_points(const MeasureOptions& options, const PlanText* plan,
                                     std::vector<SweepPoint> more) {
  constexpr double kGridBesidePlan = 0.1;
  std::vector<SweepPoint> points = grid_points(options.grid);
  double planned = 1;
  if (plan != nullptr) {
    planned = 0;
    for (const PlanRow& row : plan->rows) planned += row.weight;
    for (SweepPoint& p : points) p.weight *= kGridBesidePlan * planned;
    for (SweepPoint& p : planned_points(*plan)) points.push_back(std::move(p));
  }
  // Every kernel is launched: worth as much as all the rest.
  for (SweepPoint& p : single_points()) {
    p.weight = planned;
    points.push_back(std::move(p));
  }
  for (SweepPoint& p : more) points.push_back(std::move(p));
  std::erase_if(points, [&](const SweepPoint& p) {
    return !options.families.empty() && !options.families.contains(std::string(family_word(p.key)));
  });
  return in_order(std::move(points));
}

std::string list_text(const std::vector<SweepPoint>& points, double budget_s) {
  std::string text = "# seconds, until then, weight, priced now, row\n";
  double sum = 0;
  int64_t within = 0;
  for (const SweepPoint& p : points) {
    const double seconds = measuring_seconds(p);
    sum += seconds;
    if (sum <= budget_s) ++within;
    text += fmt::format("{:8.2f} {:9.1f} {:9.6f}  {:<12} {}\n", seconds, sum, p.weight,
                        name_of(p.origin), p.key);
  }
  text += fmt::format("# {} points, {:.0f} s", points.size(), sum);
  if (sum > budget_s)
    text += fmt::format("; the budget of {:.0f} s holds the first {}", budget_s, within);
  return text + '\n';
}

}  // namespace stepcast::measure
