// SPDX-License-Identifier: Apache-2.0
// What a script trains follows from the program it calls, not only from Megatron's arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scenarios/frameworks/megatron_program.h"
#include "tests/scenarios/frameworks/imported.h"

namespace stepcast::import_program_test {
namespace {

using ::testing::AllOf;
using testing::Failure;
using ::testing::HasSubstr;
using testing::import_failure;
using testing::imported;
using ::testing::Not;
using testing::notes;
using testing::unknown;
using testing::value_of;
using Trains = MegatronProgram::Trains;

const std::string kModel =
    " --num-layers 12 --hidden-size 768 --num-attention-heads 12 --micro-batch-size 4 "
    "--global-batch-size 32 --max-position-embeddings 512 --bf16 ";
const std::string kSizes = kModel + "--seq-length 512 --vocab-size 50257 ";

ImportedRun run_of(const std::string& command) {
  return imported("megatron-args", command);
}

std::string refusal_of(const std::string& command) {
  const Failure f = import_failure("megatron-args", command);
  return f.lines.empty() ? "" : f.lines.front();
}

TEST(MegatronPrograms, AreToldByTheirNames) {
  EXPECT_EQ(megatron_program("pretrain_gpt.py").trains, Trains::decoder);
  EXPECT_EQ(megatron_program("/opt/Megatron-LM/examples/bert/pretrain_bert.py").trains,
            Trains::encoder);
  EXPECT_EQ(megatron_program("./pretrain_t5.py").trains, Trains::encoder_decoder);
  EXPECT_EQ(megatron_program("tools/checkpoint/convert.py").trains, Trains::nothing);
  EXPECT_EQ(megatron_program("examples.inference.run").trains, Trains::nothing);
  EXPECT_EQ(megatron_program("report_memory_of_a_model.py").trains, Trains::nothing);
  EXPECT_EQ(megatron_program("test_resume.py").trains, Trains::nothing);
  EXPECT_EQ(megatron_program("").trains, Trains::decoder);
  // Folders say less than the file.
  EXPECT_EQ(megatron_program("/data/test_runs/pretrain_gpt.py").trains, Trains::decoder);
  EXPECT_EQ(megatron_program("/data/pretrain_bert/pretrain_gpt.py").trains, Trains::decoder);
  EXPECT_EQ(megatron_program("/code/huggingface/pretrain_gpt.py").trains, Trains::decoder);
  EXPECT_EQ(megatron_program("latest_pretrain.py").trains, Trains::decoder);
}

TEST(MegatronPrograms, WhatTheyTrainThatIsNotSimulatedIsNamed) {
  EXPECT_THAT(refusal_of("torchrun pretrain_retro.py" + kSizes),
              AllOf(HasSubstr("E130"), HasSubstr("(RETRO)"), HasSubstr("pretrain_retro.py")));
  EXPECT_THAT(refusal_of("torchrun pretrain_ict.py" + kSizes), HasSubstr("two encoders"));
  EXPECT_THAT(refusal_of("torchrun pretrain_vision_classify.py" + kSizes),
              HasSubstr("a model of images"));
  EXPECT_THAT(refusal_of("torchrun tasks/main.py --task MNLI --train-data a.tsv" + kSizes),
              HasSubstr("a head for a task"));
  EXPECT_THAT(refusal_of("torchrun tasks/main.py --task LAMBADA --valid-data a.json" + kSizes),
              HasSubstr("E336"));
  EXPECT_THAT(refusal_of("torchrun train_rl.py" + kSizes), HasSubstr("rewards"));
  EXPECT_THAT(refusal_of("torchrun finetune_huggingface_llama.py" + kSizes),
              HasSubstr("a model of transformers'"));
  EXPECT_THAT(refusal_of("python -m examples.inference.serve" + kSizes), HasSubstr("E336"));
  // Before values of it are asked for.
  EXPECT_THAT(refusal_of("torchrun pretrain_retro.py --num-layers $LAYERS"), HasSubstr("(RETRO)"));
}

TEST(MegatronPrograms, ArgumentsThatSayTheSameAreRefusedAsWell) {
  EXPECT_THAT(refusal_of("torchrun train.py --retro-add-retriever" + kSizes), HasSubstr("(RETRO)"));
  EXPECT_THAT(refusal_of("torchrun train.py --model-provider video_vlm" + kSizes),
              HasSubstr("a model whose sizes are in the program (--model-provider video_vlm)"));
  EXPECT_THAT(refusal_of("torchrun train.py --transformer-type huggingface" + kSizes),
              HasSubstr("a model of transformers'"));
  for (const char* part : {"--bitfit", "--freeze-llm", "--tune-mm-mlp-adapter", "--freeze-LM"})
    EXPECT_THAT(refusal_of("torchrun train.py" + kSizes + part),
                AllOf(HasSubstr("a part of the parameters"), HasSubstr(part)));
  for (const char* none : {"--no-train", "--skip-train"})
    EXPECT_THAT(refusal_of("torchrun train.py" + kSizes + none),
                AllOf(HasSubstr("E336"), HasSubstr(none)));
  EXPECT_THAT(refusal_of("torchrun train.py --encoder-pipeline-model-parallel-size 1" + kSizes),
              HasSubstr("on GPUs of their own"));
  EXPECT_THAT(refusal_of("torchrun train.py --encoder-tensor-model-parallel-size 2" + kSizes),
              HasSubstr("on GPUs of their own"));
  // What a list prints of a model that is simulated.
  EXPECT_EQ(value_of(run_of("torchrun train.py --model-provider gpt --transformer-type megatron "
                            "--encoder-pipeline-model-parallel-size 0 "
                            "--encoder-tensor-model-parallel-size 0" +
                            kSizes),
                     "model.num_hidden_layers"),
            "12");
}

TEST(MegatronPrograms, BertSeesBothSidesAndHasItsVocabulary) {
  const ImportedRun bert = run_of("torchrun pretrain_bert.py --seq-length 512" + kModel);
  EXPECT_EQ(value_of(bert, "model.bidirectional"), "true");
  EXPECT_EQ(value_of(bert, "model.vocab_size"), "30522");
  EXPECT_THAT(bert.scenario, HasSubstr("# program pretrain_bert.py"));
  EXPECT_THAT(notes(bert), Not(HasSubstr("vocab_size")));
  const ImportedRun by_tokenizer =
      run_of("--tokenizer-type BertWordPieceCase --seq-length 512" + kModel);
  EXPECT_EQ(value_of(by_tokenizer, "model.bidirectional"), "true");
  const ImportedRun by_words =
      run_of("--vocab-file $DATA/bert-vocab.txt --seq-length 512" + kModel);
  EXPECT_EQ(value_of(by_words, "model.bidirectional"), "true");
  EXPECT_EQ(value_of(by_words, "model.vocab_size"), "30522");
  for (const char* gpt :
       {"--vocab-file vocab.json", "--vocab-file vocab.txt --merge-file merges.txt",
        "--vocab-file vocab.txt --tokenizer-type SentencePieceTokenizer"})
    EXPECT_EQ(value_of(run_of(gpt + kSizes), "model.bidirectional"), "") << gpt;
  EXPECT_EQ(value_of(run_of("torchrun pretrain_gpt.py" + kSizes), "model.bidirectional"), "");
}

TEST(MegatronPrograms, T5HasAsManyLayersInItsDecoder) {
  for (const std::string& t5 :
       {"torchrun pretrain_t5.py" + kModel, "torchrun train.py --vocab-extra-ids 100" + kModel}) {
    const ImportedRun run = run_of(t5 + "--encoder-seq-length 512 --decoder-seq-length 128");
    EXPECT_EQ(value_of(run, "model.num_encoder_layers"), "12") << t5;
    EXPECT_EQ(value_of(run, "model.num_decoder_layers"), "12");
    EXPECT_EQ(value_of(run, "model.bidirectional"), "");
    EXPECT_EQ(value_of(run, "batch.encoder_seq"), "512");
    EXPECT_EQ(value_of(run, "batch.seq"), "128");
  }
}

// --seq-length is then that of the encoder of images, which is left out aloud.
TEST(MegatronPrograms, BehindAnEncoderOfImagesTheDecodersLengthCounts) {
  const ImportedRun run = run_of(
      "torchrun examples/multimodal/train.py --seq-length 576 --decoder-seq-length 2048 "
      "--img-h 336 --img-w 336 --vocab-size 32000 --train-samples 1000" +
      kModel + "--max-position-embeddings 4096");
  EXPECT_EQ(value_of(run, "batch.seq"), "2048");
  EXPECT_EQ(value_of(run, "batch.encoder_seq"), "");
  EXPECT_EQ(value_of(run, "job.tokens"), "2048000");
  EXPECT_THAT(notes(run), HasSubstr("--img-h 336: not modelled"));
  // The default, which Megatron prints for every model.
  EXPECT_THAT(notes(run_of("--img-h 224" + kSizes)), Not(HasSubstr("img-h")));
}

// A value of the scenario and the arguments of a fork that give it.
struct Spelling {
  const char* arguments;
  const char* path;
  const char* value;
};

TEST(MegatronForks, NamesOfTheirsAreRead) {
  for (const Spelling& s : std::vector<Spelling>{
           {"--swiglu --intermediate-size 2048", "model.intermediate_size", "2048"},
           {"--geglu", "model.gated_mlp", "true"},
           {"--geglu", "model.hidden_act", "gelu"},
           {"--position-embedding-type rotary", "model.position_embedding_type", "rotary"},
           {"--use-llama2-rotary-position-embeddings", "model.position_embedding_type", "rope"},
           {"--no-position-embedding --use-alibi-mask", "model.position_embedding_type", "alibi"},
           {"--sliding-window 256", "model.sliding_window", "256"},
           {"--disable-bias-linear-fc --disable-bias-attn-fc", "model.mlp_bias", "false"},
           {"--disable-bias-linear-fc --disable-bias-attn-fc", "model.attention_bias", "false"},
           {"--disable-bias-linear-fc --disable-bias-attn-fc", "model.qkv_bias", "true"},
           {"--disable-bias-linear", "model.qkv_bias", ""},
           {"--multi-latent-attention --kv-lora-rank 64 --qk-nope-head-dim 48",
            "model.qk_nope_head_dim", "48"},
           {"--multi-latent-attention --kv-lora-rank 64 --qk-rope-head-dim 16",
            "model.qk_rope_head_dim", "16"},
           {"--num_attention_heads_kv 4", "model.num_key_value_heads", "4"},
           {"--use_rms_norm", "model.normalization", "RMSNorm"},
           {"--no_tie_embed_logits", "model.tie_word_embeddings", "false"}}) {
    const ImportedRun run = run_of("torchrun pretrain.py" + kSizes + s.arguments);
    EXPECT_EQ(value_of(run, s.path), s.value) << s.arguments;
    EXPECT_EQ(unknown(run), "") << s.arguments;
  }
}

TEST(MegatronForks, ArgumentsSpelledWithUnderscoresAreToldByContent) {
  EXPECT_EQ(kind_of_file("#!/bin/bash\npython pretrain_gpt.py --num_layers 12\n"), "megatron-args");
}

TEST(MegatronForks, DeepSpeedsExpertsOverUnsplitSequencesAreNamed) {
  const std::string experts =
      "torchrun pretrain_gpt.py --deepspeed --num-experts 4 "
      "--moe-expert-parallel-size 2 --tensor-model-parallel-size 2" +
      kSizes;
  EXPECT_THAT(refusal_of(experts), AllOf(HasSubstr("E130"), HasSubstr("experts over ranks")));
  ImportRequest stated = testing::request("megatron-args", experts);
  stated.set = {{"parallel.sp", "true"}};
  EXPECT_EQ(value_of(import_run(stated), "parallel.sp"), "true");
  EXPECT_EQ(value_of(run_of(experts + "--sequence-parallel"), "parallel.sp"), "true");
}

// sail-sg/zero-bubble-pipeline-parallelism.
TEST(MegatronForks, ZeroBubbleSchedulesAreTheOnesThatRun) {
  const std::string pipeline =
      "torchrun pretrain_gpt.py --pipeline-model-parallel-size 4 --global-batch-size 64 "
      "--num-layers 24 --hidden-size 768 --num-attention-heads 12 --micro-batch-size 1 "
      "--seq-length 512 --vocab-size 50257 --max-position-embeddings 512 --fp16 ";
  const auto kind = [&](const std::string& arguments, const char* path = "schedule.kind") {
    return value_of(run_of(pipeline + arguments), path);
  };
  EXPECT_EQ(kind("--enable-zb-runtime"), "\"1f1b\"");
  EXPECT_EQ(kind("--enable-zero-bubble --zero-bubble-max-pending-backward 4"), "zb-1p-auto");
  EXPECT_EQ(kind("--enable-zero-bubble --zero-bubble-max-pending-backward 4", "schedule.params"),
            "");
  EXPECT_EQ(kind("--enable-zero-bubble --zero-bubble-max-pending-backward 8", "schedule.params"),
            "{mem_limit_in_activations: 8}");
  EXPECT_EQ(kind("--zero-bubble-v-schedule"), "zb-v-auto");
  EXPECT_EQ(kind("--zero-bubble-v-schedule", "parallel.vpp"), "2");
  EXPECT_EQ(kind("--zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup half"), "v-half");
  EXPECT_EQ(kind("--zero-bubble-v-schedule --zero-bubble-v-schedule-mem-setup min"), "v-min");
  EXPECT_EQ(kind("--enable-1f1b-v"), "\"1f1b-v\"");
  EXPECT_EQ(kind("--num-seq-splits 2"), "seq1f1b");
  EXPECT_EQ(kind("--num-layers-per-virtual-pipeline-stage 3 --interleave-group-size 2"),
            "group-interleaved");
  // How much memory there is, only the run finds out.
  EXPECT_THAT(refusal_of(pipeline + "--enable-zero-bubble"),
              AllOf(HasSubstr("E130"), HasSubstr("--zero-bubble-max-pending-backward auto")));
  EXPECT_THAT(refusal_of(pipeline + "--zero-bubble-v-schedule "
                                    "--zero-bubble-v-schedule-mem-setup most"),
              AllOf(HasSubstr("E331"), HasSubstr("must be zb, half or min")));
}

}  // namespace
}  // namespace stepcast::import_program_test
