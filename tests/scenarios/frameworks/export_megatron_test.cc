// SPDX-License-Identifier: Apache-2.0
// Arguments for Megatron, and that reading them gives the scenario they were written from.
#include "scenarios/frameworks/megatron/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::export_megatron_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// What a scenario costs, in words that can be compared.
std::string plan_text(const Scenario& s) {
  const Transformer& m = s.model;
  const Plan& p = s.plan;
  std::string text;
  for (const int64_t n : {m.layers,
                          m.hidden,
                          m.heads,
                          m.kv_heads,
                          m.head_dim,
                          m.ffn,
                          m.vocab,
                          m.sliding_window,
                          m.experts,
                          m.experts_per_token,
                          m.moe_ffn,
                          m.shared_ffn,
                          m.dense_layers,
                          m.q_rank,
                          m.kv_rank,
                          m.qk_nope_dim,
                          m.qk_rope_dim,
                          m.v_dim,
                          p.tp,
                          p.cp,
                          p.ep,
                          p.etp,
                          p.dp,
                          p.pp,
                          p.vpp,
                          int64_t{p.zero},
                          p.global_batch,
                          p.micro_batch,
                          p.seq,
                          p.recompute_layers,
                          p.bucket_parameters,
                          s.cluster.nodes,
                          s.cluster.node.gpus})
    text += std::to_string(n) + ' ';
  for (const bool on : {m.gated,
                        m.tied,
                        m.attention_bias,
                        m.attention_output_bias,
                        m.mlp_bias,
                        m.norm_bias,
                        m.qk_norm,
                        m.attention_sinks,
                        p.sp,
                        p.overlap.dp_grad,
                        p.overlap.dp_param,
                        p.clip_gradients,
                        p.sharding.copied_out,
                        p.sharding.wide,
                        p.sharding.reshard_after_forward,
                        p.precision.master,
                        p.kernels.flash_attention,
                        p.kernels.fused_activation,
                        p.kernels.fused_softmax,
                        p.kernels.fused_bias_dropout_add,
                        p.kernels.fused_cross_entropy,
                        p.kernels.gradient_accumulation_fusion})
    text += on ? '1' : '0';
  for (const int kind :
       {static_cast<int>(m.norm), static_cast<int>(m.activation), static_cast<int>(m.positions),
        static_cast<int>(p.recompute), static_cast<int>(p.recompute_method),
        static_cast<int>(p.overlap.tp), static_cast<int>(p.precision.params),
        static_cast<int>(p.precision.gradients), static_cast<int>(p.precision.reduce),
        static_cast<int>(p.precision.moments), static_cast<int>(s.p2p),
        static_cast<int>(p.kernels.loss)})
    text += ' ' + std::to_string(kind);
  for (const StageContent& c : p.stages)
    text += ' ' + std::to_string(c.layers) + (c.embedding ? "E" : "") + (c.head ? "L" : "");
  text += ' ' + std::to_string(m.attention_dropout) + ' ' + std::to_string(m.hidden_dropout);
  return text + ' ' + s.schedule.name;
}

void expect_round_trip(const std::string& scenario) {
  const Scenario s = testing::load(scenario);
  const ExportedArguments arguments = export_megatron(s);
  EXPECT_THAT(arguments.notes, IsEmpty()) << scenario;
  ImportRequest r = testing::request("megatron-args", arguments.text);
  r.cluster = {"dgx-h100", "", false};
  const ImportedRun run = import_run(r);
  EXPECT_EQ(testing::unknown(run), "");
  EXPECT_EQ(plan_text(testing::load(run.scenario)), plan_text(s)) << arguments.text;
}

const std::string kBatch = "batch: {global: 256, micro: 1, seq: 4096}\n";

TEST(ExportMegatron, ReadingItGivesTheScenario) {
  expect_round_trip("model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2}\n" + kBatch);
  expect_round_trip(
      "model: llama3-70b\ncluster: dgx-h100 x 8\nparallel: {tp: 8, pp: 4, vpp: 4, zero: 1}\n" +
      kBatch + "schedule: interleaved\noverlap: {dp_grad: true, dp_param: true}\n" +
      "recompute: {granularity: full, method: block, layers: 2}\n");
  expect_round_trip(
      "model: {preset: gpt3-6.7b, max_position_embeddings: 4096}\n"
      "cluster: dgx-h100 x 1\nparallel: {tp: 2, sp: false}\n" +
      kBatch +
      "precision: fp16-mixed\nrecompute: selective\n"
      "kernels: {attention: unfused, dropout: 0.1, fused_softmax: false}\n"
      "optimizer: {clip: false}\n");
  expect_round_trip(
      "model: qwen2.5-7b\ncluster: dgx-h100 x 1\nparallel: {tp: 4, pp: 2, layout: "
      "\"Et*13|t*15L\"}\n" +
      kBatch);
  expect_round_trip("model: qwen3-8b\ncluster: dgx-h100 x 1\n" + kBatch +
                    "precision: {preset: bf16-mixed, grads: bf16, moments: bf16}\n");
  expect_round_trip("model: mistral-7b\ncluster: dgx-h100 x 1\n" + kBatch + "precision: fp32\n");
  expect_round_trip("model: qwen3-8b\ncluster: dgx-h100 x 1\n" + kBatch +
                    "kernels: {fused_cross_entropy: true, loss: in-place}\n");
}

TEST(ExportMegatron, FullShardingIsWrittenAsMegatronStartsIt) {
  expect_round_trip(
      "model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2, zero: 3, fsdp: "
      "megatron}\n" +
      kBatch);
  expect_round_trip(
      "model: llama3-8b\ncluster: dgx-h100 x 1\nparallel: {zero: 2}\n"
      "overlap: {dp_grad: true, dp_param: true}\n" +
      kBatch);
  expect_round_trip(
      "model: llama3-8b\ncluster: dgx-h100 x 1\n"
      "parallel: {tp: 2, zero: 3, reshard_after_forward: false}\n"
      "kernels: {gradient_accumulation_fusion: false}\n" +
      kBatch);
  const auto exported = [](const std::string& parallel, const std::string& more = {}) {
    return export_megatron(testing::load("model: llama3-8b\ncluster: dgx-h100 x 1\nparallel: {" +
                                         parallel + "}\n" + more + kBatch));
  };
  const auto own_connection = HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS");
  for (const char* parallel : {"zero: 2", "zero: 3", "tp: 2, zero: 3, fsdp: megatron"}) {
    EXPECT_THAT(exported(parallel).text, HasSubstr("--ckpt-format fsdp_dtensor"));
    EXPECT_THAT(exported(parallel).text, HasSubstr("--use-distributed-optimizer"));
    EXPECT_THAT(exported(parallel).text, ::testing::Not(own_connection));
  }
  EXPECT_THAT(exported("tp: 2, zero: 1").text, own_connection);
  const ExportedArguments torch = exported("zero: 3",
                                           "kernels: {gradient_accumulation_fusion: false}\n"
                                           "overlap: {dp_param: true}\n");
  EXPECT_THAT(torch.text, HasSubstr("--use-torch-fsdp2"));
  EXPECT_THAT(exported("zero: 3, fsdp: fsdp2",
                       "kernels: {gradient_accumulation_fusion: false}\n"
                       "overlap: {dp_grad: false}\n")
                  .notes,
              ::testing::Contains(HasSubstr("PyTorch's FSDP2 reduces beside the backward")));
  for (const char* refused : {"--use-megatron-fsdp", "--use-distributed-optimizer",
                              "--overlap-param-gather", "fsdp_dtensor", "MAX_CONNECTIONS"})
    EXPECT_THAT(torch.text, ::testing::Not(HasSubstr(refused)));
  EXPECT_THAT(exported("zero: 3").notes,
              ::testing::ElementsAre(HasSubstr("parallel.fsdp megatron forecasts")));
  EXPECT_THAT(exported("zero: 2").notes,
              ::testing::ElementsAre(HasSubstr("overlap.dp_grad false is not written")));
}

TEST(ExportMegatron, OverlapAndOffloadComeWithWhatMegatronAsksForBeside) {
  const auto exported = [](const std::string& more) {
    return export_megatron(
        testing::load("model: llama3-8b\ncluster: dgx-h100 x 1\n" + more + kBatch));
  };
  const std::string gathers = "overlap: {dp_param: true}\n";
  for (const char* zero : {"0", "1"}) {
    const ExportedArguments alone =
        exported(std::string("parallel: {zero: ") + zero + "}\n" + gathers);
    EXPECT_THAT(alone.text, ::testing::Not(HasSubstr("--overlap-param-gather")));
    EXPECT_EQ(alone.notes.size(), zero == std::string("1") ? 1u : 0u);
  }
  EXPECT_THAT(exported("parallel: {zero: 1}\noffload: {optimizer: 0.5}\n").text,
              HasSubstr("--use-precision-aware-optimizer"));
}

TEST(ExportMegatron, WhatMegatronCannotDoIsSaid) {
  const auto notes = [](const std::string& more) {
    std::string all;
    for (const std::string& n :
         export_megatron(testing::load("model: llama3-8b\ncluster: dgx-h100 x 1\n"
                                       "parallel: {tp: 1, pp: 4}\n" +
                                       kBatch + more))
             .notes)
      all += n + '\n';
    return all;
  };
  EXPECT_THAT(notes("schedule: zb-h1\n"), HasSubstr("Megatron-LM has no schedule zb-h1"));
  EXPECT_THAT(notes("kernels: {fused_bias: true}\n"), HasSubstr("biases in kernels"));
  EXPECT_THAT(notes("kernels: {loss: torch}\n"), HasSubstr("cross-entropy of its own"));
  EXPECT_THAT(notes("kernels: {modules: torch}\n"), HasSubstr("modules of its own"));
  EXPECT_THAT(notes("kernels: {host_waits: passes}\n"), HasSubstr("kernels.host_waits"));
  EXPECT_THAT(notes("kernels: {flash_kernel: flash-2}\n"), HasSubstr("kernels.flash_kernel"));
  EXPECT_THAT(notes("kernels: {held_logits: 2}\n"), HasSubstr("held_logits are not written"));
  EXPECT_THAT(notes("precision: {preset: bf16-mixed, own_grads: true}\n"),
              HasSubstr("precision.own_grads"));
  EXPECT_THAT(notes("overlap: {pp_p2p: false}\n"),
              HasSubstr("overlap.pp_p2p false is not written"));
  const auto notes_of = [](const std::string& model) {
    return ::testing::PrintToString(
        export_megatron(testing::load("model: {" + model + "}\ncluster: dgx-h100 x 1\n" + kBatch))
            .notes);
  };
  EXPECT_THAT(notes_of("preset: llama3-8b, parallel_attn: true"),
              HasSubstr("is not quite the scenario's: Megatron has no attention beside the MLP"));
  const Scenario s = testing::load(
      "model: llama3-8b\ncluster: dgx-h100 x 1\n"
      "parallel: {tp: 2, zero: 1, zero_exchange: all-reduce}\noverlap: {tp: none}\n" +
      kBatch);
  EXPECT_THAT(export_megatron(s).notes,
              ::testing::UnorderedElementsAre(HasSubstr("parallel.zero_exchange"),
                                              HasSubstr("overlap.tp none")));
}

TEST(ExportMegatron, WhatPretrainGptIsNotIsRefused) {
  const auto why = [](const std::string& model, const std::string& more = {}) {
    const Scenario s =
        testing::load("model: {" + model + "}\ncluster: dgx-h100 x 1\n" + more + kBatch);
    const std::string text = why_not_megatron(s);
    const testing::Failure refused = testing::failure_of([&] { export_megatron(s); });
    EXPECT_EQ(refused.codes, text.empty() ? "" : "E130");
    return text;
  };
  EXPECT_THAT(why("preset: t5-11b"), HasSubstr("an encoder and a decoder"));
  EXPECT_THAT(why("preset: bert-large, max_position_embeddings: 4096"), HasSubstr("both sides"));
  EXPECT_THAT(why("preset: llama3-8b, v_head_dim: 64"), HasSubstr("v_head_dim"));
  EXPECT_THAT(why("model_type: gemma4_text"), HasSubstr("several sizes"));
  EXPECT_THAT(why("model_type: deepseek_v4, num_hidden_layers: 4, compress_ratios: [0, 4, 128, 4]"),
              HasSubstr("compressed keys"));
  EXPECT_THAT(why("preset: llama3-8b", "mode: prefill\n"),
              HasSubstr("a forward alone: pretrain_gpt.py"));
  EXPECT_EQ(why("preset: llama3-8b"), "");
}

TEST(ExportMegatron, WhatASoftwareProfileSetsIsWritten) {
  const std::string odd =
      "model: {preset: llama3-8b, vocab_size: 50257}\ncluster: dgx-h100 x 1\n"
      "parallel: {tp: 2, vocab_multiple: 1}\n" +
      kBatch;
  expect_round_trip(odd);
  const Scenario s = testing::load(odd + "kernels: {modules: megatron}\n");
  EXPECT_EQ(s.model.vocab, 50258);
  EXPECT_THAT(export_megatron(s).text, HasSubstr("--make-vocab-size-divisible-by 1"));
  EXPECT_THAT(export_megatron(s).text, HasSubstr("--transformer-impl local"));
  EXPECT_THAT(export_megatron(s).notes, IsEmpty());
}

TEST(ExportMegatron, WhatMegatronRefusesIsNotWritten) {
  const auto exported = [](const std::string& parallel, const std::string& more) {
    return export_megatron(testing::load("model: llama3-8b\ncluster: dgx-h100 x 1\nparallel: {" +
                                         parallel + "}\n" + more + kBatch));
  };
  for (const char* parallel : {"tp: 1", "tp: 2, sp: false"})
    EXPECT_THAT(exported(parallel, "software: nemo\n").text,
                ::testing::Not(HasSubstr("--tp-comm-overlap")));
  EXPECT_THAT(exported("tp: 2, sp: false", "software: nemo\n").notes,
              ::testing::Contains(HasSubstr("overlap.tp")));
  EXPECT_THAT(exported("tp: 2", "software: nemo\n").text, HasSubstr("--tp-comm-overlap"));
  const ExportedArguments ring = exported("tp: 2, cp: 2, zero: 1", "software: torchtitan\n");
  EXPECT_THAT(ring.text, ::testing::Not(HasSubstr("--transformer-impl local")));
  EXPECT_THAT(ring.notes, ::testing::Contains(HasSubstr("kernels.modules")));
}

TEST(ExportMegatron, NotesDoNotContradictTheArguments) {
  const ExportedArguments experts = export_megatron(
      testing::load("model: mixtral-8x7b\nsoftware: nemo\ncluster: dgx-h100 x 4\n"
                    "parallel: {ep: 8, pp: 4, zero: 1}\n"
                    "precision: {preset: bf16-mixed, grads: bf16, reduce: bf16}\n"
                    "moe: {dispatcher: alltoall, capacity_factor: 1.0, pad_to_capacity: true, "
                    "grouped_gemm: true, permute_fusion: true}\n" +
                    kBatch));
  for (const char* said : {"moe.", "precision.reduce"})
    EXPECT_THAT(experts.notes, ::testing::Not(::testing::Contains(HasSubstr(said)))) << said;
}

TEST(ExportMegatron, IsAScriptOfOneCommand) {
  const std::string text =
      export_megatron(testing::load("model: llama3-8b\ncluster: dgx-h100 x 2\n" + kBatch)).text;
  EXPECT_THAT(text, HasSubstr("torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py \\\n"));
  EXPECT_THAT(text, HasSubstr("  --num-layers 32 \\\n"));
}

}  // namespace
}  // namespace stepcast::export_megatron_test
