// SPDX-License-Identifier: Apache-2.0
#include "tests/schedules/vectors.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "schedules/check.h"
#include "schedules/formats/action_text.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"

namespace stepcast::testing {
namespace {

constexpr int64_t kUnit = 1000;  // ps
constexpr std::string_view kFolder = STEPCAST_TEST_DATA "/schedules";

std::vector<nlohmann::json> lines_of(const std::string& file) {
  std::istringstream in(read_file(file));
  std::vector<nlohmann::json> all;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) all.push_back(nlohmann::json::parse(line));
  if (all.empty()) throw std::runtime_error(file + " has no lines");
  return all;
}

// Parameters reach families as text; JSON's null is Python's None.
std::string text_of(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

ScheduleParams params_of(const nlohmann::json& json) {
  ScheduleParams params;
  params.pp = json.at("pp");
  params.vpp = json.at("vpp");
  params.microbatches = json.at("microbatches");
  if (json.contains("params"))
    for (const auto& [key, value] : json.at("params").items()) params.more[key] = text_of(value);
  if (json.contains("seq_splits")) params.more["seq_splits"] = text_of(json.at("seq_splits"));
  return params;
}

}  // namespace

std::string read_file(const std::string& file) {
  std::ifstream in(std::string(kFolder) + '/' + file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<Vector> read_vectors(const std::string& file) {
  std::vector<Vector> vectors;
  for (const nlohmann::json& json : lines_of(file)) {
    Vector v;
    v.schedule = json.at("schedule");
    v.id = json.value("id", file + ' ' + std::to_string(vectors.size() + 1));
    v.placement = json.at("placement");
    v.params = params_of(json);
    v.stages = json.at("stages");
    v.rows = json.at("ranks").get<std::vector<std::string>>();
    for (const auto& [key, member] : {std::pair{"leading_forwards", &v.leading_forwards},
                                      {"peak_inflight_release_W", &v.peak_until_weight},
                                      {"peak_inflight_release_I", &v.peak_until_input}})
      if (json.contains(key)) *member = json.at(key).get<std::vector<int64_t>>();
    if (json.contains("eval"))
      for (const auto& [name, value] : json.at("eval").items())
        v.eval[name] = {value.at("makespan"), value.at("span")};
    vectors.push_back(std::move(v));
  }
  return vectors;
}

std::vector<std::string> vector_files(const std::set<std::string>& except) {
  const std::set<std::string> of_another_kind{"invalid_params.jsonl", "reference_makespans.jsonl"};
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder))
    if (entry.path().extension() == ".jsonl") files.insert(entry.path().filename());
  for (const std::set<std::string>& left_out : {of_another_kind, except})
    for (const std::string& file : left_out)
      if (files.erase(file) == 0) throw std::runtime_error("there is no " + file);
  return {files.begin(), files.end()};
}

std::string test_name_of(const ::testing::TestParamInfo<std::string>& file) {
  std::string plain = "f";  // it may not begin with a digit
  for (const char c : file.param.substr(0, file.param.find('.')))
    if (c != '_') plain += c;
  return plain;
}

std::string faults_of(const Schedule& schedule) {
  std::string lines;
  for (const ScheduleProblem& problem : check_schedule(schedule)) lines += problem.message + '\n';
  return lines;
}

std::vector<Refused> read_refused(const std::string& file) {
  std::vector<Refused> all;
  for (const nlohmann::json& json : lines_of(file)) {
    Refused r;
    r.schedule = json.at("schedule");
    r.refused_by = json.at("refused_by");
    r.reason = json.at("reason");
    r.params = params_of(json);
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

std::vector<std::string> rows_of(const Schedule& schedule) {
  std::vector<std::string> rows;
  for (const std::vector<Action>& rank : schedule.ranks)
    rows.push_back(to_text(rank, schedule.seq_splits, schedule.names_pieces));
  return rows;
}

}  // namespace stepcast::testing
