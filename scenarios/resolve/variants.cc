// SPDX-License-Identifier: Apache-2.0
// `prune` and `distill`: another model than the one that is named, and a second one beside it.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "model/stages.h"
#include "model/transformer.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {

namespace {

// What does not suit a teacher.
struct Misfit {
  std::string code, message, help{};
};

// Experts of the teacher are spread and routed as the student's.
std::optional<Misfit> misfit_of_experts(const Transformer& teacher, const Plan& plan) {
  if (teacher.experts == 0) return {};
  const auto undivided = [](const char* key, int64_t ranks, const char* what, int64_t size) {
    return fmt::format("{} = {} does not divide the teacher's {} = {}", key, ranks, what, size);
  };
  if (teacher.experts % plan.ep != 0)
    return Misfit{"E206", undivided("ep", plan.ep, "num_experts", teacher.experts)};
  if (teacher.moe_ffn % plan.etp != 0)
    return Misfit{"E206", undivided("etp", plan.etp, "moe_intermediate_size", teacher.moe_ffn)};
  if (teacher.shared_ffn % plan.tp != 0)
    return Misfit{"E210",
                  undivided("tp", plan.tp, "width of the shared experts", teacher.shared_ffn)};
  if (plan.tp > 1 && !plan.sp)
    return Misfit{"E127", "the teacher's experts need sequence parallelism where tp > 1",
                  "leave parallel.sp out"};
  const Routing& routing = plan.moe.routing;
  const auto shares = static_cast<int64_t>(routing.shares.size());
  if (routing.kind == Routing::Kind::shares && shares != teacher.experts)
    return Misfit{"E127", fmt::format("moe.routing has shares of {} experts, the teacher has {}",
                                      shares, teacher.experts)};
  return {};
}

// What resolve_context() and check_mixers() find wrong with the teacher.  Asked only once the
// student has passed them.
std::optional<Misfit> misfit_of_context(const PlanInputs& in, const Transformer& teacher,
                                        Plan plan) {
  if (in.problems.any()) return {};
  Problems found;
  std::vector<std::string> said;
  FieldValues values(in.values, found);
  const PlanInputs of_teacher{values, found, said, &teacher, in.cluster, in.gpus};
  resolve_context(of_teacher, plan);
  check_mixers(of_teacher, plan);
  if (teacher.streams > 1)
    return Misfit{"E130", "not supported yet: a teacher with several residual streams"};
  if (!found.any()) return {};
  const Diagnostic d = found.diagnostics().front();
  return Misfit{d.code, "the teacher: " + d.message, d.help};
}

std::optional<Misfit> misfit_of(const PlanInputs& in, const Transformer& teacher,
                                const Plan& plan) {
  const auto stages = static_cast<int64_t>(plan.stages.size());
  if (teacher.layers % stages != 0)
    return Misfit{"E202", fmt::format("the teacher's {} layers are not a multiple of the {} stages",
                                      teacher.layers, stages)};
  if (!divides(teacher, plan.tp))
    return Misfit{"E210", fmt::format("tp = {} does not divide the teacher", plan.tp),
                  "tp can be " + or_list(legal_tp(teacher, plan.tp)) + " with this teacher"};
  if (teacher.positions == Positions::learned && teacher.max_positions > 0 &&
      plan.seq > teacher.max_positions)
    return Misfit{
        "E211",
        fmt::format(
            "batch.seq = {} exceeds the teacher's learned positions, max_position_embeddings = {}",
            plan.seq, teacher.max_positions)};
  if (std::optional<Misfit> experts = misfit_of_experts(teacher, plan)) return experts;
  return misfit_of_context(in, teacher, plan);
}

}  // namespace

void prune_model(const FieldValues& v, Transformer& model) {
  if (v.value("prune") == nullptr) return;
  Pruning pruning;
  struct Share {
    KeyOf<double> key;
    double Pruning::*share;
  };
  constexpr std::array<Share, 5> kShares{{{"prune.layers", &Pruning::layers},
                                          {"prune.heads", &Pruning::heads},
                                          {"prune.ffn", &Pruning::ffn},
                                          {"prune.hidden", &Pruning::hidden},
                                          {"prune.experts", &Pruning::experts}}};
  for (const auto& [key, share] : kShares) {
    v.read(key, pruning.*share);
    if (pruning.*share < 1) continue;
    v.refuse("E121", key, fmt::format("nothing is left: '{}' is what is taken away", key.path()),
             "for example 25%");
    return;
  }
  try {
    model = pruned(model, pruning);
  } catch (const InputError& e) {
    v.refuse("E127", "prune", e.diagnostics.front().message);
  }
}

void resolve_teacher(const PlanInputs& in, const FileReader& read_file, Plan& plan) {
  const FieldValues& v = in.values;
  const Value* written = v.value("distill.teacher");
  if (written == nullptr) return;
  const auto refuse = [&](std::string code, std::string message, std::string help = {}) {
    in.problems.add(std::move(code), std::move(message), written->mark, 1, {}, std::move(help));
  };
  std::optional<Transformer> teacher = resolve_model(*written, in.problems, read_file);
  if (!teacher || in.model == nullptr || plan.stages.empty()) return;
  if (!plan.trains())
    return refuse("E127",
                  "distillation trains a student: it does not go with mode: " + v.text("mode"));
  if (teacher->encoder_layers > 0 || teacher->bidirectional)
    return refuse("E130", "teachers other than a decoder are not supported yet");
  if (teacher->vocab != in.model->vocab)
    return refuse("E127",
                  fmt::format("the teacher's vocabulary of {} is not the student's of {}",
                              teacher->vocab, in.model->vocab),
                  "both give every token of the same vocabulary a probability");
  if (const std::optional<Misfit> misfit = misfit_of(in, *teacher, plan))
    return refuse(misfit->code, misfit->message, misfit->help);
  if (v.has("parallel.vocab_multiple"))
    teacher->vocab = padded_vocab(teacher->vocab, plan.tp, v.whole("parallel.vocab_multiple"));
  teacher->mtp_layers = 0;  // predicts the student's tokens alone
  plan.teacher_stages = even_stages(teacher->layers, static_cast<int64_t>(plan.stages.size()), 1);
  assign_layers(plan.teacher_stages, *teacher);
  plan.teacher = std::move(teacher);
}

}  // namespace stepcast
