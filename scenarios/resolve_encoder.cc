// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "scenarios/resolve_plan.h"

namespace stepcast {

void resolve_encoder(const PlanInputs& in, Plan& plan) {
  constexpr const char* kKey = "batch.encoder_seq";
  FieldValues& v = in.values;
  const auto refuse = [&](const char* code, std::string_view key, std::string message,
                          std::string help) {
    in.problems.add(code, std::move(message), v.mark(key), v.length(key), {}, std::move(help));
  };
  if (in.model == nullptr || in.model->encoder_layers == 0) {
    if (in.model != nullptr && v.value(kKey) != nullptr)
      in.warnings.push_back("batch.encoder_seq has no effect: the model has no encoder");
    return;
  }
  if (plan.cp > 1)
    refuse("E130", "parallel.cp",
           "context parallelism of an encoder and a decoder is not supported yet", "cp = 1 is");
  if (!v.has("batch.seq")) return;
  if (v.value(kKey) == nullptr)
    v.derive(kKey, plan.seq, std::to_string(plan.seq), "default: as long as batch.seq");
  if (!v.has(kKey)) return;
  constexpr int64_t kMost = 1'000'000'000;  // as batch.seq
  plan.encoder_seq = v.whole(kKey);
  const std::string shown = "batch.encoder_seq = " + std::to_string(plan.encoder_seq);
  if (plan.encoder_seq > kMost) {
    refuse("E123", kKey, shown + " is too large", "at most " + std::to_string(kMost));
  } else if (plan.sp && plan.encoder_seq % plan.tp != 0) {
    refuse("E204", kKey,
           shown + " is not a multiple of tp = " + std::to_string(plan.tp) +
               ", over which sequence parallelism splits it",
           "or set parallel.sp to false");
  }
  const int64_t most = in.model->max_positions;
  if (in.model->positions == Positions::learned && most > 0 && plan.encoder_seq > most)
    refuse("E211", kKey,
           shown + " exceeds the model's learned positions, max_position_embeddings = " +
               std::to_string(most),
           "set model.max_position_embeddings to train longer sequences");
}

}  // namespace stepcast
