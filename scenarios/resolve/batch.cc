// SPDX-License-Identifier: Apache-2.0
// The batch: sequences of a step, and tokens of a sequence.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "model/plan.h"
#include "model/transformer.h"
#include "scenarios/document/number.h"
#include "scenarios/document/value.h"
#include "scenarios/schema/values.h"
#include "schedules/schedule.h"

namespace stepcast {

namespace {

constexpr int64_t kMostBatch = 1'000'000'000;  // sequences, and tokens of one: products fit 64 bits

bool in_range(const PlanInputs& in, KeyOf<int64_t> key) {
  const FieldValues& v = in.values;
  if (v.whole(key) <= kMostBatch) return true;
  v.refuse("E123", key, fmt::format("'{}' is too large: {}", key.path(), v.whole(key)),
           fmt::format("at most {}", kMostBatch));
  return false;
}

void check_global_batch(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const int64_t unit = plan.micro_batch * plan.dp;  // < 1e9 * 1e7
  if (plan.global_batch % unit == 0) return;
  // What --set says is what does not suit the file.
  const Key last = last_given(in, {"batch.global", "batch.micro"});
  const bool set = v.mark(last).source->kind == Source::Kind::set;
  // Orders in groups run whole groups of pp microbatches, whatever else they run.
  const ScheduleFamily* family =
      v.has("schedule.kind") ? find_schedule_family(v.text("schedule.kind")) : nullptr;
  const bool in_groups = plan.vpp > 1 && (family == nullptr || family->takes_group);
  const int64_t groups = in_groups && unit <= kMostBatch ? unit * plan.pp : unit;
  v.refuse(
      "E203", set ? last : Key("batch.global"),
      fmt::format("batch.global = {} is not a multiple of micro*dp = {}", plan.global_batch, unit),
      nearest_multiples(plan.global_batch, groups));
}

// Of the sequence whose length stands at `path`.
void check_sequence(const PlanInputs& in, const Plan& plan, Key key, int64_t tokens) {
  const FieldValues& v = in.values;
  const Transformer* m = in.model;
  const std::string shown = fmt::format("{} = {}", key.path(), tokens);
  const bool tp_fits = m == nullptr || divides(*m, plan.tp);
  if (plan.sp && v.has("parallel.tp") && tp_fits && tokens % plan.tp != 0)
    v.refuse(
        "E204", key,
        fmt::format("{} is not a multiple of tp = {}, over which sequence parallelism splits it",
                    shown, plan.tp),
        nearest_multiples(tokens, plan.tp) + "; or set parallel.sp to false");
  if (m != nullptr && m->positions == Positions::learned && m->max_positions > 0 &&
      tokens > m->max_positions)
    v.refuse("E211", key,
             fmt::format("{} exceeds the model's learned positions, max_position_embeddings = {}",
                         shown, m->max_positions),
             "set model.max_position_embeddings to train longer sequences");
}

// The sequence of an encoder whose output a decoder attends to.
void resolve_encoder(const PlanInputs& in, Plan& plan) {
  constexpr KeyOf<int64_t> kEncoderSeq = "batch.encoder_seq";
  FieldValues& v = in.values;
  if (in.model == nullptr || in.model->encoder_layers == 0) {
    if (in.model != nullptr && v.value(kEncoderSeq) != nullptr)
      in.warnings.push_back("batch.encoder_seq has no effect: the model has no encoder");
    return;
  }
  if (plan.cp > 1)
    v.refuse("E130", "parallel.cp",
             "context parallelism of an encoder and a decoder is not supported yet", "cp = 1 is");
  if (!v.has("batch.seq")) return;
  if (v.value(kEncoderSeq) == nullptr)
    v.derive<int64_t>(kEncoderSeq, plan.seq, "default: as long as batch.seq");
  if (!v.has(kEncoderSeq) || !in_range(in, kEncoderSeq)) return;
  plan.encoder_seq = v.whole(kEncoderSeq);
  if (v.value(kEncoderSeq) != nullptr) check_sequence(in, plan, kEncoderSeq, plan.encoder_seq);
}

// Most sequences are as long as a power of two, but K and M are powers of 1000.
void warn_thousands(const PlanInputs& in, KeyOf<int64_t> key) {
  const Value* written = in.values.value(key);
  if (written == nullptr || !in.values.has(key)) return;
  const std::string& text = written->text;
  const int64_t n = in.values.whole(key);
  if (n > kMostBatch || !(text.ends_with('K') || text.ends_with('M'))) return;
  const int64_t binary = text.ends_with('K') ? n * 1024 / 1000 : n * 1'048'576 / 1'000'000;
  in.warnings.push_back(fmt::format("{} = {} is {}; {}i is {}", key.path(), text, n, text, binary));
}

// Steps as large as nobody's are tokens taken for sequences.  The largest batches that were looked
// up are 65,536 sequences of 128 (BERT with LAMB, arXiv 1904.00962) and 128 M tokens (MiniMax-01,
// arXiv 2501.08313).
void warn_tokens_for_sequences(const PlanInputs& in, const Plan& plan) {
  constexpr int64_t kManySequences = 100'000, kManyTokens = 500'000'000;
  const int64_t n = plan.global_batch, tokens = n * plan.seq;  // <= kMostBatch^2
  if (n < kManySequences || tokens < kManyTokens) return;
  in.warnings.push_back(fmt::format(
      "batch.global counts sequences: {} of {} tokens are {:.0f} billion tokens a step; "
      "{} tokens are {} sequences",
      n, plan.seq, static_cast<double>(tokens) / 1e9, n, std::max<int64_t>(1, n / plan.seq)));
}

}  // namespace

void resolve_batch(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  const bool global = v.require("batch.global", "sequences of a step: batch: {global: 256, ...}");
  if (global && in_range(in, "batch.global")) {
    plan.global_batch = v.whole("batch.global");
    const bool dp_known = in.cluster != nullptr && v.has("parallel.dp");
    if (dp_known && v.has("batch.micro")) check_global_batch(in, plan);
  }
  if (v.require("batch.seq", "tokens of a sequence: batch: {seq: 4096, ...}") &&
      in_range(in, "batch.seq")) {
    plan.seq = v.whole("batch.seq");
    check_sequence(in, plan, "batch.seq", plan.seq);
    warn_tokens_for_sequences(in, plan);
  }
  resolve_encoder(in, plan);
  warn_thousands(in, "batch.seq");
  warn_thousands(in, "batch.encoder_seq");
}

}  // namespace stepcast
