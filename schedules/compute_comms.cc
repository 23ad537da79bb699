// SPDX-License-Identifier: Apache-2.0
// Writing; what is checked when reading is in check_compute_comms.cc.
#include "schedules/compute_comms.h"

#include <algorithm>
#include <array>

#include "schedules/action_text.h"
#include "schedules/csv_cells.h"
#include "sim/check.h"

namespace stepcast {
namespace {

struct CommName {
  std::string_view name;
  CommKind kind;
  bool of_microbatch;  // is followed by one
};
constexpr std::array kNames{CommName{"UNSHARD", CommKind::unshard, false},
                            CommName{"RESHARD", CommKind::reshard, false},
                            CommName{"REDUCE_GRAD", CommKind::reduce_grad, false},
                            CommName{"SEND_F", CommKind::send_forward, true},
                            CommName{"RECV_F", CommKind::receive_forward, true},
                            CommName{"SEND_B", CommKind::send_backward, true},
                            CommName{"RECV_B", CommKind::receive_backward, true}};

// PyTorch keeps the weights of that many stages of a rank unsharded.
constexpr size_t kLookahead = 3;

// What a rank does, before it is known when its messages are sent and received.
struct Step {
  enum class Kind : uint8_t { unit, unshard, reshard, reduce_grad } kind = Kind::unit;
  uint32_t value = 0;  // of a unit its place in the rank's list, else the stage
};

// The stages that a rank needs next, from some unit of its list on, without repetition.
struct Upcoming {
  // One more than the look-ahead: a pair is taken as a whole.
  std::array<uint16_t, kLookahead + 1> stages{};
  std::array<uint32_t, kLookahead + 1> first_needed{};  // place of the unit
  size_t size = 0;

  void put_first(uint16_t stage, uint32_t unit) {
    const auto end = stages.begin() + static_cast<ptrdiff_t>(size);
    size_t from = static_cast<size_t>(std::find(stages.begin(), end, stage) - stages.begin());
    if (from == size) size = std::min(size + 1, stages.size());
    for (from = std::min(from, size - 1); from > 0; --from) {
      stages[from] = stages[from - 1];
      first_needed[from] = first_needed[from - 1];
    }
    stages[0] = stage;
    first_needed[0] = unit;
  }
  std::vector<uint16_t> next() const {
    size_t count = std::min(size, kLookahead);
    if (size > kLookahead && first_needed[kLookahead] == first_needed[kLookahead - 1]) ++count;
    return {stages.begin(), stages.begin() + static_cast<ptrdiff_t>(count)};
  }
};

uint32_t unit_length(const std::vector<Action>& list, uint32_t at) {
  return list[at].overlaps_next ? 2 : 1;
}

bool completes_gradient(ActionKind k) {
  return k == ActionKind::backward || k == ActionKind::backward_weight;
}

// By unit of the list: what comes next, itself included.
std::vector<Upcoming> look_ahead(const std::vector<Action>& list) {
  std::vector<Upcoming> upcoming;
  Upcoming now;
  for (size_t i = list.size(); i-- > 0;) {
    const bool pair = i > 0 && list[i - 1].overlaps_next;
    const auto unit = static_cast<uint32_t>(pair ? i - 1 : i);
    now.put_first(list[i].stage, unit);
    if (pair) now.put_first(list[--i].stage, unit);
    upcoming.push_back(now);
  }
  std::reverse(upcoming.begin(), upcoming.end());
  return upcoming;
}

// Place of the last B or W of each stage of the list.
std::vector<std::optional<uint32_t>> last_gradients(const std::vector<Action>& list,
                                                    size_t stages) {
  std::vector<std::optional<uint32_t>> last(stages);
  for (size_t i = 0; i < list.size(); ++i)
    if (completes_gradient(list[i].kind)) last[list[i].stage] = static_cast<uint32_t>(i);
  return last;
}

std::vector<Step> steps_of(const std::vector<Action>& list, size_t stages) {
  std::vector<Step> steps;
  std::vector<uint16_t> active;  // unsharded, ascending
  const std::vector<Upcoming> upcoming = look_ahead(list);
  const std::vector<std::optional<uint32_t>> last = last_gradients(list, stages);
  size_t unit = 0;
  for (uint32_t at = 0; at < list.size(); at += unit_length(list, at), ++unit) {
    const std::vector<uint16_t> next = upcoming[unit].next();
    std::erase_if(active, [&](uint16_t stage) {
      if (std::find(next.begin(), next.end(), stage) != next.end()) return false;
      steps.push_back({Step::Kind::reshard, stage});
      return true;
    });
    for (const uint16_t stage : next) {
      const auto where = std::lower_bound(active.begin(), active.end(), stage);
      if (where != active.end() && *where == stage) continue;
      active.insert(where, stage);
      steps.push_back({Step::Kind::unshard, stage});
    }
    steps.push_back({Step::Kind::unit, at});
    for (uint32_t i = at; i < at + unit_length(list, at); ++i)
      if (completes_gradient(list[i].kind) && last[list[i].stage] == i)
        steps.push_back({Step::Kind::reduce_grad, list[i].stage});
  }
  for (const uint16_t stage : active) steps.push_back({Step::Kind::reshard, stage});
  return steps;
}

// Lets the ranks take turns.
struct Turns {
  const Schedule& schedule;
  size_t stages, pieces;
  // By stage and piece: whether the output, the gradient that it starts from is there or under way.
  std::vector<bool> input, gradient;
  std::vector<std::string> rows;

  size_t index(size_t stage, size_t piece) const { return stage * pieces + piece; }
  bool is_ready(const Action& a) const {
    if (a.kind == ActionKind::forward) return a.stage == 0 || input[index(a.stage, a.microbatch)];
    if (a.kind != ActionKind::backward && a.kind != ActionKind::backward_input) return true;
    return a.stage + size_t{1} == stages || gradient[index(a.stage, a.microbatch)];
  }
  void append(size_t rank, const std::string& cell) {
    if (!rows[rank].empty()) rows[rank] += ',';
    rows[rank] += cell;
  }
};

// What `a` hands on to the stage after or before it.
void hand_on(Turns& turns, size_t rank, const Action& a) {
  const bool forward = a.kind == ActionKind::forward;
  if (!forward && a.kind != ActionKind::backward && a.kind != ActionKind::backward_input) return;
  if (forward ? a.stage + size_t{1} == turns.stages : a.stage == 0) return;
  const auto stage = static_cast<uint16_t>(forward ? a.stage + 1 : a.stage - 1);
  (forward ? turns.input : turns.gradient)[turns.index(stage, a.microbatch)] = true;
  const uint16_t to = turns.schedule.rank_of(stage, a.microbatch);
  if (to == rank) return;
  // "5F3" without the stage and the letter.
  const Action named{a.kind, 0, a.microbatch};
  const std::string piece =
      unit_text({&named, 1}, 0, turns.schedule.seq_splits, turns.schedule.names_pieces).substr(2);
  turns.append(rank, std::to_string(a.stage) + (forward ? "SEND_F" : "SEND_B") + piece);
  turns.append(to, std::to_string(stage) + (forward ? "RECV_F" : "RECV_B") + piece);
}

// Runs the step if it can.
bool take_turn(Turns& turns, size_t rank, const Step& step) {
  const std::vector<Action>& list = turns.schedule.ranks[rank];
  switch (step.kind) {
    case Step::Kind::unshard:
      turns.append(rank, std::to_string(step.value) + "UNSHARD");
      return true;
    case Step::Kind::reshard:
      turns.append(rank, std::to_string(step.value) + "RESHARD");
      return true;
    case Step::Kind::reduce_grad:
      turns.append(rank, std::to_string(step.value) + "REDUCE_GRAD");
      return true;
    case Step::Kind::unit: break;
  }
  const uint32_t end = step.value + unit_length(list, step.value);
  for (uint32_t i = step.value; i < end; ++i)
    if (!turns.is_ready(list[i])) return false;
  turns.append(rank,
               unit_text(list, step.value, turns.schedule.seq_splits, turns.schedule.names_pieces));
  for (uint32_t i = step.value; i < end; ++i) hand_on(turns, rank, list[i]);
  return true;
}

}  // namespace

std::optional<CommCell> parse_comm_cell(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  if (digits == 0) return std::nullopt;
  const std::string_view rest = text.substr(digits);
  const auto* found = std::find_if(kNames.begin(), kNames.end(),
                                   [&](const CommName& n) { return rest.starts_with(n.name); });
  if (found == kNames.end()) return std::nullopt;
  if (!found->of_microbatch) {
    if (rest != found->name)
      throw ActionTextError('`' + std::string(text.substr(0, 40)) + "` is not a communication: " +
                                std::string(found->name) + " is of a stage and has no microbatch",
                            0, text.size());
    // parse_numbers wants a microbatch.
    const WrittenAction a = parse_numbers(std::string(text.substr(0, digits)) + "F0", "F");
    return CommCell{found->kind, a.action.stage, 0, {}};
  }
  const WrittenAction a = parse_numbers(text, found->name);
  CommCell cell{found->kind, a.action.stage, a.action.microbatch, {}};
  if (a.split != WrittenAction::kNoSplit) cell.split = a.split;
  return cell;
}

bool has_comm_cells(std::string_view text) {
  for (const std::string_view line : csv_lines(text)) {
    size_t from = 0;
    while (const std::optional<CsvCell> cell = next_cell(line, from))
      if (parse_comm_cell(cell->text)) return true;
  }
  return false;
}

std::string write_compute_comms_csv(const Schedule& schedule) {
  const size_t stages = schedule.rank_of_stage.size();
  const auto pieces = static_cast<size_t>(schedule.pieces());
  Turns turns{schedule,
              stages,
              pieces,
              std::vector<bool>(stages * pieces, false),
              std::vector<bool>(stages * pieces, false),
              std::vector<std::string>(schedule.ranks.size())};
  std::vector<std::vector<Step>> steps;
  for (const std::vector<Action>& list : schedule.ranks) steps.push_back(steps_of(list, stages));
  std::vector<size_t> next(steps.size(), 0);
  for (size_t left = steps.size(); left > 0;) {
    bool progress = false;
    left = 0;
    for (size_t r = 0; r < steps.size(); ++r) {
      if (next[r] < steps[r].size() && take_turn(turns, r, steps[r][next[r]])) {
        ++next[r];
        progress = true;
      }
      left += next[r] < steps[r].size() ? 1 : 0;
    }
    STEPCAST_CHECK(progress || left == 0, schedule.name + " gets stuck");
  }
  std::string text;
  for (const std::string& row : turns.rows) text += (row.empty() ? "," : row) + "\r\n";
  return text;
}

}  // namespace stepcast
