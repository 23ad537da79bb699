// SPDX-License-Identifier: Apache-2.0
// draft_megatron: what Megatron's arguments become.  Each part of a scenario is in a file of its
// own (parts.h); here are whose software it is and how many GPUs ran.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/hybrid_pattern.h"
#include "scenarios/frameworks/megatron/import.h"
#include "scenarios/frameworks/megatron/parts.h"

namespace stepcast {

// v3.0 names them --recompute-* and refuses the old ones (megatron/arguments.py).  A list of all
// arguments has those of its version, set or not, --DDP-impl among them; NeMo's files have some of
// the same names, unset, and not that one.
std::string_view sign_of_version_2(const ArgumentReader& a) {
  const bool list = a.named("DDP_impl");
  for (const std::string_view name : {"checkpoint_activations", "activations_checkpoint_method",
                                      "distribute_checkpointed_activations"})
    if (list ? a.named(name) : a.given(name)) return name;
  return {};
}

namespace {

// T5 says it by the program; where that is of no known name by the number of its decoder's layers,
// or by the words that stand for gaps in a text (--vocab-extra-ids), which only T5 has beside the
// length of what is decoded.
bool encodes_and_decodes(const ArgumentReader& a, MegatronProgram::Trains trains) {
  using Trains = MegatronProgram::Trains;
  if (trains != Trains::unknown) return trains == Trains::encoder_decoder;
  return a.given("decoder_num_layers") ||
         (a.whole("vocab_extra_ids", 0) > 0 && a.given("decoder_seq_length"));
}

// Whose software a file is of, and the argument that says so.
struct SoftwareOfFile {
  std::string_view profile = "megatron-core";
  std::string_view sign{};   // empty: nothing speaks for another
  std::string_view until{};  // when Megatron-LM or its fork dropped the argument
  bool old() const { return !sign.empty(); }
};

// Signs are arguments that later versions do not have: --checkpoint-activations and what went with
// it until May 2022 (v3.0), --DDP-impl until August 2023 (megatron/arguments.py).  Of files with
// the latter those that name what came with December 2022 (--transformer-impl, flash attention), or
// in 2023, are of 2023; those that name --recompute-* or --sequence-parallel of 2022.
SoftwareOfFile software_of(const ArgumentReader& a) {
  if (a.flag("deepspeed")) return {"megatron-deepspeed-2022", "deepspeed", ""};
  if (const std::string_view sign = sign_of_version_2(a); !sign.empty())
    return {"megatron-lm-2021", sign, "v3.0, in May 2022"};
  if (!a.named("DDP_impl") || a.word("transformer_impl") == "transformer_engine") return {};
  const auto names_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(names.begin(), names.end(),
                       [&](std::string_view name) { return a.named(name); });
  };
  const std::string_view until = "August 2023";
  if (names_one_of({"transformer_impl", "use_flash_attn", "swiglu", "group_query_attention",
                    "use_rotary_position_embeddings"}))
    return {"megatron-lm-2023", "DDP_impl", until};
  if (names_one_of({"recompute_granularity", "recompute_activations", "sequence_parallel"}))
    return {"megatron-lm-2022", "DDP_impl", until};
  return {"megatron-lm-2021", "DDP_impl", until};
}

// How many GPUs ran, and which argument says so.
struct JobGpus {
  int64_t gpus = 0;
  Origin why = "";
  bool assumed = false;
  std::optional<int64_t> each{};  // of a node
};

JobGpus job_gpus(const ArgumentReader& a, const MegatronSizes& s) {
  const int64_t one = s.tp * s.cp * s.pp;
  if (a.given("world_size")) return {a.whole("world_size", one), a.origin("world_size")};
  std::string started;
  if (a.given("nnodes") || a.given("nproc_per_node")) {
    const int64_t each = a.whole("nproc_per_node", 8), nodes = a.whole("nnodes", 1);
    const std::string why = fmt::format("{}, {}", a.why("nnodes"), a.why("nproc_per_node"));
    const int64_t gpus = nodes > kMostGpus || each > kMostGpus ? kMostGpus + 1 : nodes * each;
    // One node stands in many published scripts until somebody writes how many he has.
    const bool too_few = gpus < one || gpus / one * s.tp * s.cp % (s.ep * s.etp) != 0;
    if (!too_few || nodes != 1 || gpus < 1)
      return {gpus,
              {why, a.mark(a.given("nnodes") ? "nnodes" : "nproc_per_node")},
              false,
              a.given("nproc_per_node") && each > 0 ? std::optional(each) : std::nullopt};
    started = fmt::format("; the one node that the script names has too few ({})", why);
  }
  if (a.given("data_parallel_size"))
    return {one * a.whole("data_parallel_size", 1), a.origin("data_parallel_size")};
  // The fewest replicas with a place for all experts: tp * cp * dp is a multiple of etp * ep.
  const int64_t instances = std::max<int64_t>(1, a.whole("num_distributed_optimizer_instances", 1));
  int64_t dp = instances;
  while (dp < s.ep * s.etp && s.tp * s.cp * dp % (s.ep * s.etp) != 0) dp += instances;
  return {one * dp, "the fewest that the sizes allow (tp, cp, pp, ep)" + started, true};
}

bool sensible(const ArgumentReader& a, const MegatronSizes& s) {
  int64_t product = 1;
  for (const auto& [name, n] :
       {std::pair{"tensor_model_parallel_size", s.tp}, std::pair{"context_parallel_size", s.cp},
        std::pair{"pipeline_model_parallel_size", s.pp}}) {
    if (n < 1 || n > kMostGpus || product > kMostGpus / n) {
      a.problems().add("E332", "tp, cp and pp do not make a job of a sensible size", a.mark(name),
                       1, {}, "each is at least 1, their product at most 10,000,000 GPUs");
      return false;
    }
    product *= n;
  }
  if (s.ep >= 1 && s.etp >= 1 && s.ep <= kMostGpus && s.etp <= kMostGpus / s.ep) return true;
  a.problems().add("E332", "ep and etp do not make a job of a sensible size",
                   a.mark("expert_model_parallel_size"), 1, {},
                   "each is at least 1, their product at most 10,000,000 GPUs");
  return false;
}

// Without the number of experts all arguments about them would be dropped silently.  So one that
// somebody wrote is refused; the defaults that Megatron prints for a dense model are not.
bool refuse_experts_without_number(const ArgumentReader& a) {
  if (a.given("num_experts")) return false;
  std::string_view dropped;
  if (python_whole(a.word("expert_model_parallel_size", "1")).value_or(1) > 1)
    dropped = "expert_model_parallel_size";
  for (const CostArgument& row : megatron_arguments()) {
    const bool of_experts = row.name.starts_with("moe_") && row.as.kind != As::Kind::left_out;
    if (dropped.empty() && of_experts && a.given(row.name) && a.why(row.name).starts_with("--"))
      dropped = row.name;
  }
  if (dropped.empty()) return false;
  std::string help = "state it; of a dense model leave the arguments of experts out";
  for (const UnknownArgument& u : a.unknown())
    if (argument_name(u.near) == "num_experts")
      help = fmt::format("did you mean {} by '{}' in line {}?", u.near, u.written, u.mark.line);
  a.problems().add(
      "E332", fmt::format("'{}' needs --num-experts, which the file does not say", a.why(dropped)),
      a.mark(dropped), 1, {}, std::move(help));
  return true;
}

void draft_software(const ArgumentReader& a, const SoftwareOfFile& of, ScenarioDraft& draft) {
  if (!of.old()) return draft.set_text("software", of.profile, "");
  const std::string sign = a.given(of.sign) ? a.why(of.sign) : std::string(of.sign);
  draft.assume("software", std::string(of.profile),
               of.until.empty() ? fmt::format("{} is of Megatron-DeepSpeed", sign)
                                : fmt::format("Megatron-LM had {} until {}", sign, of.until));
}

}  // namespace

void draft_megatron(const ArgumentReader& a, const CalledProgram& program, const ImportSources& in,
                    const ImportCluster& cluster, ScenarioDraft& draft, bool with_model) {
  MegatronSizes sizes{in};
  sizes.program = program;
  sizes.encodes_and_decodes = encodes_and_decodes(a, program.does.trains);
  sizes.sees_images = a.given("img_h") || a.given("language_model_type");
  sizes.tp = a.whole("tensor_model_parallel_size", 1);
  sizes.cp = a.whole("context_parallel_size", a.whole("ds_sequence_parallel_size", 1));
  sizes.pp = a.whole("pipeline_model_parallel_size", a.whole("pipe_parallel_size", 1));
  if (!a.given("pipeline_model_parallel_size") && sizes.pp == 0) sizes.pp = 1;
  const bool experts = a.whole("num_experts", 0) > 1;
  sizes.ep = experts ? a.whole("expert_model_parallel_size", 1) : 1;
  const bool split = !a.flag("deepspeed") || a.flag("enable_expert_tensor_parallelism");
  sizes.etp = experts ? a.whole("expert_tensor_parallel_size", split ? sizes.tp : 1) : 1;
  if (with_model && refuse_megatron_training(a, sizes)) return;
  if (refuse_experts_without_number(a) || !sensible(a, sizes)) return;
  const JobGpus job = job_gpus(a, sizes);
  if (job.gpus > kMostGpus)
    return a.problems().add("E332", "the job is of no sensible size", job.why.mark, 1, {},
                            "a job has at most 10,000,000 GPUs");
  sizes.dp = std::max<int64_t>(1, job.gpus / (sizes.tp * sizes.cp * sizes.pp));

  const SoftwareOfFile software = software_of(a);
  draft_software(a, software, draft);
  if (program.does.trains == MegatronProgram::Trains::decoder && !program.does.what.empty())
    draft.left_out(fmt::format("{}: {}", program.called.text, program.does.what));
  if (with_model)
    draft_megatron_model(a, sizes, draft);
  else
    sizes.layers = std::clamp<int64_t>(a.whole("num_layers", 0), 0, kMostLayers);
  ImportCluster of_its_time = cluster;
  if (cluster.assumed && software.old()) of_its_time.preset = "dgx-a100-80g";
  // GPUs before Blackwell have no such number formats.
  if (cluster.assumed && ((a.given("fp8") && a.word("fp8_recipe") == "mxfp8") || a.given("fp4")))
    of_its_time.preset = "dgx-b200";
  draft_cluster(of_its_time, std::max<int64_t>(1, job.gpus), job.why, draft, job.each);
  if (job.assumed)
    draft.note_about("cluster.nodes",
                     fmt::format("{} {} assumed, {}", job.gpus,
                                 job.gpus == 1 ? "GPU is" : "GPUs are", job.why.text));
  draft_megatron_layout(a, sizes, draft);
  draft_megatron_run(a, sizes, draft);
  a.note_left_out(draft);
}

}  // namespace stepcast
