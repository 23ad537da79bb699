// SPDX-License-Identifier: Apache-2.0
#include "tests/schedules/vectors.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "sim/program.h"
#include "sim/run.h"

namespace stepcast::testing {
namespace {

constexpr int64_t kUnit = 1000;  // ps

std::vector<nlohmann::json> lines_of(const std::string& file) {
  std::istringstream in(read_file(file));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) all.push_back(nlohmann::json::parse(line));
  if (all.empty()) throw std::runtime_error(file + " has no lines");
  return all;
}

ScheduleParams params_of(const nlohmann::json& json) {
  ScheduleParams params;
  params.pp = json.at("pp");
  params.vpp = json.at("vpp");
  params.microbatches = json.at("microbatches");
  if (json.contains("params")) {
    const nlohmann::json& more = json.at("params");
    for (const char* key : {"microbatch_group_size_per_vp_stage", "breadth_first_micro_batches"})
      if (more.contains(key)) params.group = more.at(key);
  }
  return params;
}

}  // namespace

std::string read_file(const std::string& file) {
  std::ifstream in(std::string(STEPCAST_TEST_DATA) + "/schedules/" + file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<Vector> read_vectors(const std::string& file) {
  std::vector<Vector> vectors;
  for (const nlohmann::json& json : lines_of(file)) {
    Vector v;
    v.id = json.at("id");
    v.schedule = json.at("schedule");
    v.placement = json.at("placement");
    v.params = params_of(json);
    v.stages = json.at("stages");
    v.rows = json.at("ranks").get<std::vector<std::string>>();
    v.leading_forwards = json.at("leading_forwards").get<std::vector<int64_t>>();
    v.peak_until_weight = json.at("peak_inflight_release_W").get<std::vector<int64_t>>();
    v.peak_until_input = json.at("peak_inflight_release_I").get<std::vector<int64_t>>();
    for (const auto& [name, value] : json.at("eval").items())
      v.eval[name] = {value.at("makespan"), value.at("span")};
    vectors.push_back(std::move(v));
  }
  return vectors;
}

std::vector<Refused> read_refused(const std::string& file) {
  std::vector<Refused> all;
  for (const nlohmann::json& json : lines_of(file)) {
    Refused r;
    r.schedule = json.at("schedule");
    r.refused_by = json.at("refused_by");
    r.reason = json.at("reason");
    r.params = params_of(json);
    r.needs_overlap = json.contains("params") && json.at("params").contains("overlap_p2p_comm");
    all.push_back(std::move(r));
  }
  return all;
}

UnitCosts costs_named(const std::string& name, int64_t pp) {
  UnitCosts costs;
  if (name == "unit") {
    costs.times.forward = costs.times.backward_input = costs.times.backward_weight = Time{kUnit};
    return costs;
  }
  if (name != "uneven" && name != "straggler") throw std::runtime_error("no costs " + name);
  costs.times.forward = Time{10 * kUnit};
  costs.times.backward_input = Time{12 * kUnit};
  costs.times.backward_weight = Time{7 * kUnit};
  costs.hop = Time{kUnit};
  if (name == "straggler") {
    costs.slow_rank = pp / 2;
    costs.slow_factor = 1.5;
  }
  return costs;
}

Makespan evaluate(const Schedule& schedule, const UnitCosts& costs) {
  std::vector<Time> durations;
  const OpGraph graph = lower_unit(schedule, costs, durations);
  check_graph(graph);
  Prices prices;
  for (const Time t : durations) prices.by_work.push_back({t, Origin::measured, {}});
  const Program program = compile(graph, prices);
  const Timeline timeline = run(program, Record::nothing);
  return {static_cast<double>(timeline.makespan.count()) / kUnit,
          static_cast<double>(timeline.span.count()) / kUnit};
}

std::string row_of(const std::vector<Action>& actions) {
  std::string row;
  for (const Action& a : actions) {
    if (!row.empty()) row += ',';
    row += to_string(a);
  }
  return row;
}

}  // namespace stepcast::testing
