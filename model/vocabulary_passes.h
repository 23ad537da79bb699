// SPDX-License-Identifier: Apache-2.0
// The passes of a rank that holds a share of the vocabulary (Plan::vocabulary): word embedding and
// head of its words, for every microbatch (Yeung et al. 2025, arXiv 2411.05288, sections 4 and 5).
#pragma once

#include "model/layer_tensors.h"
#include "model/shard.h"
#include "model/stage_passes.h"

namespace stepcast {

// What the passes of one stage are written for.
struct VocabularyShare {
  GraphBuilder& builder;
  const Shard& shard;
  const StageContent& content;
  TensorTableId table;  // the stage's
};

// E.  Fills `t.rows` where the stage begins with them.  Comes before the stage's forward is
// written.
PassId add_embedding_forward(const VocabularyShare& share, EmbeddingTensors& t);

// S, T and G, between the stage's forward and its backward: in the last stage S reads what the
// forward leaves in `t`, and the backward begins with `t.gradient`.
void add_vocabulary_passes(const VocabularyShare& share, HeadTensors& t, StagePasses& passes);

}  // namespace stepcast
