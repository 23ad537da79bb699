// SPDX-License-Identifier: Apache-2.0
// `mode`, and what belongs to steps that only run forward: formats of stored weights and caches.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "schedules/lower/vocabulary.h"
#include "schedules/schedule.h"

namespace stepcast {

namespace {

std::optional<DType> format_of(const FieldValues& v, KeyOf<DType> key) {
  return v.has(key) ? std::optional(v.get<DType>(key)) : std::nullopt;
}

class ModeChecks {
 public:
  ModeChecks(const PlanInputs& in, const Plan& plan) : in_(in), plan_(plan) {}

  void refuse(const char* code, Key key, std::string message, std::string help = {}) {
    in_.values.refuse(code, key, std::move(message), std::move(help));
  }

  // Refuses a key that only means something in training, if it is `used`.
  void refuse_training(Key key, bool used) {
    const FieldValues& v = in_.values;
    if (v.value(key) == nullptr || !used) return;
    refuse("E127", key,
           fmt::format("'{}' has no meaning with mode: {}", key.path(), v.text("mode")),
           "a forward alone keeps nothing for a backward and has no optimizer");
  }

  void check_forward() {
    const FieldValues& v = in_.values;
    refuse_training("parallel.zero", plan_.zero != 0);
    refuse_training("recompute.granularity", plan_.recompute != Recompute::none);
    refuse_training("offload.optimizer", plan_.offload.optimizer > 0);
    refuse_training("offload.activation_layers", plan_.offload.activation_layers > 0);
    const Transformer* model = in_.model;
    if (model != nullptr && model->encoder_layers > 0)
      refuse("E130", "mode", "a forward alone of an encoder and a decoder is not supported yet",
             "models that are a decoder are");
    if (plan_.mode != StepMode::decode) return;
    if (model != nullptr && model->bidirectional)
      refuse("E127", "mode", "a model whose tokens see those after them makes none one by one",
             "mode: prefill reads whole sequences");
    if (v.value("parallel.sp") != nullptr && plan_.sp)
      refuse("E127", "parallel.sp", "sp splits sequences, of which decode computes one token",
             "leave it out");
    if (plan_.cp > 1)
      refuse("E130", "parallel.cp", "a cache that is spread over cp is not supported yet",
             "cp = 1 with mode: decode; prefill takes any");
  }

 private:
  const PlanInputs& in_;
  const Plan& plan_;
};

}  // namespace

void resolve_mode(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  // As vLLM and TensorRT-LLM do: a step of one token a sequence is shorter than its launches.
  if (plan.mode == StepMode::decode && v.value("kernels.cuda_graph") == nullptr)
    v.derive<CudaGraph>("kernels.cuda_graph", CudaGraph::step,
                        "default: inference engines capture decode steps");
}

void check_mode(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  ModeChecks checks(in, plan);
  plan.precision.weights = format_of(v, "precision.weights");
  plan.precision.kv_cache = format_of(v, "precision.kv_cache");
  if (!plan.trains()) {
    // Modules that predict further tokens are trained beside the model and do not run.
    for (StageContent& stage : plan.stages) stage.predictions = stage.predicted = 0;
    return checks.check_forward();
  }
  if (plan.precision.kv_cache)
    checks.refuse("E127", "precision.kv_cache", "there is no cache in training",
                  "mode: prefill and mode: decode have one");
  if (plan.precision.weights && v.value("distill.teacher") == nullptr)
    checks.refuse("E127", "precision.weights", "weights that are trained are in precision.params",
                  "mode: prefill and mode: decode may store them in fewer bits");
}

void strip_schedule(const PlanInputs& in, const Plan& plan, ResolvedSchedule& schedule) {
  if (plan.trains()) return;
  const Key at =
      in.values.value("schedule.kind") != nullptr ? Key("schedule.kind") : Key("schedule");
  const auto refuse_schedule = [&](std::string why) {
    in.values.refuse("E127", at, std::move(why),
                     "schedules of whole microbatches in one direction do, such as 1f1b, gpipe and "
                     "interleaved-1f1b");
  };
  if (schedule.to_make)
    return refuse_schedule(
        fmt::format("'{}' looks for the best order of backwards", schedule.schedule.name));
  if (vocabulary_split(schedule.schedule) != VocabularySplit::none)
    return refuse_schedule("a forward alone does not share the vocabulary over the pipeline");
  try {
    schedule.schedule = forwards_of(schedule.schedule);
  } catch (const InputError& e) {
    refuse_schedule(e.what());
  }
}

std::string mode_title(const Plan& plan) {
  return plan.mode == StepMode::decode ? "decode" : "prefill";
}

}  // namespace stepcast
