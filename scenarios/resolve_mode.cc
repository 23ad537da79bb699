// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_mode.h"

#include <optional>
#include <string>

#include "schedules/lower/vocabulary.h"
#include "schedules/schedule.h"

namespace stepcast {
namespace {

std::optional<DType> format_of(const FieldValues& v, std::string_view path) {
  if (!v.has(path)) return {};
  if (v.text(path) == "int4") return DType::fp4;  // as many bits
  for (const DType t : {DType::fp32, DType::fp16, DType::bf16, DType::fp8, DType::int8, DType::fp4})
    if (name_of(t) == v.text(path)) return t;
  return {};
}

class ModeChecks {
 public:
  ModeChecks(const PlanInputs& in, const Plan& plan) : in_(in), plan_(plan) {}

  void refuse(const char* code, std::string_view path, std::string message, std::string help = {}) {
    in_.values.refuse(code, path, std::move(message), std::move(help));
  }

  // A key that says something about training alone, if it is `used`.
  void refuse_training(std::string_view path, bool used) {
    const FieldValues& v = in_.values;
    if (v.value(path) == nullptr || !used) return;
    refuse("E127", path, "'" + std::string(path) + "' has no meaning with mode: " + v.text("mode"),
           "a forward alone keeps nothing for a backward and has no optimizer");
  }

  void check_forward() {
    const FieldValues& v = in_.values;
    const auto says = [&](const char* path, std::string_view other) {
      return v.has(path) && v.text(path) != other;
    };
    refuse_training("parallel.zero", says("parallel.zero", "0"));
    refuse_training("recompute.granularity", says("recompute.granularity", "none"));
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
  if (!v.has("mode")) return;
  if (v.text("mode") == "prefill") plan.mode = StepMode::prefill;
  if (v.text("mode") == "decode") plan.mode = StepMode::decode;
  // As vLLM and TensorRT-LLM do: a step of one token a sequence is shorter than its launches.
  if (plan.mode == StepMode::decode && v.value("kernels.cuda_graph") == nullptr)
    v.derive("kernels.cuda_graph", "step", "step",
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
  const char* path = in.values.value("schedule.kind") != nullptr ? "schedule.kind" : "schedule";
  try {
    if (schedule.to_make)
      refuse("'" + schedule.schedule.name + "' looks for the best order of backwards");
    if (vocabulary_split(schedule.schedule) != VocabularySplit::none)
      refuse("a forward alone does not share the vocabulary over the pipeline");
    schedule.schedule = forwards_of(schedule.schedule);
  } catch (const InputError& e) {
    in.values.refuse("E127", path, e.what(),
                     "schedules of whole microbatches in one direction do, such as 1f1b, gpipe and "
                     "interleaved-1f1b");
  }
}

std::string mode_title(const Plan& plan) {
  return plan.mode == StepMode::decode ? "decode" : "prefill";
}

}  // namespace stepcast
