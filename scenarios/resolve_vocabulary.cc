// SPDX-License-Identifier: Apache-2.0
// resolve_vocabulary: whether the schedule shares the vocabulary over the pipeline, and what does
// not go with that.
#include <string>

#include "scenarios/resolve_schedule.h"
#include "schedules/lower/vocabulary.h"

namespace stepcast {

VocabularySplit resolve_vocabulary(const PlanInputs& in, const Plan& plan,
                                   const Schedule& schedule) {
  const VocabularySplit split = vocabulary_split(schedule);
  if (split == VocabularySplit::none || in.model == nullptr) return split;
  FieldValues& v = in.values;
  if (v.value("kernels.loss") != nullptr && plan.kernels.loss != Loss::megatron)
    in.warnings.push_back(
        "kernels.loss has no effect: the schedule shares the vocabulary and has passes of "
        "Megatron's");
  const char* path = "schedule";
  for (const char* one : {"schedule.kind", "schedule.steps", "schedule.file"})
    if (v.value(one) != nullptr) path = one;
  const auto refuse = [&](bool wrong, const std::string& what) {
    if (!wrong) return;
    v.refuse("E127", path,
             "the schedule shares the vocabulary over the pipeline, which is not "
             "modelled with " +
                 what,
             "schedules without vocab in their names go with it, such as 1f1b");
  };
  refuse(plan.teacher.has_value(), "distillation");
  refuse(plan.zero >= 2, "parallel.zero 2 or 3");
  refuse(in.model->mtp_layers > 0, "multi-token prediction");
  refuse(in.model->encoder_layers > 0, "an encoder and a decoder");
  refuse(in.model->masked_head, "the head of a masked language model");
  return split;
}

}  // namespace stepcast
