// SPDX-License-Identifier: Apache-2.0
#include "schedules/formats/compute_comms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "schedules/formats/action_text.h"
#include "schedules/in_order.h"
#include "schedules/transfers/transfers.h"
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

// ------------------------------------------------------------------------------------------ write
// What a rank does, before it is known when its messages are sent and received.
struct RowStep {
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

std::vector<RowStep> steps_of(const std::vector<Action>& list, size_t stages) {
  std::vector<RowStep> steps;
  std::vector<uint16_t> active;  // unsharded, ascending
  const std::vector<Upcoming> upcoming = look_ahead(list);
  const std::vector<std::optional<uint32_t>> last = last_gradients(list, stages);
  size_t unit = 0;
  for (uint32_t at = 0; at < list.size(); at += unit_length(list, at), ++unit) {
    const std::vector<uint16_t> next = upcoming[unit].next();
    std::erase_if(active, [&](uint16_t stage) {
      if (std::find(next.begin(), next.end(), stage) != next.end()) return false;
      steps.push_back({RowStep::Kind::reshard, stage});
      return true;
    });
    for (const uint16_t stage : next) {
      const auto where = std::lower_bound(active.begin(), active.end(), stage);
      if (where != active.end() && *where == stage) continue;
      active.insert(where, stage);
      steps.push_back({RowStep::Kind::unshard, stage});
    }
    steps.push_back({RowStep::Kind::unit, at});
    for (uint32_t i = at; i < at + unit_length(list, at); ++i)
      if (completes_gradient(list[i].kind) && last[list[i].stage] == i)
        steps.push_back({RowStep::Kind::reduce_grad, list[i].stage});
  }
  for (const uint16_t stage : active) steps.push_back({RowStep::Kind::reshard, stage});
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
  turns.append(rank, fmt::format("{}SEND_{}{}", a.stage, forward ? 'F' : 'B', piece));
  turns.append(to, fmt::format("{}RECV_{}{}", stage, forward ? 'F' : 'B', piece));
}

// Runs the step if it can.
bool take_turn(Turns& turns, size_t rank, const RowStep& step) {
  const std::vector<Action>& list = turns.schedule.ranks[rank];
  switch (step.kind) {
    case RowStep::Kind::unshard:
      turns.append(rank, fmt::format("{}UNSHARD", step.value));
      return true;
    case RowStep::Kind::reshard:
      turns.append(rank, fmt::format("{}RESHARD", step.value));
      return true;
    case RowStep::Kind::reduce_grad:
      turns.append(rank, fmt::format("{}REDUCE_GRAD", step.value));
      return true;
    case RowStep::Kind::unit: break;
  }
  const uint32_t end = step.value + unit_length(list, step.value);
  for (uint32_t i = step.value; i < end; ++i)
    if (!turns.is_ready(list[i])) return false;
  turns.append(rank,
               unit_text(list, step.value, turns.schedule.seq_splits, turns.schedule.names_pieces));
  for (uint32_t i = step.value; i < end; ++i) hand_on(turns, rank, list[i]);
  return true;
}

constexpr uint32_t kNever = UINT32_MAX;

// ------------------------------------------------------------------------------------------ check
// A cell of a row: a communication, or a unit of the rank's list.
struct Cell {
  CsvField at;
  std::optional<CommCell> comm;
  uint32_t position = 0, actions = 0;  // of a unit: place of its first action, and how many
};

// Something that crosses from one rank to another: an output, or a gradient on its way back.
struct Message {
  bool forward = true;
  uint16_t from_stage = 0, to_stage = 0;
  uint32_t piece = 0;
  uint16_t from_rank = 0, to_rank = 0;
  auto operator<=>(const Message&) const = default;
};

// By direction (false: backward), stage and piece: the cell of the row in which something happens.
struct Events {
  std::array<std::vector<uint32_t>, 2> cells;
  size_t pieces = 0;
  uint32_t& of(bool forward, size_t stage, size_t piece) {
    return cells[forward ? 1 : 0][stage * pieces + piece];
  }
  uint32_t of(bool forward, size_t stage, size_t piece) const {
    return cells[forward ? 1 : 0][stage * pieces + piece];
  }
};

struct CommChecker {
  const Schedule& schedule;
  const std::string& file_name;
  std::vector<std::string_view> lines;
  std::vector<std::vector<Cell>> rows;  // by rank
  Events ran, sent, received;           // F and B or I; sends by producer; receives by consumer
  bool unshards = false, reduces = false;
  // By stage: the row in which its weights are there, its gradients have been reduced.
  std::vector<uint32_t> unsharded_in = {}, reduced_in = {};
  std::vector<bool> told_of_weights = {};  // by stage: that they are not there
  std::vector<Diagnostic> problems = {};

  bool full() const { return problems.size() >= kMostCellErrors; }
  Diagnostic* add(size_t row, const CsvField& at, std::string message, const char* code = "E402") {
    if (full()) return nullptr;
    problems.push_back(
        field_diagnostic(code, std::move(message), file_name, row + 1, lines[row], at));
    return &problems.back();
  }
  std::string place(size_t row, const Cell& cell) const {
    return fmt::format("line {}, column {}", row + 1, cell.at.offset + 1);
  }
  std::string piece_text(uint32_t piece) const {
    return to_string({ActionKind::forward, 0, piece}, schedule.seq_splits).substr(2);
  }
  std::string send_text(const Message& m) const {
    return fmt::format("`{}SEND_{}{}`", m.from_stage, m.forward ? 'F' : 'B', piece_text(m.piece));
  }
  std::string receive_text(const Message& m) const {
    return fmt::format("`{}RECV_{}{}`", m.to_stage, m.forward ? 'F' : 'B', piece_text(m.piece));
  }
  std::string action_text(const Message& m, bool consumer) const {
    const uint16_t stage = consumer ? m.to_stage : m.from_stage;
    return fmt::format("`{}{}{}`", stage, m.forward ? 'F' : backward_letter(stage, m.piece),
                       piece_text(m.piece));
  }
  char backward_letter(uint16_t stage, uint32_t piece) const {
    for (const Action& a : schedule.ranks[schedule.rank_of(stage, piece)])
      if (a.stage == stage && a.microbatch == piece && a.kind == ActionKind::backward_input)
        return 'I';
    return 'B';
  }
};

std::string quoted(const Cell& cell) {
  return '`' + std::string(cell.at.text) + '`';
}

bool is_receive(CommKind k) {
  return k == CommKind::receive_forward || k == CommKind::receive_backward;
}

Events make_events(size_t stages, size_t pieces) {
  Events e;
  for (std::vector<uint32_t>& c : e.cells) c.assign(stages * pieces, kNever);
  e.pieces = pieces;
  return e;
}

std::vector<Cell> read_row(std::string_view line) {
  std::vector<Cell> row;
  CsvPlace place;
  uint32_t position = 0;
  while (const std::optional<CsvField> at = next_cell(line, place)) {
    Cell cell{*at, parse_comm_cell(at->text)};
    cell.position = position;
    if (!cell.comm) cell.actions = static_cast<uint32_t>(actions_in_cell(at->text));
    position += cell.actions;
    row.push_back(cell);
  }
  return row;
}

// A transfer with both of its ends.
std::optional<Message> message_of(const Schedule& schedule, const std::optional<Transfer>& t) {
  if (!t) return std::nullopt;
  const auto other = static_cast<uint16_t>(t->forward == t->sends ? t->stage + 1 : t->stage - 1);
  Message m{t->forward, t->sends ? t->stage : other, t->sends ? other : t->stage, t->microbatch};
  m.from_rank = schedule.rank_of(m.from_stage, m.piece);
  m.to_rank = schedule.rank_of(m.to_stage, m.piece);
  return m;
}
std::optional<Message> message_out(const Schedule& schedule, const Action& a) {
  return message_of(schedule, sent_by(schedule, a));
}
std::optional<Message> message_in(const Schedule& schedule, const Action& a) {
  return message_of(schedule, received_by(schedule, a));
}

// The message that a send or receive names; reports those that do not exist.
std::optional<Message> named_message(CommChecker& c, size_t row, const Cell& cell) {
  const CommCell& comm = *cell.comm;
  const int64_t split = comm.split.value_or(0);
  if (comm.microbatch >= c.schedule.microbatches || split >= c.schedule.seq_splits ||
      (!comm.split && c.schedule.seq_splits > 1)) {
    c.add(row, cell.at,
          fmt::format("{}: the last microbatch of the schedule is {}{}", quoted(cell),
                      c.schedule.microbatches - 1,
                      c.schedule.seq_splits > 1
                          ? fmt::format(", the last sequence split {}", c.schedule.seq_splits - 1)
                          : ""));
    return std::nullopt;
  }
  const auto piece = static_cast<uint32_t>(comm.microbatch * c.schedule.seq_splits + split);
  const bool forward =
      comm.kind == CommKind::send_forward || comm.kind == CommKind::receive_forward;
  Action action{forward ? ActionKind::forward : ActionKind::backward, comm.stage, piece};
  std::optional<Message> m;
  if (comm.stage < c.schedule.rank_of_stage.size())
    m = is_receive(comm.kind) ? message_in(c.schedule, action) : message_out(c.schedule, action);
  if (!m) {
    c.add(row, cell.at, quoted(cell) + ": this message does not leave its rank, or does not exist");
    return std::nullopt;
  }
  const uint16_t right = is_receive(comm.kind) ? m->to_rank : m->from_rank;
  if (right == row) return m;
  c.add(row, cell.at,
        fmt::format("{} is on rank {}, but stage {} is on rank {}", quoted(cell), row, comm.stage,
                    right));
  return std::nullopt;
}

void check_transfer(CommChecker& c, size_t row, uint32_t index) {
  const Cell& cell = c.rows[row][index];
  const std::optional<Message> m = named_message(c, row, cell);
  if (!m) return;
  const bool receive = is_receive(cell.comm->kind);
  uint32_t& done = receive ? c.received.of(m->forward, m->to_stage, m->piece)
                           : c.sent.of(m->forward, m->from_stage, m->piece);
  const uint16_t stage = receive ? m->to_stage : m->from_stage;
  const bool ran = c.ran.of(m->forward, stage, m->piece) != kNever;
  if (done != kNever)
    c.add(row, cell.at, fmt::format("{} appears twice on rank {}", quoted(cell), row));
  else if (receive && ran)
    c.add(row, cell.at,
          quoted(cell) + " comes after " + c.action_text(*m, true) + ", which needs it");
  else if (!receive && !ran)
    c.add(row, cell.at, quoted(cell) + " comes before " + c.action_text(*m, false));
  if (done == kNever) done = index;
}

void check_unit(CommChecker& c, size_t row, uint32_t index) {
  const Cell& cell = c.rows[row][index];
  const std::vector<Action>& list = c.schedule.ranks[row];
  for (uint32_t i = cell.position; i < cell.position + cell.actions; ++i) {
    const Action& a = list[i];
    const bool moves = a.kind == ActionKind::offload || a.kind == ActionKind::reload;
    if (c.unshards && !moves && c.unsharded_in[a.stage] != row) {
      c.add(row, cell.at,
            fmt::format("{} needs the weights: `{}UNSHARD` is missing before it", quoted(cell),
                        a.stage));
      c.unsharded_in[a.stage] = static_cast<uint32_t>(row);  // say it once
      c.told_of_weights[a.stage] = true;
    }
    const bool gradient = a.kind == ActionKind::backward || a.kind == ActionKind::backward_weight;
    if (gradient && c.reduced_in[a.stage] == row)
      c.add(row, cell.at, fmt::format("{} comes after `{}REDUCE_GRAD`", quoted(cell), a.stage));
    if (a.kind == ActionKind::forward || is_backward(a.kind))
      c.ran.of(a.kind == ActionKind::forward, a.stage, a.microbatch) = index;
  }
}

void check_weights(CommChecker& c, size_t row, const Cell& cell) {
  const uint16_t stage = cell.comm->stage;
  const Schedule& schedule = c.schedule;
  const bool here = stage < schedule.rank_of_stage.size() &&
                    (schedule.rank_of_stage[stage] == row ||
                     (schedule.is_bidirectional() && schedule.reverse_rank_of_stage[stage] == row));
  if (!here) {
    c.add(row, cell.at, fmt::format("{}: stage {} is not on rank {}", quoted(cell), stage, row));
    return;
  }
  uint32_t& unsharded = c.unsharded_in[stage];
  if (cell.comm->kind == CommKind::unshard) {
    if (unsharded == row && !c.told_of_weights[stage])
      c.add(row, cell.at, quoted(cell) + ": its weights are there already");
    unsharded = static_cast<uint32_t>(row);
  } else if (cell.comm->kind == CommKind::reshard) {
    if (unsharded != row)
      c.add(row, cell.at, quoted(cell) + ": its weights are not unsharded here");
    unsharded = kNever;
  } else {
    if (c.reduced_in[stage] == row)
      c.add(row, cell.at, fmt::format("{} appears twice on rank {}", quoted(cell), row));
    c.reduced_in[stage] = static_cast<uint32_t>(row);
  }
}

// What a row leaves out: sends and receives of its actions, reductions of its stages.
void check_left_out(CommChecker& c, size_t row) {
  std::map<uint16_t, const Cell*> last;  // B or W of a stage
  for (const Cell& cell : c.rows[row])
    for (uint32_t i = cell.position; i < cell.position + cell.actions; ++i) {
      const Action& a = c.schedule.ranks[row][i];
      if (a.kind == ActionKind::backward || a.kind == ActionKind::backward_weight)
        last[a.stage] = &cell;
      const std::optional<Message> out = message_out(c.schedule, a), in = message_in(c.schedule, a);
      if (in && c.received.of(in->forward, in->to_stage, in->piece) == kNever)
        c.add(row, cell.at, c.receive_text(*in) + " is missing before " + quoted(cell));
      if (out && c.sent.of(out->forward, out->from_stage, out->piece) == kNever)
        c.add(row, cell.at, c.send_text(*out) + " is missing after " + quoted(cell));
    }
  if (!c.reduces) return;
  for (const auto& [stage, cell] : last)
    if (c.reduced_in[stage] != row)
      c.add(row, cell->at,
            fmt::format("`{}REDUCE_GRAD` is missing after {}", stage, quoted(*cell)));
}

void check_rows(CommChecker& c) {
  for (size_t row = 0; row < c.rows.size() && !c.full(); ++row) {
    for (uint32_t i = 0; i < c.rows[row].size(); ++i) {
      if (c.full()) return;  // finding the words for more of them takes time
      const Cell& cell = c.rows[row][i];
      if (!cell.comm)
        check_unit(c, row, i);
      else if (cell.comm->kind <= CommKind::reduce_grad)
        check_weights(c, row, cell);
      else
        check_transfer(c, row, i);
    }
    check_left_out(c, row);
  }
}

Message message_of(const CommChecker& c, const Cell& cell) {
  const CommCell& comm = *cell.comm;
  const auto piece = static_cast<uint32_t>(comm.microbatch * c.schedule.seq_splits +
                                           int64_t{comm.split.value_or(0)});
  const bool forward =
      comm.kind == CommKind::send_forward || comm.kind == CommKind::receive_forward;
  const Action action{forward ? ActionKind::forward : ActionKind::backward, comm.stage, piece};
  return *(is_receive(comm.kind) ? message_in(c.schedule, action)
                                 : message_out(c.schedule, action));
}

// The cells of the transfers of a row, by the other rank.
std::map<size_t, std::vector<uint32_t>> transfers_of(const CommChecker& c, size_t row) {
  std::map<size_t, std::vector<uint32_t>> by_peer;
  for (uint32_t i = 0; i < c.rows[row].size(); ++i) {
    const Cell& cell = c.rows[row][i];
    if (!cell.comm || cell.comm->kind <= CommKind::reduce_grad) continue;
    const Message m = message_of(c, cell);
    by_peer[m.from_rank == row ? m.to_rank : m.from_rank].push_back(i);
  }
  return by_peer;
}

// Both ranks of a pair name the same messages in the same order.  REQUIRES: the same messages.
void check_fifos(CommChecker& c) {
  std::vector<std::map<size_t, std::vector<uint32_t>>> transfers;
  for (size_t row = 0; row < c.rows.size(); ++row) transfers.push_back(transfers_of(c, row));
  for (size_t row = 0; row < c.rows.size(); ++row)
    for (const auto& [peer, mine] : transfers[row]) {
      if (peer < row) continue;
      const std::vector<uint32_t>& theirs = transfers[peer][row];
      for (size_t k = 0; k < mine.size(); ++k) {
        const Cell &here = c.rows[row][mine[k]], &there = c.rows[peer][theirs[k]];
        if (message_of(c, here) == message_of(c, there)) continue;
        Diagnostic* d =
            c.add(row, here.at,
                  fmt::format("transfer {} between ranks {} and {} is {} here, but {} on the other",
                              k + 1, row, peer, quoted(here), quoted(there)),
                  "E401");
        if (d != nullptr)
          d->help = "the other is at " + c.place(peer, there) +
                    "; transfers between two ranks are matched in the order they are named in, so "
                    "both must name them in the same order";
        break;
      }
    }
}

// Executes the cells in order.  REQUIRES: the transfers of each pair of ranks are in the same
// order, so that one arrives when both ends have been reached.
void check_progress(CommChecker& c) {
  const auto step = [&](const ListPlace& p) {
    return p.position < c.rows[p.list].size() ? 1U : 0U;
  };
  const auto awaited = [&](const ListPlace& p,
                           const std::vector<uint32_t>& next) -> std::optional<ListPlace> {
    const Cell& cell = c.rows[p.list][p.position];
    for (uint32_t i = cell.position; i < cell.position + cell.actions; ++i) {
      const std::optional<Message> m = message_in(c.schedule, c.schedule.ranks[p.list][i]);
      if (!m) continue;
      const uint32_t at = c.sent.of(m->forward, m->from_stage, m->piece);
      if (next[m->from_rank] <= at) return ListPlace{m->from_rank, at};
    }
    return std::nullopt;
  };
  const std::vector<uint32_t> next = execute_in_order(c.rows.size(), step, awaited);
  for (uint32_t row = 0; row < c.rows.size(); ++row) {
    if (next[row] == c.rows[row].size()) continue;
    const std::vector<uint32_t> cycle = cycle_from(row, next, awaited);
    const auto head = [&](uint32_t rank) -> const Cell& { return c.rows[rank][next[rank]]; };
    Diagnostic* d = c.add(cycle.front(), head(cycle.front()).at, "the schedule deadlocks", "E401");
    for (const uint32_t rank : cycle) {
      const ListPlace p = *awaited({rank, next[rank]}, next);
      d->help += fmt::format("{}rank {} at {} waits for {}, which comes after {}",
                             d->help.empty() ? "" : "; ", rank, quoted(head(rank)),
                             quoted(c.rows[p.list][p.position]), quoted(head(p.list)));
    }
    return;
  }
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
  for (const std::string_view line : split_csv_lines(text)) {
    CsvPlace place;
    while (const std::optional<CsvField> cell = next_cell(line, place))
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
  std::vector<std::vector<RowStep>> steps;
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

std::vector<Diagnostic> check_compute_comms(std::string_view text, const std::string& file_name,
                                            const Schedule& schedule) {
  const size_t stages = schedule.rank_of_stage.size();
  const auto pieces = static_cast<size_t>(schedule.pieces());
  CommChecker c{schedule,
                file_name,
                split_csv_lines(text),
                {},
                make_events(stages, pieces),
                make_events(stages, pieces),
                make_events(stages, pieces)};
  c.unsharded_in.assign(stages, kNever);
  c.reduced_in.assign(stages, kNever);
  c.told_of_weights.assign(stages, false);
  for (const std::string_view line : c.lines) {
    c.rows.push_back(read_row(line));
    for (const Cell& cell : c.rows.back()) {
      if (!cell.comm) continue;
      c.unshards = c.unshards || cell.comm->kind == CommKind::unshard;
      c.reduces = c.reduces || cell.comm->kind == CommKind::reduce_grad;
    }
  }
  check_rows(c);
  if (c.problems.empty()) check_fifos(c);
  if (c.problems.empty()) check_progress(c);
  return std::move(c.problems);
}

}  // namespace stepcast
