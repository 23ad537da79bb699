// SPDX-License-Identifier: Apache-2.0
// One entry of a pipeline schedule, in the notation of torch.distributed.pipelining: `5F12` is the
// forward of stage 5 for microbatch 12.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace stepcast {

enum class ActionKind : uint8_t {
  forward,          // F
  backward,         // B: input and weight gradients together
  backward_input,   // I: gradient of the input only; what the previous stage waits for
  backward_weight,  // W: gradients of the weights, any time after I
  recompute,        // R: what a checkpoint left out of F, before B or I of the same stage
  offload,          // O: saved activations leave for host memory, after F
  reload,           // L: ... and come back, before R, B or I
  // Of a rank that holds a share of the vocabulary (schedules/lower/vocabulary.h):
  vocabulary_forward,   // S: logits of its words and their softmax, after F of the last stage
  vocabulary_backward,  // T: gradients of its words, after S of all ranks
  embedding_forward,    // E: lookup of its words, before F of the first stage
  embedding_backward,   // G: their gradient, after B or I of the first stage
};
constexpr int kActionKinds = 11;

struct Action {
  constexpr Action() = default;
  constexpr Action(ActionKind k, uint16_t s, uint32_t m, bool overlaps = false)
      : kind(k), overlaps_next(overlaps), stage(s), microbatch(m) {}

  ActionKind kind = ActionKind::forward;
  // This action and the next one of the rank's list run as one unit, PyTorch's `(a;b)OVERLAP_F_B`:
  // a forward and a backward of different microbatches.
  bool overlaps_next = false;
  uint16_t stage = 0;  // global stage, 0 .. pp*vpp-1
  // From 0; of a schedule with sequence splits, microbatch * splits + split.
  uint32_t microbatch = 0;
  auto operator<=>(const Action&) const = default;
};

char letter_of(ActionKind k);            // 'F', 'B', 'I', 'W', ...
std::string to_string(const Action& a);  // "5F12"; overlaps_next is not shown
// With sequence splits: "5F12.1".  REQUIRES: seq_splits >= 1; 1 gives the form above.
std::string to_string(const Action& a, int64_t seq_splits);

}  // namespace stepcast
