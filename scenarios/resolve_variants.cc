// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_variants.h"

#include <array>
#include <stdexcept>
#include <string>

#include "model/prune.h"
#include "scenarios/spelling.h"

namespace stepcast {

void prune_model(const FieldValues& v, Problems& problems, Transformer& model) {
  if (v.value("prune") == nullptr) return;
  Pruning pruning;
  const std::array<std::pair<const char*, double Pruning::*>, 5> keys{
      {{"prune.layers", &Pruning::layers},
       {"prune.heads", &Pruning::heads},
       {"prune.ffn", &Pruning::ffn},
       {"prune.hidden", &Pruning::hidden},
       {"prune.experts", &Pruning::experts}}};
  for (const auto& [path, share] : keys) {
    if (!v.has(path)) continue;
    pruning.*share = v.real(path);
    if (pruning.*share < 1) continue;
    problems.add("E121", "nothing is left: '" + std::string(path) + "' is what is taken away",
                 v.mark(path), v.length(path), {}, "for example 25%");
    return;
  }
  try {
    model = pruned(model, pruning);
  } catch (const std::invalid_argument& e) {
    problems.add("E127", e.what(), v.mark("prune"), v.length("prune"));
  }
}

void resolve_teacher(const PlanInputs& in, const FileReader& read_file, Plan& plan) {
  const FieldValues& v = in.values;
  const Value* written = v.value("distill.teacher");
  if (written == nullptr) return;
  const auto refuse = [&](const char* code, std::string message, std::string help = {}) {
    in.problems.add(code, std::move(message), written->mark, 1, {}, std::move(help));
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
                  "the teacher's vocabulary of " + std::to_string(teacher->vocab) +
                      " is not the student's of " + std::to_string(in.model->vocab),
                  "both give every token of the same vocabulary a probability");
  const auto stages = static_cast<int64_t>(plan.stages.size());
  if (teacher->layers % stages != 0)
    return refuse("E202", "the teacher's " + std::to_string(teacher->layers) +
                              " layers are not a multiple of the " + std::to_string(stages) +
                              " stages");
  if (!divides(*teacher, plan.tp))
    return refuse("E210", "tp = " + std::to_string(plan.tp) + " does not divide the teacher",
                  "tp can be " + or_list(legal_tp(*teacher, plan.tp)) + " with this teacher");
  teacher->vocab = padded_vocab(teacher->vocab, plan.tp);
  teacher->mtp_layers = 0;  // predicts the student's tokens alone
  plan.teacher_stages = even_stages(teacher->layers, plan.pp, plan.vpp);
  assign_layers(plan.teacher_stages, *teacher);
  plan.teacher = std::move(teacher);
}

}  // namespace stepcast
