// SPDX-License-Identifier: Apache-2.0
// A record to change in tests, and what becomes of it.
#pragma once

#include <string>

#include "calibrate/runs/convert.h"

namespace stepcast {

// A line for each section, so that tests can replace one.
inline std::string sample_record() {
  return "records:\n"
         "- id: sample\n"
         "  hardware: {gpu: A100-SXM4-80GB, gpus: 64, gpus_per_node: 8, nodes: 8}\n"
         "  model: {name: GPT, layers: 48, hidden: 6144, heads: 64, kv_heads: 64, ffn: 24576, "
         "vocab: 51200, seq: 2048, gated_mlp: false}\n"
         "  parallelism: {tp: 4, sp: true, pp: 4, vpp: 1, dp: 4, zero: 1, schedule: 1f1b}\n"
         "  batch: {micro: 2, global: 128, num_microbatches: 16}\n"
         "  precision: bf16\n"
         "  recompute: {mode: none}\n"
         "  software: Some-Framework\n"
         "  measured: {step_time_s: 1.5}\n";
}

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

inline RunRecord record_with(const std::string& from, const std::string& to) {
  return parse_run_records(replaced(sample_record(), from, to), "sample.yaml").front();
}

inline const std::vector<RunRule>& shipped_rules() {
  static const std::vector<RunRule> rules =
      read_run_rules(std::string(STEPCAST_SOURCE_DIR) + "/calibrate/runs/rules.yaml");
  return rules;
}

}  // namespace stepcast
