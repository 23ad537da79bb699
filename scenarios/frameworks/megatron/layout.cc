// SPDX-License-Identifier: Apache-2.0
// draft_megatron_layout: how Megatron's arguments split the model, the batch and the schedule.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/plan.h"
#include "model/stages.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/parts.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

constexpr int64_t kMostStages = 100'000;

// "Ett|t*3|...|tL": `layers` of each stage.
std::string layout_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size(); ++i) {
    text += i == 0 ? "E" : "|";
    if (layers[i] > 0) text += fmt::format("t*{}", layers[i]);
  }
  return text + 'L';
}

class LayoutDraft {
 public:
  LayoutDraft(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft)
      : a_(a), s_(sizes), draft_(draft) {}

  void write() {
    write_sizes();
    write_stages();
    write_batch();
    write_schedule();
    write_sharding();
  }

 private:
  void size(const char* name, const char* path, int64_t value) {
    if (a_.given(name)) draft_.set(path, value, a_.origin(name));
  }

  void write_sizes() {
    size("tensor_model_parallel_size", "parallel.tp", s_.tp);
    size("context_parallel_size", "parallel.cp", s_.cp);
    if (a_.given("ds_sequence_parallel_size") && !a_.given("context_parallel_size")) {
      size("ds_sequence_parallel_size", "parallel.cp", s_.cp);
      if (s_.cp > 1) draft_.set_text("parallel.cp_comm", "a2a", "DeepSpeed-Ulysses");
    }
    size(a_.given("pipeline_model_parallel_size") ? "pipeline_model_parallel_size"
                                                  : "pipe_parallel_size",
         "parallel.pp", s_.pp);
    if (a_.given("num_experts")) {
      size("expert_model_parallel_size", "parallel.ep", s_.ep);
      if (a_.flag("deepspeed"))
        draft_.set("parallel.etp", s_.etp,
                   a_.origin("enable_expert_tensor_parallelism", "DeepSpeed's default"));
      else if (s_.etp > 1 || a_.given("expert_tensor_parallel_size"))
        draft_.set("parallel.etp", s_.etp,
                   a_.origin("expert_tensor_parallel_size",
                             "Megatron's default: that of the other layers"));
    }
    if (s_.tp > 1)  // sequences are split over tp only
      draft_.set("parallel.sp", a_.flag("sequence_parallel"),
                 a_.origin("sequence_parallel", "Megatron's default"));
    if (a_.flag("use_tp_pp_dp_mapping"))
      draft_.set_text("parallel.order", "tp-cp-pp-dp", a_.origin("use_tp_pp_dp_mapping"));
    if (s_.cp > 1 && a_.given("cp_comm_type")) write_context();
  }

  void write_context() {
    std::vector<std::string> types = a_.words("cp_comm_type");
    std::sort(types.begin(), types.end());
    types.erase(std::unique(types.begin(), types.end()), types.end());
    if (types.size() > 1)
      return a_.refuse("cp_comm_type", "differs from layer to layer, which is not supported yet");
    if (types.empty()) return;
    draft_.set_text("parallel.cp_comm", types.front(), a_.origin("cp_comm_type"));
    const std::vector<std::string> levels = a_.words("hierarchical_context_parallel_sizes");
    if (levels.empty()) return;
    if (const auto inner = python_whole(levels.front()))
      draft_.set("parallel.cp_inner", *inner, a_.origin("hierarchical_context_parallel_sizes"));
  }

  // The stages of the pipeline.  There are three arguments for the chunks of a rank; at most one
  // may be given.
  void write_stages() {
    const char* flags[] = {"num_layers_per_virtual_pipeline_stage",
                           "num_virtual_stages_per_pipeline_rank",
                           "pipeline_model_parallel_layout"};
    const char* first = nullptr;
    for (const char* flag : flags) {
      if (!a_.given(flag)) continue;
      if (first != nullptr)
        return a_.problems().add(
            "E332", fmt::format("'{}' and '{}' exclude each other", a_.why(flag), a_.why(first)),
            a_.mark(flag));
      first = flag;
    }
    if (s_.pp < 2 || s_.layers < 1) return;
    if (!s_.stages.empty()) return write_stages_of_pattern();
    if (a_.given("pipeline_model_parallel_layout")) return write_written_layout();
    if (a_.given("pipeline_model_parallel_split_rank")) {
      if (s_.encodes_and_decodes) return write_split();
      draft_.left_out(a_.why("pipeline_model_parallel_split_rank"));
    }
    Origin why = "";
    if (a_.given("num_layers_per_virtual_pipeline_stage")) {
      const int64_t each = a_.whole("num_layers_per_virtual_pipeline_stage", 1);
      why = a_.origin("num_layers_per_virtual_pipeline_stage");
      if (each < 1 || each > s_.layers) return refuse_chunks(flags[0]);
      s_.vpp = std::max<int64_t>(1, s_.layers / s_.pp / each);
    } else {
      for (const char* name :
           {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"})
        if (a_.given(name)) {
          s_.vpp = a_.whole(name, 1);
          why = a_.origin(name);
          if (s_.vpp < 1 || s_.vpp > kMostStages / s_.pp) return refuse_chunks(name);
        }
    }
    const std::optional<std::vector<int64_t>> uneven = uneven_stages();
    if (uneven) {
      draft_.set_text("parallel.layout", layout_text(*uneven), uneven_why_);
    } else if (deals_embeddings()) {
      // DeepSpeed counts embedding and head as layers: 70 and two on 12 ranks are 5, 6, ..., 6, 5.
      std::vector<int64_t> dealt(static_cast<size_t>(s_.pp), (s_.layers + 2) / s_.pp);
      --dealt.front();
      --dealt.back();
      draft_.set_text("parallel.layout", layout_text(dealt), a_.origin("pp_partition_method"));
    } else if (s_.vpp > 1) {
      draft_.set("parallel.vpp", s_.vpp, why);
    }
  }

  // Megatron-DeepSpeed's --pp-partition-method 'type:transformer|embedding'.
  bool deals_embeddings() const {
    return s_.vpp == 1 && s_.pp > 2 && s_.layers % s_.pp != 0 && (s_.layers + 2) % s_.pp == 0 &&
           a_.word("pp_partition_method").find("embedding") != std::string::npos;
  }

  void refuse_chunks(const char* name) {
    s_.vpp = 1;
    a_.refuse(name,
              fmt::format("does not go with {} layers on {} pipeline ranks", s_.layers, s_.pp));
  }

  void write_stages_of_pattern() {
    const auto stages = static_cast<int64_t>(s_.stages.size());
    if (stages % s_.pp != 0)
      return a_.refuse(
          "hybrid_layer_pattern",
          fmt::format("has {} stages, which {} ranks do not share evenly", stages, s_.pp));
    s_.vpp = stages / s_.pp;
    draft_.set_text("parallel.layout", layout_text(s_.stages), a_.origin("hybrid_layer_pattern"));
  }

  // T5: the encoder on the ranks before the one that is named, the decoder on the others
  // (get_num_layers() of megatron/model/transformer.py).
  void write_split() {
    const char* name = "pipeline_model_parallel_split_rank";
    const int64_t first = a_.whole(name, 1), rest = s_.pp - first;
    if (first < 1 || rest < 1)
      return a_.refuse(name, fmt::format("must be from 1 to {}", s_.pp - 1));
    uneven_why_ = a_.origin(name);
    const int64_t decoder = s_.layers - s_.encoder_layers;
    if (s_.encoder_layers % first != 0)
      return static_cast<void>(refuse_split(s_.encoder_layers, first));
    if (decoder % rest != 0) return static_cast<void>(refuse_split(decoder, rest));
    std::vector<int64_t> layers(static_cast<size_t>(first), s_.encoder_layers / first);
    layers.insert(layers.end(), static_cast<size_t>(rest), decoder / rest);
    draft_.set_text("parallel.layout", layout_text(layers), uneven_why_);
  }

  void write_written_layout() {
    std::string layout = a_.word("pipeline_model_parallel_layout");
    // Files that a shell reads once more have backslashes before '|', '(' and ')'.
    std::erase(layout, '\\');
    draft_.set_text("parallel.layout", layout, a_.origin("pipeline_model_parallel_layout"));
    try {
      // parse_stage_layout() counts the stages; it need not understand the letter m.
      std::string plain = layout;
      std::erase(plain, 'm');
      const auto stages = static_cast<int64_t>(parse_stage_layout(plain).size());
      s_.vpp = std::max<int64_t>(1, stages / s_.pp);
    } catch (const InputError& e) {
      a_.refuse("pipeline_model_parallel_layout",
                fmt::format("cannot be read: {}", e.diagnostics.front().message));
    }
  }

  // Layers of each stage, the first chunks of all ranks first; nothing if all stages have as many.
  std::optional<std::vector<int64_t>> uneven_stages() {
    const bool embedding = a_.flag("account_for_embedding_in_pipeline_split");
    const bool loss = a_.flag("account_for_loss_in_pipeline_split");
    const bool first = a_.given("decoder_first_pipeline_num_layers");
    const bool last = a_.given("decoder_last_pipeline_num_layers");
    const int64_t chunks = s_.pp * s_.vpp;
    if (embedding || loss) {
      const int64_t all = s_.layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
      uneven_why_ = a_.origin(embedding ? "account_for_embedding_in_pipeline_split"
                                        : "account_for_loss_in_pipeline_split");
      if (all % chunks != 0 || all / chunks < 1) return refuse_split(all, chunks);
      std::vector<int64_t> layers(static_cast<size_t>(chunks), all / chunks);
      if (embedding) --layers.front();
      if (loss) --layers.back();
      return layers;
    }
    if (!first && !last) return {};
    const int64_t of_first = a_.whole("decoder_first_pipeline_num_layers", 0);
    const int64_t of_last = a_.whole("decoder_last_pipeline_num_layers", 0);
    uneven_why_ =
        a_.origin(first ? "decoder_first_pipeline_num_layers" : "decoder_last_pipeline_num_layers");
    const int64_t ranks = s_.pp - (first ? 1 : 0) - (last ? 1 : 0);
    const int64_t rest = s_.layers - of_first - of_last;
    if (rest < 0 || of_first % s_.vpp != 0 || of_last % s_.vpp != 0 ||
        (ranks == 0 ? rest != 0 : rest % (ranks * s_.vpp) != 0))
      return refuse_split(rest, ranks * s_.vpp);
    std::vector<int64_t> layers;
    for (int64_t chunk = 0; chunk < s_.vpp; ++chunk)
      for (int64_t rank = 0; rank < s_.pp; ++rank)
        layers.push_back((first && rank == 0)          ? of_first / s_.vpp
                         : (last && rank == s_.pp - 1) ? of_last / s_.vpp
                                                       : rest / (ranks * s_.vpp));
    return layers;
  }

  std::optional<std::vector<int64_t>> refuse_split(int64_t layers, int64_t stages) {
    a_.problems().add("E332",
                      fmt::format("'{}' leaves {} layers for {} stages, which does not divide",
                                  uneven_why_.text, layers, stages),
                      a_.mark("pipeline_model_parallel_size"));
    return {};
  }

  void write_batch() {
    const int64_t micro = a_.whole("micro_batch_size", 1);
    if (a_.given("micro_batch_size"))
      draft_.set("batch.micro", micro, a_.origin("micro_batch_size"));
    else
      draft_.assume("batch.micro", "1", "the file does not say --micro-batch-size");
    if (a_.given("global_batch_size"))
      draft_.set("batch.global", a_.whole("global_batch_size", 1), a_.origin("global_batch_size"));
    else if (a_.given("step_batch_size_schedule"))
      write_last_batch();
    else if (const int64_t gas = a_.whole("gas", 1);
             gas > 1 && gas < 1'000'000 && micro >= 1 && micro < 1'000'000)
      draft_.derive(
          "batch.global", {DerivedBatch::Rule::microbatches, gas, s_.dp},
          Origin(fmt::format("micro batch x {} x replicas", a_.why("gas")), a_.mark("gas")));
    else if (micro >= 1 && micro < 1'000'000)
      draft_.derive("batch.global", {DerivedBatch::Rule::microbatches, 1, s_.dp},
                    "Megatron's default: one microbatch a replica");
    // With an encoder of text or images, --seq-length is that of the encoder; other programs do not
    // read the decoder's.
    const bool has_encoder = s_.encodes_and_decodes || s_.sees_images;
    const bool decodes = has_encoder && a_.given("decoder_seq_length");
    if (!has_encoder && a_.given("decoder_seq_length"))
      draft_.left_out(a_.why("decoder_seq_length"));
    if (decodes && s_.encodes_and_decodes && a_.given("seq_length"))
      draft_.set("batch.encoder_seq", a_.whole("seq_length", 1), a_.origin("seq_length"));
    if (decodes)
      draft_.set("batch.seq", a_.whole("decoder_seq_length", 1), a_.origin("decoder_seq_length"));
    else if (a_.given("seq_length"))
      draft_.set("batch.seq", a_.whole("seq_length", 1), a_.origin("seq_length"));
    else if (a_.given("max_position_embeddings"))
      draft_.assume("batch.seq", fmt::format("{}", a_.whole("max_position_embeddings", 1)),
                    "the file does not say --seq-length");
    else if (!s_.in.states_any_of("batch.seq"))
      a_.problems().add("E332", "the file does not say --seq-length", {}, 1, {},
                        "-s batch.seq=N states it");
    for (const char* name : {"rampup_batch_size", "step_batch_size_schedule"})
      if (a_.given(name))
        draft_.note(fmt::format("{}: the forecast is of the full batch", a_.why(name)));
  }

  // "0:384 200B:768": Megatron takes it in place of the global batch; the last is the full one.
  void write_last_batch() {
    const std::string all = a_.word("step_batch_size_schedule");
    const size_t last = all.find_last_not_of(' ');
    const std::string_view entry = std::string_view(all).substr(0, last + 1);
    const std::optional<int64_t> n = python_whole(entry.substr(entry.rfind(':') + 1));
    if (!n || *n < 1)
      return a_.refuse("step_batch_size_schedule", "must be of the form '0:384 200B:768'");
    draft_.set("batch.global", *n, a_.origin("step_batch_size_schedule"));
  }

  void write_schedule() {
    if (s_.pp < 2) return;
    if (a_.flag("enable_zbh1_pipeline"))
      return draft_.set_text("schedule.kind", "zb-h1", a_.origin("enable_zbh1_pipeline"));
    if (writes_zero_bubble()) return;
    draft_.set_text("schedule.kind", s_.vpp > 1 ? "interleaved" : "1f1b",
                    s_.vpp > 1 ? "several chunks a rank" : "Megatron's default");
    if (s_.vpp < 2) return;
    if (a_.given("microbatch_group_size_per_virtual_pipeline_stage"))
      draft_.set("schedule.group",
                 a_.whole("microbatch_group_size_per_virtual_pipeline_stage", s_.pp),
                 a_.origin("microbatch_group_size_per_virtual_pipeline_stage"));
    // Megatron overlaps transfers only in interleaved schedules.
    const bool flush = a_.flag("overlap_p2p_comm_warmup_flush");
    if (flush)
      draft_.set_text("schedule.p2p", "megatron-overlap-flush",
                      a_.origin("overlap_p2p_comm_warmup_flush"));
    else
      draft_.set("overlap.pp_p2p", a_.flag("overlap_p2p_comm", true),
                 a_.origin("overlap_p2p_comm", "Megatron's default"));
  }

  // Schedules of sail-sg/zero-bubble-pipeline-parallelism, in its order
  // (megatron/core/pipeline_parallel/zerobubble/runtime.py): of several that are asked for the
  // first runs.
  bool writes_zero_bubble() {
    const auto snake = [&](const char* kind, const char* name) {
      draft_.set_text("schedule.kind", kind, a_.origin(name));
      draft_.set("parallel.vpp", int64_t{2}, a_.origin(name));
      return true;
    };
    if (const int64_t pieces = a_.whole("num_seq_splits", 1); pieces > 1) {
      draft_.set_text("schedule.kind", "seq1f1b", a_.origin("num_seq_splits"));
      draft_.set("schedule.params", fmt::format("{{seq_splits: {}}}", pieces),
                 a_.origin("num_seq_splits"));
      return true;
    }
    if (a_.flag("enable_1f1b_v")) return snake("1f1b-v", "enable_1f1b_v");
    const bool v_schedule = a_.flag("zero_bubble_v_schedule");
    if (!v_schedule && !a_.flag("enable_zero_bubble")) {
      const int64_t group = a_.whole("interleave_group_size", 0);
      if (group < 1 || s_.vpp < 2) return false;
      draft_.set_text("schedule.kind", "group-interleaved", a_.origin("interleave_group_size"));
      // It takes a larger group to be of all stages (scheduler/group_interleaved_1f1b.py).
      draft_.set("schedule.params",
                 fmt::format("{{interleave_group_size: {}}}", std::min(group, s_.pp)),
                 a_.origin("interleave_group_size"));
      return true;
    }
    if (v_schedule) {
      const char* name = "zero_bubble_v_schedule_mem_setup";
      const std::string memory = a_.word(name, "zb");
      if (memory != "zb" && memory != "half" && memory != "min")
        a_.refuse(name, "must be zb, half or min");
      return snake(memory == "half"  ? "v-half"
                   : memory == "min" ? "v-min"
                                     : "zb-v-auto",
                   a_.given(name) ? name : "zero_bubble_v_schedule");
    }
    const char* limit = "zero_bubble_max_pending_backward";
    if (a_.word(limit, "auto") == "auto") {
      a_.problems().add("E130",
                        "not supported yet: a schedule within the memory that the run finds "
                        "(--zero-bubble-max-pending-backward auto)",
                        a_.mark("enable_zero_bubble"), 1, {},
                        "state how many backwards may be pending: as many as pipeline ranks are "
                        "zb-1p, twice as many zb-2p");
      return true;
    }
    draft_.set_text("schedule.kind", "zb-1p-auto", a_.origin("enable_zero_bubble"));
    if (const int64_t pending = a_.whole(limit, s_.pp); pending != s_.pp)
      draft_.set("schedule.params", fmt::format("{{mem_limit_in_activations: {}}}", pending),
                 a_.origin(limit));
    return true;
  }

  // PyTorch's FSDP2 and Megatron-FSDP (megatron/core/distributed/fsdp/src/megatron_fsdp/
  // megatron_fsdp.py) reduce gradients beside the backward without --overlap-grad-reduce, too.
  void write_reduction(const Origin& why) {
    if (!a_.flag("overlap_grad_reduce")) draft_.set("overlap.dp_grad", true, why);
  }

  void write_sharding() {
    std::string zero = a_.flag("use_distributed_optimizer") ? "1" : "0";
    Origin why = a_.origin("use_distributed_optimizer", "");
    if (a_.flag("use_torch_fsdp2")) {
      zero = "3";
      why = a_.origin("use_torch_fsdp2");
      write_reduction(why);
      if (!a_.flag("torch_fsdp2_reshard_after_forward", true))
        draft_.set("parallel.reshard_after_forward", false,
                   a_.origin("torch_fsdp2_reshard_after_forward"));
    } else if (a_.flag("use_megatron_fsdp")) {
      const std::string strategy = a_.word("data_parallel_sharding_strategy", "optim_grads_params");
      const std::string_view names[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
      const auto* found = std::find(std::begin(names), std::end(names), strategy);
      if (found == std::end(names))
        return a_.refuse("data_parallel_sharding_strategy",
                         "must be no_shard, optim, optim_grads or optim_grads_params");
      zero = fmt::format("{}", found - std::begin(names));
      why = a_.origin("use_megatron_fsdp");
      if (zero == "3") draft_.set_text("parallel.fsdp", "megatron", why);
      if (zero == "2" || zero == "3") write_reduction(why);
      if (a_.given("data_parallel_sharding_strategy"))
        why.text += fmt::format(", {}", a_.why("data_parallel_sharding_strategy"));
    }
    if (a_.flag("deepspeed") && !a_.given("zero_stage"))
      draft_.note_about("parallel.zero",
                        "what ZeRO does is in DeepSpeed's file, which is not read; -s "
                        "parallel.zero=N states it");
    if (a_.flag("deepspeed") && a_.given("zero_stage")) {
      zero = fmt::format("{}", a_.whole("zero_stage", 0));
      why = a_.origin("zero_stage");
      if (zero == "3") draft_.set_text("parallel.fsdp", "deepspeed", why);
      // DeepSpeed's pipeline trains in bf16 with a BF16_Optimizer, which splits masters and moments
      // over the replicas and holds all gradients (deepspeed/runtime/engine.py,
      // _do_optimizer_sanity_check(), and bf16_optimizer.py).  Megatron-DeepSpeed builds a pipeline
      // of one stage, too, unless it is told not to.
      if (zero == "0" && a_.flag("bf16") && a_.flag("pipeline_parallel", true)) {
        zero = "1";
        why.text += ", --bf16: BF16_Optimizer splits its states";
      }
    }
    if (!why.text.empty()) draft_.set("parallel.zero", zero, why);
    const int64_t instances = a_.whole("num_distributed_optimizer_instances", 1);
    if (instances > 1)
      draft_.set("parallel.dp_replicate", instances,
                 a_.origin("num_distributed_optimizer_instances"));
  }

  const ArgumentReader& a_;
  MegatronSizes& s_;
  ScenarioDraft& draft_;
  Origin uneven_why_ = "";
};

}  // namespace

void draft_megatron_layout(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft) {
  LayoutDraft(a, sizes, draft).write();
}

}  // namespace stepcast
