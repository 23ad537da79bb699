// SPDX-License-Identifier: Apache-2.0
// Transfers between actions, held against what the frameworks issue and wait for.
#include "schedules/transfers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "schedules/lower_unit.h"
#include "schedules/placement.h"
#include "sim/program.h"
#include "sim/run.h"
#include "tests/schedules/vectors.h"

namespace stepcast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// One trace: what every rank does, as text, and how long the whole takes with tF = tI = tW = 1.
struct Trace {
  std::string id;
  Schedule schedule;
  P2pStyle style = P2pStyle::async;
  std::vector<std::string> rows;
  double with_latency = 0, without = 0;  // c = 0.1 and c = 0
};

ActionKind kind_of(char letter) {
  for (int k = 0; k < kActionKinds; ++k)
    if (letter_of(static_cast<ActionKind>(k)) == letter) return static_cast<ActionKind>(k);
  throw std::runtime_error("no kind " + std::string(1, letter));
}

// The actions of a row: `0F1`, and both halves of `(0F1;1B0)OVERLAP_F_B`.
std::vector<Action> actions_of(const std::string& row) {
  std::vector<Action> actions;
  std::istringstream in(row);
  const auto add = [&](const std::string& text) {
    size_t letter = 0;
    const int stage = std::stoi(text, &letter);
    actions.emplace_back(kind_of(text[letter]), static_cast<uint16_t>(stage),
                         static_cast<uint32_t>(std::stoul(text.substr(letter + 1))));
  };
  for (std::string token; in >> token;) {
    if (token[0] == '(') {
      const size_t middle = token.find(';');
      add(token.substr(1, middle - 1));
      actions.back().overlaps_next = true;
      add(token.substr(middle + 1));
    } else if (std::isdigit(static_cast<unsigned char>(token[0])) != 0) {
      add(token);
    }
  }
  return actions;
}

Schedule empty_schedule(const std::string& name, const ScheduleParams& params) {
  if (name == "dualpipe") {
    Schedule s = bidirectional_schedule(name, params);
    s.reversed.resize(static_cast<size_t>(params.microbatches));
    for (size_t m = s.reversed.size() / 2; m < s.reversed.size(); ++m) s.reversed[m] = true;
    return s;
  }
  return name == "dualpipev" ? v_schedule(name, params) : loop_schedule(name, params);
}

P2pStyle style_of(const nlohmann::json& json, const std::string& file) {
  if (file == "deepspeed.jsonl") return P2pStyle::deepspeed;
  if (file == "dualpipe.jsonl") return P2pStyle::dualpipe;
  if (!json.contains("params") || !json["params"]["overlap_p2p_comm"].get<bool>())
    return P2pStyle::megatron;
  return json["params"]["overlap_p2p_comm_warmup_flush"].get<bool>()
             ? P2pStyle::megatron_overlap_flush
             : P2pStyle::megatron_overlap;
}

std::vector<Trace> read_traces(const std::string& file) {
  std::istringstream in(testing::read_file("comm/" + file));
  std::vector<Trace> traces;
  for (std::string line; std::getline(in, line);) {
    const nlohmann::json json = nlohmann::json::parse(line);
    Trace t;
    const ScheduleParams params{json["pp"], json["vpp"], json["microbatches"], 0};
    t.schedule = empty_schedule(json["schedule"], params);
    t.style = style_of(json, file);
    t.rows = json["ranks"].get<std::vector<std::string>>();
    t.schedule.ranks.resize(t.rows.size());
    for (size_t r = 0; r < t.rows.size(); ++r) t.schedule.ranks[r] = actions_of(t.rows[r]);
    t.with_latency = json["eval_rendezvous_makespan"]["tF1_tB2_c0.1"];
    t.without = json["eval_rendezvous_makespan"]["tF1_tB2_c0"];
    t.id = json["schedule"].get<std::string>() + " pp=" + std::to_string(params.pp) +
           " vpp=" + std::to_string(params.vpp) + " m=" + std::to_string(params.microbatches) +
           ' ' + std::string(name_of(t.style));
    traces.push_back(std::move(t));
  }
  return traces;
}

class TracedTransfers : public ::testing::TestWithParam<const char*> {};

TEST_P(TracedTransfers, AreThoseOfTheFrameworkTokenByToken) {
  for (const Trace& t : read_traces(GetParam())) {
    SCOPED_TRACE(t.id);
    const std::vector<RankProgram> programs = with_transfers(t.schedule, t.style);
    ASSERT_EQ(programs.size(), t.rows.size());
    for (size_t r = 0; r < t.rows.size(); ++r)
      EXPECT_EQ(to_string(t.schedule, r, programs[r]), t.rows[r]) << "rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TracedTransfers,
                         ::testing::Values("megatron.jsonl", "zb_h1_quickstart.jsonl",
                                           "dualpipe.jsonl", "deepspeed.jsonl"),
                         [](const auto& param) {
                           const std::string name = param.param;
                           return name.substr(0, name.find('.'));
                         });

}  // namespace
}  // namespace stepcast
