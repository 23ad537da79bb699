// SPDX-License-Identifier: Apache-2.0
// What a script trains follows from the program it calls, not only from Megatron's arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "scenarios/frameworks/megatron/program.h"
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
  EXPECT_EQ(megatron_program("run_evaluation.py").trains, Trains::nothing);
  EXPECT_EQ(megatron_program("").trains, Trains::unknown);
  EXPECT_EQ(megatron_program("${").trains, Trains::unknown);
  EXPECT_EQ(megatron_program("pretrain_yi.py").trains, Trains::unknown);
  // Folders say less than the file.
  EXPECT_EQ(megatron_program("/data/test_runs/pretrain_gpt.py").trains, Trains::decoder);
  EXPECT_EQ(megatron_program("/data/pretrain_bert/pretrain_gpt.py").trains, Trains::decoder);
  EXPECT_EQ(megatron_program("/code/huggingface/pretrain_gpt.py").trains, Trains::decoder);
  EXPECT_EQ(megatron_program("latest_pretrain.py").trains, Trains::unknown);
  // Tools are told by the folder they lie in.
  EXPECT_EQ(megatron_program("/opt/Megatron-LM/tools/checkpoint/inspect.py").trains,
            Trains::nothing);
  EXPECT_EQ(megatron_program("/opt/tools/my/run.py").trains, Trains::unknown);
  EXPECT_EQ(megatron_program("/opt/mytools/run.py").trains, Trains::unknown);
}

TEST(MegatronPrograms, FoldersAndNamesOfVariablesSayNothing) {
  for (const char* folder : {"/export/home/me/", "$SERVER_DIR/", "${EVAL_DIR}/", "/mnt/server1/",
                             "/workspace/benchmark/", "/opt/tools/Megatron-LM/", "tools/",
                             "/mnt/evals/", "$MERGED_CODE/", "inference/"})
    EXPECT_EQ(value_of(run_of(std::string("torchrun ") + folder + "pretrain_gpt.py" + kSizes),
                       "model.num_hidden_layers"),
              "12")
        << folder;
  EXPECT_EQ(megatron_program("$EVAL_SCRIPT").trains, Trains::unknown);
  // Nor do other words of a name that says that it trains.
  for (const char* program :
       {"train_generative_lm.py", "pretrain_retrieval_lm.py", "finetune_for_eval.py", "train.py"})
    EXPECT_EQ(megatron_program(program).trains, Trains::unknown) << program;
}

TEST(MegatronPrograms, OfATestWithABatchNobodySaysThatItTrainsNothing) {
  EXPECT_THAT(refusal_of("torchrun test_resume.py --num-layers 12 --hidden-size 768"),
              HasSubstr("E336"));
  EXPECT_THAT(refusal_of("torchrun test_hyena.py" + kSizes),
              AllOf(HasSubstr("E130"), HasSubstr("a test, which may train nothing")));
}

// The last file of Python before Megatron's arguments, whatever starts it.
TEST(MegatronPrograms, StartersWrittenInPythonAreNotTheProgram) {
  for (const char* start :
       {"python launch.py pretrain_bert.py", "torchrun --config my_eval.py pretrain_bert.py",
        "torchrun --standalone pretrain_bert.py", "python numa_eval.py 4 pretrain_bert.py",
        "launch --program pretrain_bert.py", "python -m torch.distributed.run pretrain_bert.py",
        "torchrun $ARGS -m pretrain_bert", "L=\"python numa.py\"\n$L pretrain_bert.py",
        "srun python -u pretrain_bert.py --data-path prepare_data.py"})
    EXPECT_EQ(value_of(run_of(start + kModel + "--seq-length 512"), "model.bidirectional"), "true")
        << start;
  const ImportedRun gpt =
      run_of("V=\"--vocab-size 50257\"\npython numa_eval.py pretrain_gpt.py --seq-length 512" +
             kModel + "$V --spec my_bert_layers.py");
  EXPECT_EQ(value_of(gpt, "model.vocab_size"), "50257");
  EXPECT_EQ(value_of(gpt, "model.bidirectional"), "");
}

TEST(MegatronPrograms, AProgramThatIsOpenIsAskedFor) {
  const std::string choice =
      "if [ $KIND = bert ]; then P=pretrain_bert.py; else P=$OTHER; fi\ntorchrun $P" + kSizes;
  const auto with = [&](const std::string& other) { return "OTHER=" + other + "\n" + choice; };
  EXPECT_THAT(
      refusal_of(with("pretrain_gpt.py")),
      AllOf(HasSubstr("E332"), HasSubstr("does not say KIND"), HasSubstr("the program $P")));
  EXPECT_THAT(refusal_of(with("pretrain_retro.py")), HasSubstr("E332"));
  EXPECT_THAT(refusal_of(with("evaluate.py")), HasSubstr("E332"));
  EXPECT_EQ(value_of(run_of(with("my/pretrain_bert.py")), "model.bidirectional"), "true");
  ImportRequest given = testing::request("megatron-args", with("pretrain_gpt.py"));
  const std::vector<std::string> words{"KIND=bert"};
  given.given = words;
  EXPECT_EQ(value_of(import_run(given), "model.bidirectional"), "true");
  EXPECT_THAT(refusal_of("torchrun $DIR/pretrain_$KIND.py" + kSizes),
              AllOf(HasSubstr("E332"), HasSubstr("KIND")));
  EXPECT_THAT(notes(run_of("srun python $P" + kSizes)),
              HasSubstr("what $P runs is not known, and taken to train a decoder"));
  EXPECT_THAT(notes(run_of("torchrun $ARGS pretrain_gpt.py" + kSizes)),
              Not(HasSubstr("to train a decoder")));
  EXPECT_THAT(refusal_of("python convert_$KIND.py" + kSizes), HasSubstr("E336"));
  EXPECT_EQ(value_of(run_of("torchrun $DIR/pretrain_bert_$SIZE.py --seq-length 8" + kModel),
                     "model.bidirectional"),
            "true");
  for (const char* program : {"pretrain_<kind>.py", "my/<the program>.py", "<eval>.py"})
    EXPECT_THAT(refusal_of("torchrun " + (program + kSizes)),
                AllOf(HasSubstr("E332"), HasSubstr(program)));
}

TEST(MegatronPrograms, AnArgumentOfTheirNameIsNone) {
  const ImportedRun run = run_of("launch --program pretrain_gpt.py" + kModel + "--seq-length 512");
  EXPECT_THAT(value_of(run, "model.vocab_size"), Not("30522"));
  const ImportedRun json = run_of(
      "{\"program\": \"pretrain_bert.py\", \"num_layers\": 12, \"hidden_size\": 768, "
      "\"num_attention_heads\": 12, \"seq_length\": 512}");
  EXPECT_EQ(value_of(json, "model.vocab_size"), "128256");
  EXPECT_EQ(value_of(json, "model.bidirectional"), "");
  EXPECT_THAT(unknown(json), HasSubstr("program"));
}

// Which its tokenizer does not change.
TEST(MegatronPrograms, AGptIsOneWhateverItsTokenizer) {
  const std::string gpt = "torchrun pretrain_gpt.py --seq-length 512" + kModel;
  for (const char* bert : {"--tokenizer-type BertWordPieceLowerCase", "--vocab-file bert-vocab.txt",
                           "--vocab-extra-ids 100 --decoder-seq-length 128"})
    EXPECT_EQ(value_of(run_of(gpt + bert), "model.bidirectional"), "") << bert;
  EXPECT_EQ(value_of(run_of(gpt + "--tokenizer-type BertWordPieceLowerCase"), "model.vocab_size"),
            "30522");
  EXPECT_EQ(value_of(run_of(gpt + "--vocab-file bert-vocab.txt"), "model.vocab_size"), "128256");
  EXPECT_EQ(value_of(run_of(gpt + "--vocab-extra-ids 100 --decoder-seq-length 128"),
                     "model.num_encoder_layers"),
            "");
  const ImportedRun decoder = run_of(gpt + "--decoder-num-layers 3");
  EXPECT_EQ(value_of(decoder, "model.num_hidden_layers"), "12");
  EXPECT_THAT(notes(decoder), HasSubstr("--decoder-num-layers 3: not modelled"));
}

TEST(MegatronPrograms, APlaceholderDoesNotHideThem) {
  EXPECT_EQ(
      value_of(run_of("deepspeed --hostfile <hosts> pretrain_bert.py --seq-length 512" + kModel),
               "model.bidirectional"),
      "true");
  EXPECT_THAT(refusal_of("deepspeed --hostfile <my hosts> pretrain_retro.py" + kSizes),
              HasSubstr("(RETRO)"));
  EXPECT_THAT(refusal_of("torchrun pretrain_gpt.py --hidden-size <width> --num-layers 2"),
              AllOf(HasSubstr("E332"), HasSubstr("--hidden-size <width>")));
}

TEST(MegatronPrograms, APlaceholderToSaveToSaves) {
  const std::string saves = "torchrun pretrain_gpt.py --save-interval 500 --save ";
  EXPECT_EQ(value_of(run_of(saves + "<PATH TO CHECKPOINTS>" + kSizes), "job.checkpoint.every"),
            "500 steps");
}

TEST(MegatronPrograms, WhatTheyDoBesideIsLeftOutAloud) {
  EXPECT_THAT(notes(run_of("torchrun pretrain_vlm.py" + kSizes)),
              HasSubstr("program pretrain_vlm.py: the encoder of images"));
  for (const char* prefix : {"pretrain_prefix_lm.py", "finetune_t0_non_causal_decoder.py"})
    EXPECT_THAT(notes(run_of(std::string("deepspeed ") + prefix + kSizes)),
                HasSubstr("attention to both sides"))
        << prefix;
}

TEST(MegatronPrograms, WhatIsNoTrainingIsSaidBeforeAnythingIsAsked) {
  const Failure f = import_failure(
      "megatron-args",
      "torchrun pretrain_gpt.py --use-checkpoint-args --skip-train --micro-batch-size 1 "
      "--num-layers 2");
  ASSERT_EQ(f.lines.size(), 1u);
  EXPECT_THAT(f.lines.front(), HasSubstr("E336"));
  const Failure asked = import_failure(
      "megatron-args",
      "torchrun pretrain_gpt.py --use-checkpoint-args --micro-batch-size 1 --seq-length 2");
  ASSERT_FALSE(asked.all.empty());
  EXPECT_THAT(asked.all.front().help, HasSubstr("the checkpoint, which is not read"));
}

TEST(MegatronPrograms, WhatTheyTrainThatIsNotSimulatedIsNamed) {
  EXPECT_THAT(refusal_of("torchrun pretrain_retro.py" + kSizes),
              AllOf(HasSubstr("E130"), HasSubstr("(RETRO)"), HasSubstr("pretrain_retro.py")));
  EXPECT_THAT(refusal_of("torchrun pretrain_ict.py" + kSizes), HasSubstr("two encoders"));
  EXPECT_THAT(refusal_of("torchrun pretrain_vision_classify.py" + kSizes),
              HasSubstr("a model of images"));
  EXPECT_THAT(refusal_of("torchrun pretrain_vit.py" + kSizes), HasSubstr("a model of images"));
  EXPECT_THAT(refusal_of("torchrun tasks/vision/main.py --train-data a" + kSizes),
              HasSubstr("a model of images"));
  EXPECT_THAT(refusal_of("torchrun tasks/vision/main.py" + kSizes), HasSubstr("E336"));
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

TEST(MegatronPrograms, T5sStacksMayHaveRanksOfTheirOwn) {
  const std::string t5 = "torchrun pretrain_t5.py --pipeline-model-parallel-size 4 " + kModel +
                         "--encoder-seq-length 512 --decoder-seq-length 128 ";
  const ImportedRun run = run_of(t5 + "--pipeline-model-parallel-split-rank 1");
  EXPECT_EQ(value_of(run, "parallel.layout"), "\"Et*12|t*4|t*4|t*4L\"");
  EXPECT_EQ(unknown(run), "");
  EXPECT_EQ(value_of(run_of(t5), "parallel.layout"), "");
  for (const char* no_rank : {"0", "4", "9000000"})
    EXPECT_THAT(refusal_of(t5 + "--pipeline-model-parallel-split-rank " + no_rank),
                AllOf(HasSubstr("E331"), HasSubstr("must be from 1 to 3")));
  EXPECT_THAT(refusal_of(t5 + "--num-layers 10 --pipeline-model-parallel-split-rank 3"),
              AllOf(HasSubstr("E332"), HasSubstr("10 layers for 3 stages")));
  EXPECT_THAT(notes(run_of("torchrun pretrain_gpt.py --pipeline-model-parallel-size 2 "
                           "--pipeline-model-parallel-split-rank 1" +
                           kSizes)),
              HasSubstr("--pipeline-model-parallel-split-rank 1: not modelled"));
}

TEST(MegatronPrograms, T5sLayersAreCountedTogether) {
  EXPECT_THAT(refusal_of("torchrun pretrain_t5.py" + kSizes + "--num-layers 60000"),
              HasSubstr("at most 100000 layers together"));
  EXPECT_THAT(refusal_of("torchrun pretrain_t5.py" + kSizes + "--num-layers 100001"),
              HasSubstr("must be at most 100000"));
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
  // Other programs do not read it.
  const ImportedRun gpt =
      run_of("torchrun pretrain_gpt.py --decoder-seq-length 128 --train-samples 1000" + kSizes);
  EXPECT_EQ(value_of(gpt, "batch.seq"), "512");
  EXPECT_EQ(value_of(gpt, "job.tokens"), "512000");
  EXPECT_THAT(notes(gpt), HasSubstr("--decoder-seq-length 128: not modelled"));
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
  EXPECT_EQ(
      kind_of_file("#!/bin/bash\npython pretrain.py --num_layers 2 --num_attention_heads 4\n"),
      "megatron-args");
  EXPECT_EQ(
      kind_of_file("#!/bin/bash\nP=\"--num_layers_per_virtual_pipeline_stage 2\"\n. ./a.sh\n"),
      "megatron-args");
  // Others spell the sizes of theirs so, too.
  EXPECT_EQ(kind_of_file("#!/bin/bash\npython run.py --num_layers 12 --hidden_size 8\n"), "");
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
  // Of several the first that its runtime asks for: pieces of sequences, V, groups, zero bubble.
  EXPECT_EQ(kind("--interleave-group-size 3"), "\"1f1b\"");
  EXPECT_EQ(kind("--enable-1f1b-v --num-seq-splits 2"), "seq1f1b");
  EXPECT_EQ(kind("--zero-bubble-v-schedule --num-seq-splits 2"), "seq1f1b");
  EXPECT_EQ(kind("--interleave-group-size 3 --enable-1f1b-v"), "\"1f1b-v\"");
  EXPECT_EQ(kind("--interleave-group-size 3 --enable-zero-bubble "
                 "--zero-bubble-max-pending-backward 8"),
            "zb-1p-auto");
  EXPECT_EQ(kind("--num-layers-per-virtual-pipeline-stage 3 --interleave-group-size 9",
                 "schedule.params"),
            "{interleave_group_size: 4}");
  // How much memory there is, only the run finds out.
  EXPECT_THAT(refusal_of(pipeline + "--enable-zero-bubble"),
              AllOf(HasSubstr("E130"), HasSubstr("--zero-bubble-max-pending-backward auto")));
  EXPECT_THAT(refusal_of(pipeline + "--zero-bubble-v-schedule "
                                    "--zero-bubble-v-schedule-mem-setup most"),
              AllOf(HasSubstr("E331"), HasSubstr("must be zb, half or min")));
}

}  // namespace
}  // namespace stepcast::import_program_test
