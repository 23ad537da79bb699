// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/options.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "sim/diagnostic.h"

namespace stepcast::measure {
namespace {

[[noreturn]] void refuse_value(std::string_view flag, std::string_view value,
                               std::string_view legal) {
  refuse(std::string(flag) + " takes " + std::string(legal) + ", not '" + std::string(value) + "'");
}

// A number and what follows it; nothing if there is no number from 0 on.
std::optional<std::pair<double, std::string_view>> number_and_unit(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !(value >= 0) || !(value <= 1e15)) return std::nullopt;
  return std::pair(value, text.substr(static_cast<size_t>(end - text.data())));
}

int whole(std::string_view flag, std::string_view text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least) {
    refuse_value(flag, text, "a whole number from " + std::to_string(least));
  }
  return value;
}

double rate(std::string_view flag, std::string_view text) {
  const auto parsed = number_and_unit(text);
  if (!parsed || !parsed->second.empty() || parsed->first <= 0)
    refuse_value(flag, text, "GB/s above 0");
  return parsed->first;
}

bool yes_or_no(std::string_view flag, std::string_view text) {
  if (text != "yes" && text != "no") refuse_value(flag, text, "yes or no");
  return text == "yes";
}

void check_processes(const CollectiveOptions& o, bool ranks, bool rank) {
  if (ranks != rank) refuse("--ranks and --rank belong together");
  if (o.place && o.place->rank >= o.place->ranks) {
    refuse("--rank counts from 0 to " + std::to_string(o.place->ranks - 1) + " with --ranks " +
           std::to_string(o.place->ranks));
  }
  if (o.place && o.place->ranks > 1 && o.meeting.empty()) {
    refuse("--ranks needs a file where the processes meet (--meeting FILE)");
  }
}

NicDriver network(const std::string& flag, const std::string& value) {
  const std::optional<NicDriver> driver = nic_driver(value);
  if (!driver) refuse(flag + " is one of " + nic_driver_words() + ", not '" + value + "'");
  return *driver;
}

}  // namespace

std::string_view collective_usage() {
  return "stepcast-measure collectives [--plan FILE] [--grid none|small|full] [--budget 5min]\n"
         "    [--largest 4G] [--gpus N] [-o TABLE] [--gpu NAME] [--nic-gbs X] [--nvlink-gbs X]\n"
         "    [--network NAME] [--in-network-reduction yes|no] [--hosts-per-node N]\n"
         "    [--ranks N --rank R --meeting FILE [--patience "
         "5min]]\n"
         "    [--list [--nodes N]]\n";
}

double seconds_of(std::string_view text) {
  const auto parsed = number_and_unit(text);
  const std::string_view unit = parsed ? parsed->second : "?";
  const double seconds = unit.empty() || unit == "s" ? 1
                         : unit == "min"             ? 60
                         : unit == "h"               ? 3600
                                                     : 0;
  if (seconds == 0 || parsed->first <= 0) {
    refuse("a time is written as 90s, 5min or 1h, not '" + std::string(text) + "'");
  }
  return parsed->first * seconds;
}

int64_t bytes_of(std::string_view text) {
  const auto parsed = number_and_unit(text);
  std::string_view unit = parsed ? parsed->second : "?";
  if (unit.size() == 3 && unit.substr(1) == "iB") unit.remove_suffix(2);
  const int shift = unit.empty() ? 0 : unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : -1;
  const double bytes = shift < 0 ? 0 : parsed->first * static_cast<double>(int64_t{1} << shift);
  if (bytes < 1 || bytes > 1e15) {
    refuse("a size is written as 8, 64K, 512M or 4G, not '" + std::string(text) + "'");
  }
  return static_cast<int64_t>(bytes);
}

CollectiveOptions read_collective_options(std::span<const std::string> arguments) {
  CollectiveOptions o;
  std::optional<int> ranks, rank;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--list") {
      o.list = true;
      continue;
    }
    const auto value = [&]() -> const std::string& {
      if (i + 1 == arguments.size()) refuse(flag + " needs a value");
      return arguments[++i];
    };
    if (flag == "--plan")
      o.plan = value();
    else if (flag == "--grid")
      o.grid = value();
    else if (flag == "-o")
      o.output = value();
    else if (flag == "--budget")
      o.budget_s = seconds_of(value());
    else if (flag == "--largest")
      o.largest = bytes_of(value());
    else if (flag == "--gpus")
      o.gpus = whole(flag, value(), 1);
    else if (flag == "--nodes")
      o.nodes = whole(flag, value(), 1);
    else if (flag == "--hosts-per-node")
      o.hosts_per_node = whole(flag, value(), 1);
    else if (flag == "--ranks")
      ranks = whole(flag, value(), 1);
    else if (flag == "--rank")
      rank = whole(flag, value(), 0);
    else if (flag == "--meeting")
      o.meeting = value();
    else if (flag == "--patience")
      o.patience_s = seconds_of(value());
    else if (flag == "--gpu")
      o.gpu = value();
    else if (flag == "--nic-gbs")
      o.nic_gbs = rate(flag, value());
    else if (flag == "--nvlink-gbs")
      o.nvlink_gbs = rate(flag, value());
    else if (flag == "--in-network-reduction")
      o.in_network_reduction = yes_or_no(flag, value());
    else if (flag == "--network")
      o.network = network(flag, value());
    else
      refuse("there is no flag '" + flag + "'");
  }
  if (ranks && rank) o.place = ProcessPlace{*rank, *ranks};
  check_processes(o, ranks.has_value(), rank.has_value());
  if (o.grid.empty()) o.grid = o.plan.empty() ? "full" : "none";
  if (o.grid != "none" && o.grid != "small" && o.grid != "full") {
    refuse_value("--grid", o.grid, "none, small or full");
  }
  if (o.grid == "none" && o.plan.empty()) {
    refuse("--grid none without --plan leaves nothing to measure");
  }
  if (o.largest > kLargestMessage)
    refuse_value("--largest", std::to_string(o.largest), "4G at most");
  return o;
}

Gathering gathering(const CollectiveOptions& options,
                    const std::function<const char*(const char*)>& variable, bool has_mpi) {
  const std::optional<ProcessPlace> launched =
      options.place ? options.place : place_of_launcher(variable);
  if (!launched || launched->ranks == 1) return {};
  if (options.gpus > 0) {
    refuse("--gpus is of one process alone; here are " + std::to_string(launched->ranks) +
           ", a GPU each: start as many as there are GPUs to take");
  }
  if (!options.meeting.empty()) return {*launched, Meet::file};
  if (has_mpi) return {*launched, Meet::mpi};
  refuse("this is process " + std::to_string(launched->rank) + " of " +
         std::to_string(launched->ranks) +
         ", and this program is built without MPI: name a file on a shared "
         "file system where they meet "
         "(--meeting FILE)");
}

std::vector<SweepPoint> chosen_points(const CollectiveOptions& options, std::string_view plan_text,
                                      std::span<const RankPlace> ranks, double nic_gbs,
                                      std::vector<std::string>& left_out) {
  const std::vector<RankGroup> groups = rank_groups(ranks);
  const bool spans_nodes =
      std::any_of(groups.begin(), groups.end(), [](const RankGroup& g) { return g.nodes > 1; });
  if (spans_nodes && nic_gbs <= 0) {
    refuse(
        "groups span nodes and the NICs are not known: state a GPU's share of them (--nic-gbs X, "
        "GB/s of one direction; 50 for a 400 Gb/s NIC a GPU)");
  }
  std::vector<SweepPoint> points;
  if (!plan_text.empty()) {
    const PlanText plan = parse_plan_text(plan_text, options.plan);
    points = planned_collectives(plan, ranks, nic_gbs, left_out);
    std::erase_if(points, [&](const SweepPoint& p) {
      if (p.work.bytes.value <= options.largest) return false;
      left_out.push_back(p.key + ": larger than --largest");
      return true;
    });
  }
  if (options.grid != "none") {
    const auto grid = collective_grid(groups, nic_gbs, options.largest, options.grid == "full");
    points.insert(points.end(), grid.begin(), grid.end());
  }
  return in_order(std::move(points));
}

}  // namespace stepcast::measure
