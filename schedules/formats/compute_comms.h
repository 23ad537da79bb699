// SPDX-License-Identifier: Apache-2.0
// PyTorch's second file format, "compute_comms": the actions of a schedule, and between them what
// its runtime communicates.
//
//   5UNSHARD, 5RESHARD      gather, drop the weights of stage 5 that data parallelism has sharded
//   5REDUCE_GRAD            reduce the gradients of stage 5 over the data-parallel replicas
//   5SEND_F3, 6RECV_F3      the output of stage 5 for microbatch 3 leaves, arrives; neither waits,
//                           but the action that needs it does
//   6SEND_B3, 5RECV_B3      its gradient on the way back
//
// Transfers between two ranks, in both directions, are one FIFO, so both ranks must name them in
// the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/schedule.h"
#include "sim/diagnostic.h"

namespace stepcast {

enum class CommKind : uint8_t {
  unshard,
  reshard,
  reduce_grad,
  send_forward,
  receive_forward,
  send_backward,
  receive_backward
};

// A cell as it stands in the file.
struct CommCell {
  CommKind kind = CommKind::unshard;
  uint16_t stage = 0;
  uint32_t microbatch = 0;        // of a send or receive
  std::optional<uint32_t> split;  // of `5SEND_F3.1`: 1
};

// Nothing if the text is not a communication.  Throws ActionTextError if it is one with wrong
// numbers.
std::optional<CommCell> parse_comm_cell(std::string_view text);

// Whether a file has communication cells.
bool has_comm_cells(std::string_view text);

// What is wrong with the communication of a file: every message between ranks is sent once, after
// the action that makes it, and received once, before the action that needs it, and there are no
// others; weights are there when a stage uses them, if the file unshards at all; gradients are
// reduced once, after the stage's last B or W, if the file reduces at all; both ends of a pair of
// ranks name their transfers in the same order, and executing the cells in order does not get
// stuck.  E402, or E401 for the last two; at most 20.
// REQUIRES: `schedule` was read from `text` and check_schedule(schedule) is empty.
std::vector<Diagnostic> check_compute_comms(std::string_view text, const std::string& file_name,
                                            const Schedule& schedule);

// The same schedule with its communication, by PyTorch's rules: a stage is unsharded when it is
// among the next three that the rank will need, resharded when it is not, its gradients are reduced
// right after its last B or W; ranks take turns, each runs its next cell if its input is under way,
// and then both its send and the other rank's receive come next on their lists.  CRLF.
// REQUIRES: check_schedule(schedule) is empty.  O(actions * ranks), in practice O(actions).
std::string write_compute_comms_csv(const Schedule& schedule);

}  // namespace stepcast
