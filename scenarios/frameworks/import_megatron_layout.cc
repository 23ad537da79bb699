// SPDX-License-Identifier: Apache-2.0
// draft_megatron_layout: parallel, batch and schedule.
#include <algorithm>

#include "model/plan.h"
#include "scenarios/frameworks/import_megatron_parts.h"
#include "scenarios/frameworks/python_list.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

constexpr int64_t kMostStages = 100'000;

// "Ett|t*3|...|tL": `layers` of each stage.
std::string layout_text(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size(); ++i) {
    text += i == 0 ? "E" : "|";
    if (layers[i] > 0) text += "t*" + std::to_string(layers[i]);
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
    if (a_.given(name)) draft_.set(path, value, a_.why(name));
  }

  void write_sizes() {
    size("tensor_model_parallel_size", "parallel.tp", s_.tp);
    size("context_parallel_size", "parallel.cp", s_.cp);
    size("pipeline_model_parallel_size", "parallel.pp", s_.pp);
    if (a_.given("num_experts")) {
      size("expert_model_parallel_size", "parallel.ep", s_.ep);
      if (s_.etp > 1 || a_.given("expert_tensor_parallel_size"))
        draft_.set("parallel.etp", s_.etp,
                   a_.given("expert_tensor_parallel_size")
                       ? a_.why("expert_tensor_parallel_size")
                       : "Megatron's default: that of the other layers");
    }
    if (s_.tp > 1)  // without it nothing is split
      draft_.set(
          "parallel.sp", a_.flag("sequence_parallel"),
          a_.given("sequence_parallel") ? a_.why("sequence_parallel") : "Megatron's default");
    if (a_.flag("use_tp_pp_dp_mapping"))
      draft_.set_text("parallel.order", "tp-cp-pp-dp", a_.why("use_tp_pp_dp_mapping"));
    if (s_.cp > 1 && a_.given("cp_comm_type")) write_context();
  }

  void write_context() {
    std::vector<std::string> types = a_.words("cp_comm_type");
    std::sort(types.begin(), types.end());
    types.erase(std::unique(types.begin(), types.end()), types.end());
    if (types.size() > 1)
      return a_.refuse("cp_comm_type", "differs from layer to layer, which is not supported yet");
    if (types.empty()) return;
    draft_.set_text("parallel.cp_comm", types.front(), a_.why("cp_comm_type"));
    const std::vector<std::string> levels = a_.words("hierarchical_context_parallel_sizes");
    if (levels.empty()) return;
    if (const auto inner = python_whole(levels.front()))
      draft_.set("parallel.cp_inner", *inner, a_.why("hierarchical_context_parallel_sizes"));
  }

  // The stages of the pipeline: at most one of three ways to say how many chunks a rank has.
  void write_stages() {
    const char* flags[] = {"num_layers_per_virtual_pipeline_stage",
                           "num_virtual_stages_per_pipeline_rank",
                           "pipeline_model_parallel_layout"};
    const char* first = nullptr;
    for (const char* flag : flags) {
      if (!a_.given(flag)) continue;
      if (first != nullptr)
        return a_.problems().add(
            "E332", '\'' + a_.why(flag) + "' and '" + a_.why(first) + "' exclude each other",
            a_.mark(flag));
      first = flag;
    }
    if (s_.pp < 2 || s_.layers < 1) return;
    if (a_.given("pipeline_model_parallel_layout")) return write_written_layout();
    std::string why;
    if (a_.given("num_layers_per_virtual_pipeline_stage")) {
      const int64_t each = a_.whole("num_layers_per_virtual_pipeline_stage", 1);
      why = a_.why("num_layers_per_virtual_pipeline_stage");
      if (each < 1 || each > s_.layers) return refuse_chunks(flags[0]);
      s_.vpp = std::max<int64_t>(1, s_.layers / s_.pp / each);
    } else {
      for (const char* name :
           {"num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size"})
        if (a_.given(name)) {
          s_.vpp = a_.whole(name, 1);
          why = a_.why(name);
          if (s_.vpp < 1 || s_.vpp > kMostStages / s_.pp) return refuse_chunks(name);
        }
    }
    const std::optional<std::vector<int64_t>> uneven = uneven_stages();
    if (uneven) {
      draft_.set_text("parallel.layout", layout_text(*uneven), uneven_why_);
    } else if (s_.vpp > 1) {
      draft_.set("parallel.vpp", s_.vpp, why);
    }
  }

  void refuse_chunks(const char* name) {
    s_.vpp = 1;
    a_.refuse(name, "does not go with " + std::to_string(s_.layers) + " layers on " +
                        std::to_string(s_.pp) + " pipeline ranks");
  }

  void write_written_layout() {
    const std::string layout = a_.word("pipeline_model_parallel_layout");
    draft_.set_text("parallel.layout", layout, a_.why("pipeline_model_parallel_layout"));
    try {
      // The letter m needs no understanding to count the stages.
      std::string plain = layout;
      std::erase(plain, 'm');
      const auto stages = static_cast<int64_t>(parse_layout(plain).size());
      s_.vpp = std::max<int64_t>(1, stages / s_.pp);
    } catch (const InputError& e) {
      a_.refuse("pipeline_model_parallel_layout",
                "cannot be read: " + e.diagnostics.front().message);
    }
  }

  // Layers of each stage, the ranks' first chunks first; nothing if all have as many.
  std::optional<std::vector<int64_t>> uneven_stages() {
    const bool embedding = a_.flag("account_for_embedding_in_pipeline_split");
    const bool loss = a_.flag("account_for_loss_in_pipeline_split");
    const bool first = a_.given("decoder_first_pipeline_num_layers");
    const bool last = a_.given("decoder_last_pipeline_num_layers");
    const int64_t chunks = s_.pp * s_.vpp;
    if (embedding || loss) {
      const int64_t all = s_.layers + (embedding ? 1 : 0) + (loss ? 1 : 0);
      uneven_why_ = a_.why(embedding ? "account_for_embedding_in_pipeline_split"
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
        a_.why(first ? "decoder_first_pipeline_num_layers" : "decoder_last_pipeline_num_layers");
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
                      '\'' + uneven_why_ + "' leaves " + std::to_string(layers) + " layers for " +
                          std::to_string(stages) + " stages, which does not divide",
                      a_.mark("pipeline_model_parallel_size"));
    return {};
  }

  void write_batch() {
    const int64_t micro = a_.whole("micro_batch_size", 1);
    if (a_.given("micro_batch_size"))
      draft_.set("batch.micro", micro, a_.why("micro_batch_size"));
    else
      draft_.assume("batch.micro", "1", "the file does not say --micro-batch-size");
    if (a_.given("global_batch_size"))
      draft_.set("batch.global", a_.whole("global_batch_size", 1), a_.why("global_batch_size"));
    else if (micro >= 1 && micro < 1'000'000)
      draft_.set("batch.global", micro * s_.dp, "Megatron's default: one microbatch a replica");
    // With an encoder and a decoder --seq-length is the encoder's.
    const bool decodes = a_.given("decoder_num_layers") && a_.given("decoder_seq_length");
    if (decodes && a_.given("seq_length"))
      draft_.set("batch.encoder_seq", a_.whole("seq_length", 1), a_.why("seq_length"));
    if (decodes)
      draft_.set("batch.seq", a_.whole("decoder_seq_length", 1), a_.why("decoder_seq_length"));
    else if (a_.given("seq_length"))
      draft_.set("batch.seq", a_.whole("seq_length", 1), a_.why("seq_length"));
    else if (a_.given("max_position_embeddings"))
      draft_.assume("batch.seq", std::to_string(a_.whole("max_position_embeddings", 1)),
                    "the file does not say --seq-length");
    else
      a_.problems().add("E332", "the file does not say --seq-length", {});
    for (const char* name : {"rampup_batch_size", "step_batch_size_schedule"})
      if (a_.given(name)) draft_.note(a_.why(name) + ": the forecast is of the full batch");
  }

  void write_schedule() {
    if (s_.pp < 2) return;
    draft_.set_text("schedule.kind", s_.vpp > 1 ? "interleaved" : "1f1b",
                    s_.vpp > 1 ? "several chunks a rank" : "Megatron's default");
    if (s_.vpp < 2) return;
    if (a_.given("microbatch_group_size_per_virtual_pipeline_stage"))
      draft_.set("schedule.group",
                 a_.whole("microbatch_group_size_per_virtual_pipeline_stage", s_.pp),
                 a_.why("microbatch_group_size_per_virtual_pipeline_stage"));
    // Megatron overlaps transfers of interleaved schedules alone.
    const bool flush = a_.flag("overlap_p2p_comm_warmup_flush");
    if (flush)
      draft_.set_text("schedule.p2p", "megatron-overlap-flush",
                      a_.why("overlap_p2p_comm_warmup_flush"));
    else
      draft_.set("overlap.pp_p2p", a_.flag("overlap_p2p_comm", true),
                 a_.given("overlap_p2p_comm") ? a_.why("overlap_p2p_comm") : "Megatron's default");
  }

  void write_sharding() {
    std::string zero = a_.flag("use_distributed_optimizer") ? "1" : "0";
    std::string why =
        a_.given("use_distributed_optimizer") ? a_.why("use_distributed_optimizer") : "";
    if (a_.flag("use_torch_fsdp2")) {
      zero = "3";
      why = a_.why("use_torch_fsdp2");
      if (!a_.flag("torch_fsdp2_reshard_after_forward", true))
        draft_.set("parallel.reshard_after_forward", false,
                   a_.why("torch_fsdp2_reshard_after_forward"));
    } else if (a_.flag("use_megatron_fsdp")) {
      const std::string strategy = a_.word("data_parallel_sharding_strategy", "optim_grads_params");
      const std::string_view names[] = {"no_shard", "optim", "optim_grads", "optim_grads_params"};
      const auto* found = std::find(std::begin(names), std::end(names), strategy);
      if (found == std::end(names))
        return a_.refuse("data_parallel_sharding_strategy",
                         "must be no_shard, optim, optim_grads or optim_grads_params");
      zero = std::to_string(found - std::begin(names));
      why = a_.why("use_megatron_fsdp");
      if (zero == "3") draft_.set_text("parallel.fsdp", "megatron", why);
      if (a_.given("data_parallel_sharding_strategy"))
        why += ", " + a_.why("data_parallel_sharding_strategy");
    }
    if (!why.empty()) draft_.set("parallel.zero", zero, why);
    const int64_t instances = a_.whole("num_distributed_optimizer_instances", 1);
    if (instances > 1)
      draft_.set("parallel.dp_replicate", instances, a_.why("num_distributed_optimizer_instances"));
  }

  const ArgumentReader& a_;
  MegatronSizes& s_;
  ScenarioDraft& draft_;
  std::string uneven_why_;
};

}  // namespace

void draft_megatron_layout(const ArgumentReader& a, MegatronSizes& sizes, ScenarioDraft& draft) {
  LayoutDraft(a, sizes, draft).write();
}

}  // namespace stepcast
