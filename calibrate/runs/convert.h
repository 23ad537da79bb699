// SPDX-License-Identifier: Apache-2.0
// A record of a measured run -> the keys of that run's scenario, as text: nothing here knows which
// keys there are, or what they mean.
//
// Sizes are taken over as they are; words go through the rules; what nobody states gets the value
// that is usual for it.  Whatever was not printed by the source is listed in `assumed`, so that a
// wrong prediction can be told from a wrong guess.  Nothing here looks at what was measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/runs/rules.h"
#include "calibrate/runs/run_record.h"

namespace stepcast {

struct RunConversion {
  std::string scenario;                // YAML, a line for each section; empty if `skipped`
  std::vector<std::string> assumed;    // "batch.micro = 1: not printed"
  std::optional<std::string> skipped;  // why there is no scenario
};

RunConversion convert_run(const RunRecord& record, const std::vector<RunRule>& rules);

// Layers of each of `stages` if embedding and head count as a layer each and the last stage gets
// what is left over, as Megatron-Core's --account-for-{embedding,loss}-in-pipeline-split and
// DeepSpeed's "type:transformer|embedding" do: "Ett|ttt|tL".  nullopt if a stage came out below 0.
std::optional<std::string> accounted_layout(int64_t layers, int64_t stages);
// Layers spread so that the fullest stage has as little to do as possible, where the head weighs as
// much as `head` layers.  REQUIRES: stages > 1, head >= 0.
std::string balanced_layout(int64_t layers, int64_t stages, double head);
// "([0]*3+[1]*12)": how many layers are dense before those with experts; nullopt for other forms.
std::optional<int64_t> leading_dense(const std::string& moe_layer_freq);

// Network cards of a node in the words of a source: "4x Omni-Path 100 Gb/s links per node".
struct NicWords {
  int64_t count = 0;
  double gbit = 0;  // of one, Gb/s
};
// `gpus`: of a node; `usual_gbit`: of one card, where only the node's total is stated.
std::optional<NicWords> nics_in_words(const std::string& interconnect, int64_t gpus,
                                      double usual_gbit);

}  // namespace stepcast
