// SPDX-License-Identifier: Apache-2.0
// Passes of stages, written once for all layouts that have them in common.
//
// The passes of a stage depend on the model, on its content, and on that part of the plan which
// shapes what one rank does with one microbatch: not on the number of stages, on chunks, schedule
// or global batch, nor on the number of replicas where gradients and parameters are not spread over
// them inside the passes.  What is kept is written from a plan in which all of that is taken out
// (plan_of_passes), so that nothing can come to depend on it unseen; and what is appended to a
// graph is what add_stage_passes() would have written there, number by number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "model/passes/pass_writer.h"
#include "model/passes/stage_passes.h"
#include "model/plan.h"
#include "model/transformer.h"

namespace stepcast {

// The plan without all that the passes of its stages do not depend on.
Plan plan_of_passes(const Plan& plan);

class StagePassCache {
 public:
  StagePassCache();
  ~StagePassCache();

  // As add_stage_passes().
  StagePasses add(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                  const StageContent& content, const PassChoice& choice);
  size_t written() const { return written_; }  // how often passes were written, not copied

 private:
  struct Kept;
  const Kept& kept(const Transformer& model, const Plan& plan, const StageContent& content,
                   const PassChoice& choice);

  std::map<uint64_t, std::vector<std::unique_ptr<Kept>>> kept_;  // by a hash of some of the key
  size_t written_ = 0, bytes_ = 0;
};

}  // namespace stepcast
