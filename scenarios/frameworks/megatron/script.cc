// SPDX-License-Identifier: Apache-2.0
// Which command of a script trains, and what of its arguments the script leaves open.
#include "scenarios/frameworks/megatron/script.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "scenarios/document/number.h"
#include "scenarios/frameworks/megatron/import.h"
#include "scenarios/frameworks/megatron/program.h"
#include "scenarios/frameworks/run_log.h"
#include "scenarios/frameworks/shell/script.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// Arguments whose value may stay open: the scenario does without it.
bool may_stay_open(std::string_view name) {
  constexpr std::array<std::string_view, 15> kText{"save",
                                                   "tokenizer_type",
                                                   "optimizer",
                                                   "async_save",
                                                   "normalization",
                                                   "attention_backend",
                                                   "deepspeed",
                                                   "save_interval",
                                                   "vocab_size",
                                                   "padded_vocab_size",
                                                   "transformer_impl",
                                                   "train_samples",
                                                   "train_tokens",
                                                   "train_iters",
                                                   "empty_unused_memory_level"};
  return std::find(kText.begin(), kText.end(), name) != kText.end();
}

bool says_how_many_nodes(std::string_view name) {
  return name == "nnodes" || name == "num_nodes" || name == "nodes";
}

bool says_gpus_of_a_node(std::string_view name) {
  return name == "nproc_per_node" || name == "num_gpus_per_node" || name == "gpus_per_node" ||
         name == "num_gpus";
}

// How many GPUs there are is known where the script runs, and assumed where it is not.
bool says_how_many_gpus(std::string_view name) {
  return says_how_many_nodes(name) || says_gpus_of_a_node(name) || name == "world_size";
}

bool changes_cost(std::string_view name) {
  for (const CostArgument& row : megatron_arguments())
    if (row.name == name && row.as.kind != As::Kind::left_out) return true;
  return false;
}

// Flags of Megatron's that change the cost: a word behind them is no value of theirs.
bool is_flag(std::string_view name) {
  constexpr std::string_view kFlags[] = {
      "RMSNorm",
      "account_for_embedding_in_pipeline_split",
      "account_for_loss_in_pipeline_split",
      "accumulate_allreduce_grads_in_fp32",
      "add_qkv_bias",
      "bf16",
      "checkpoint_activations",
      "cpu_offloading",
      "cross_entropy_loss_fusion",
      "deepspeed",
      "delay_wgrad_compute",
      "enable_1f1b_v",
      "enable_expert_tensor_parallelism",
      "enable_zbh1_pipeline",
      "enable_zero_bubble",
      "external_cuda_graph",
      "fp16",
      "fp8_param_gather",
      "geglu",
      "grad_reduce_in_bf16",
      "group_query_attention",
      "is_hybrid_model",
      "moe_enable_deepep",
      "moe_grouped_gemm",
      "moe_layer_recompute",
      "moe_pad_expert_input_to_capacity",
      "moe_permute_fusion",
      "moe_router_enable_expert_bias",
      "moe_router_force_load_balancing",
      "moe_router_fusion",
      "moe_shared_expert_gate",
      "moe_shared_expert_overlap",
      "moe_token_dropping",
      "multi_latent_attention",
      "optimizer_cpu_offload",
      "overlap_grad_reduce",
      "overlap_moe_expert_parallel_comm",
      "overlap_p2p_comm_warmup_flush",
      "overlap_param_gather",
      "overlap_param_gather_with_optimizer_step",
      "qk_l2_norm",
      "qk_layernorm",
      "quick_geglu",
      "recompute_activations",
      "sequence_parallel",
      "squared_relu",
      "swiglu",
      "tp_comm_overlap",
      "untie_embeddings_and_output_weights",
      "use_alibi_mask",
      "use_checkpoint_args",
      "use_distributed_optimizer",
      "use_flash_attn",
      "use_megatron_fsdp",
      "use_precision_aware_optimizer",
      "use_rotary_position_embeddings",
      "use_torch_fsdp2",
      "use_tp_pp_dp_mapping",
      "zero_bubble_v_schedule",
  };
  return name.starts_with("no_") || name.starts_with("disable_") ||
         std::ranges::find(kFlags, name) != std::end(kFlags);
}

// What a script leaves open, asked for in one message.
class OpenValues {
 public:
  explicit OpenValues(const ShellScript& script) : script_(script) {}

  // True if the argument is to be left out.
  bool leaves_out(ShellArgument& a, const ImportSources& in) {
    if (!a.is_open) return false;
    const std::string& name = a.argument.name;
    const Value& value = a.argument.value;
    const std::string text = value.is_scalar() ? value.text : value.items.front().text;
    if (says_how_many_gpus(name)) {
      nodes_open_ = nodes_open_ || says_how_many_nodes(name);
      if (in.warnings != nullptr)
        in.warnings->push_back(fmt::format("{} {} is not known: {}", a.argument.written, text,
                                           "NAME=VALUE after the file gives a variable"));
      return true;
    }
    // Wherever it lies, a file of merges is GPT-2's tokenizer, one of words BERT's, and a tokenizer
    // may be known by its own name.
    if (name == "merge_file" || name == "vocab_file" || name == "tokenizer_model") return false;
    // "--save <path>" saves, wherever that is.
    if (name == "save" && a.hangs_on.empty()) return false;
    if (!changes_cost(name) || may_stay_open(name)) return true;
    // "--bf16 $MORE": what nothing sets is no word.
    if (is_flag(name) && text != "true" && a.only_unset) {
      a.argument.value = word_value("true", a.argument.value.mark);
      return false;
    }
    add(a.hangs_on, a.argument.written, text, a.argument.value.mark);
    return false;
  }

  void add(const std::set<std::string>& names, const std::string& written, const std::string& text,
           const Mark& mark) {
    if (!asked_) {
      asked_ = true;
      what_ = text == "true" ? written : fmt::format("{} {}", written, text);
      mark_ = mark;
    }
    names_.insert(names.begin(), names.end());
    if (names.empty()) unnamed_.insert(fmt::format("{} {}", written, text));
  }

  // The GPUs of one node say nothing of the job where the number of nodes is open: they would be
  // taken for all of it.  "#SBATCH --nodes" may have said the number.
  void leave_out_gpus_of_a_node(std::vector<Argument>& all) const {
    if (!nodes_open_ || std::any_of(all.begin(), all.end(),
                                    [](const Argument& a) { return says_how_many_nodes(a.name); }))
      return;
    std::erase_if(all, [](const Argument& a) { return says_gpus_of_a_node(a.name); });
  }

  bool refuse(const ImportSources& in) const {
    if (!asked_) return false;
    std::vector<std::string> shown, given, choices;
    std::vector<std::string> in_order(names_.begin(), names_.end());
    std::stable_sort(in_order.begin(), in_order.end(), [](const auto& x, const auto& y) {
      const auto order = [](const std::string& n) { return is_position(n) ? n.size() : SIZE_MAX; };
      return order(x) < order(y);
    });
    for (const std::string& n : in_order) {
      const bool is_argument = is_position(n);
      const auto variable = script_.variable_of.find(n);
      const std::string name = variable == script_.variable_of.end() ? n : variable->second;
      shown.push_back(!is_argument ? n : name == n ? "$" + n : fmt::format("{} (${})", name, n));
      if (!is_position(name)) given.push_back(name + "=...");
      for (const std::string& by : {n, name}) {
        const auto known = script_.choices.find(by);
        if (known == script_.choices.end()) continue;
        choices.push_back(fmt::format("{}: {}", name, fmt::join(known->second, ", ")));
        if (by == name) break;
      }
    }
    shown.insert(shown.end(), unnamed_.begin(), unnamed_.end());
    std::string help;
    if (!given.empty()) help = fmt::format("give them after the file: {}", fmt::join(given, " "));
    const bool by_position = std::any_of(names_.begin(), names_.end(), is_position);
    if (by_position)
      help += help.empty() ? "give them after the file, as the script is called"
                           : ", or the words for $1, $2, ... as the script is called";
    if (help.empty()) help = "write the value into the script";
    in.problems.add(
        "E332",
        fmt::format("the script does not say {}, which {} hangs on{}", fmt::join(shown, ", "),
                    what_, shown.size() > 1 ? ", and other arguments" : ""),
        mark_, 1, {}, help,
        choices.empty() ? "" : fmt::format("the script knows {}", fmt::join(choices, "; ")));
    return true;
  }

 private:
  static bool is_position(const std::string& name) {
    return name.find_first_not_of("0123456789") == std::string::npos;
  }

  const ShellScript& script_;
  std::set<std::string> names_, unnamed_;
  std::string what_;
  Mark mark_;
  bool asked_ = false, nodes_open_ = false;
};

// An option of Megatron's: what stands behind it is no program.
bool is_megatron_option(const ShellWord& word) {
  if (!word.text.starts_with("--")) return false;
  const std::string name = argument_name(word.text.substr(0, word.text.find('=')));
  return changes_cost(name) && !says_how_many_gpus(name) && name != "deepspeed";
}

// Whether the word behind this one may be its value.
bool may_take_a_value(const ShellWord& word) {
  constexpr std::array<std::string_view, 7> kFlags{
      "standalone", "no_python", "module", "use_env", "no_local_rank", "force_multi", "multi_gpu"};
  if (!word.text.starts_with("--") || word.text.size() == 2) return false;
  if (word.text.find('=') != std::string::npos) return false;
  return std::find(kFlags.begin(), kFlags.end(), argument_name(word.text)) == kFlags.end();
}

// What a command runs: the last file of Python before Megatron's first argument, so that launchers
// written in Python do not count ("python launch.py pretrain_bert.py"); else the module behind -m,
// a file that may be the value of an option ("--config eval.py"), a variable that nothing sets, or
// the first word.
//
// Where a variable has several values there are several programs.
class ProgramNames {
 public:
  explicit ProgramNames(const std::vector<ShellWord>& words) {
    const Found found = look(words);
    called_ = found.named.word != nullptr     ? found.named
              : found.module != nullptr       ? Named{found.module, {found.module}}
              : found.a_value.word != nullptr ? found.a_value
              : found.unset != nullptr        ? Named{found.unset, {found.unset}}
                                              : Named{&words.front(), {&words.front()}};
  }
  const ShellWord& word() const { return *called_.word; }  // of the command itself
  const std::vector<const ShellWord*>& all() const { return called_.programs; }

 private:
  struct Named {
    const ShellWord* word = nullptr;
    std::vector<const ShellWord*> programs;
  };
  struct Found {
    Named named, a_value;
    const ShellWord* module = nullptr;
    const ShellWord* unset = nullptr;  // a variable that nothing sets
    bool ended = false;                // by an option of Megatron's
  };

  Found look(const std::vector<ShellWord>& words) {
    Found found;
    const ShellWord* before = nullptr;
    for (const ShellWord& w : words) {
      if ((found.ended = is_megatron_option(w))) break;
      Named here{&w, {}};
      if (w.open && !w.open->may_be.empty()) {
        if (seen_.insert(w.open.get()).second)
          for (const std::vector<ShellWord>& may : w.open->may_be) {
            const Found inside = look(may);
            found.ended = found.ended || inside.ended;
            here.programs.insert(here.programs.end(), inside.named.programs.begin(),
                                 inside.named.programs.end());
          }
      } else if (w.text.ends_with(".py")) {
        here.programs.push_back(&w);
      } else if (before != nullptr && before->text == "-m" && !w.text.starts_with("torch.")) {
        found.module = &w;
      } else if (w.open && w.open->is_unset) {
        found.unset = &w;
      }
      if (!here.programs.empty()) {
        const bool is_a_value = before != nullptr && may_take_a_value(*before);
        if (!is_a_value)
          found.named = std::move(here);
        else if (found.a_value.word == nullptr)
          found.a_value = std::move(here);
      }
      if (found.ended) break;
      before = &w;
    }
    return found;
  }

  std::set<const ShellOpen*> seen_;  // values may hang on each other
  Named called_;
};

// The last part of a path.
std::string_view name_of_program(const ShellWord& word) {
  return std::string_view(word.text).substr(word.text.rfind('/') + 1);
}

// Whether the word behind an option of srun's is its value.  The options without one, and those
// whose value only stands behind '=', are named in https://slurm.schedmd.com/srun.html and,
// those of containers, in the README of https://github.com/NVIDIA/pyxis.
bool takes_a_value_of_srun(std::string_view option) {
  constexpr std::array<std::string_view, 36> kFlags{"bcast",
                                                    "container_entrypoint",
                                                    "container_mount_home",
                                                    "container_readonly",
                                                    "container_remap_root",
                                                    "container_writable",
                                                    "contiguous",
                                                    "disable_status",
                                                    "exact",
                                                    "exclusive",
                                                    "hold",
                                                    "immediate",
                                                    "interactive",
                                                    "kill_on_bad_exit",
                                                    "label",
                                                    "multi_prog",
                                                    "nice",
                                                    "no_allocate",
                                                    "no_container_entrypoint",
                                                    "no_container_mount_home",
                                                    "no_container_remap_root",
                                                    "no_kill",
                                                    "overcommit",
                                                    "overlap",
                                                    "oversubscribe",
                                                    "preserve_env",
                                                    "propagate",
                                                    "pty",
                                                    "quiet",
                                                    "reboot",
                                                    "spread_job",
                                                    "test_only",
                                                    "unbuffered",
                                                    "use_min_nodes",
                                                    "verbose",
                                                    "whole"};
  constexpr std::string_view kLettersWithValues = "ABCDGJLMNSTWcdeimnopqrtwx";
  if (option.starts_with("--"))
    return option.size() > 2 && option.find('=') == option.npos &&
           std::ranges::find(kFlags, argument_name(option)) == kFlags.end();
  return option.size() == 2 && option[0] == '-' &&
         kLettersWithValues.find(option[1]) != std::string_view::npos;
}

// srun's own part of a command: the words before the program that it starts, which may be a
// launcher.  Empty where srun starts none that is known.
std::vector<ShellWord> words_of_srun(const std::vector<ShellWord>& words) {
  if (name_of_program(words.front()) != "srun") return {};
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view name = name_of_program(words[i]);
    const bool is_program = name.starts_with("python") || name.ends_with(".py") ||
                            name == "torchrun" || name == "deepspeed" || name == "accelerate";
    if (is_program && !takes_a_value_of_srun(words[i - 1].text))
      return {words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i)};
  }
  return {};
}

// Whether the words before Megatron's options start a process for each GPU themselves.
bool is_launched(const std::vector<ShellWord>& words) {
  for (const ShellWord& w : words) {
    if (is_megatron_option(w)) return false;
    const std::string_view name = name_of_program(w);
    if (name == "torchrun" || name == "deepspeed" || name == "accelerate" ||
        name.starts_with("launch") || name.starts_with("torch.distributed"))
      return true;
  }
  return false;
}

// How many nodes "4" or "4-8" are at the least; of "4-8" Slurm may give as few.  Nothing for
// anything else.
std::optional<int64_t> least_of_slurm(std::string_view text) {
  const std::optional<IndexRange> range = parse_range(text);
  return range && range->first >= 1 ? std::optional(range->first) : std::nullopt;
}

// How many GPUs a list of Slurm's has: "8", "h100:8", "a100:2,t4:2".  A list of generic resources
// has others too, and leaves out a count of one: "gpu:h100:8,nvme:1", "gpu"; what it says of
// sockets does not count: "gpu:4(S:0-1)".  0: a list of other resources alone.  Nothing for
// anything else.
std::optional<int64_t> gpus_of_slurm(std::string_view list, bool is_generic) {
  constexpr int64_t kMost = 1'000'000'000;
  std::string text;
  bool inside = false;  // parentheses
  for (const char c : list) {
    inside = (inside || c == '(') && c != ')';
    if (!inside && c != ')') text += c == '=' ? ':' : c;
  }
  int64_t sum = 0;
  for (const std::string_view entry : split(text, ',')) {
    std::string_view rest = entry;
    if (is_generic) {
      if (rest.starts_with("gres:") || rest.starts_with("gres/")) rest.remove_prefix(5);
      if (rest != "gpu" && !rest.starts_with("gpu:")) continue;
      rest.remove_prefix(std::min(std::string_view("gpu:").size(), rest.size()));
    }
    const size_t colon = rest.rfind(':');
    const std::string_view last = colon == rest.npos ? rest : rest.substr(colon + 1);
    const bool is_type = !last.empty() && !is_digits(last) && last.front() != '-' &&
                         last.find_first_not_of(
                             "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "abcdefghijklmnopqrstuvwxyz0123456789_-.") == last.npos;
    const bool is_one = is_generic && (rest.empty() || (is_type && colon == rest.npos));
    const std::optional<int64_t> n = is_one ? std::optional<int64_t>(1) : parse_index(last);
    if (!n || *n < 1 || *n > kMost) return {};
    sum += *n;
  }
  if (sum > kMost || (sum == 0 && !is_generic)) return {};
  return sum;
}

// What Slurm is asked for, in "#SBATCH" lines, which the shell takes for comments, and by srun.
// Options: https://slurm.schedmd.com/sbatch.html and srun.html.
class SlurmRequest {
 public:
  // The last of an option counts.
  void read(std::vector<ShellWord> words) {
    for (ShellWord& w : words)  // "-N 4", "-N4"
      for (const auto& [letter, option] :
           {std::pair<std::string_view, const char*>{"-N", "--nodes"},
            {"-n", "--ntasks"},
            {"-G", "--gpus"}})
        if (w.text.starts_with(letter))
          w.text = w.text.size() == 2 ? option : fmt::format("{}={}", option, w.text.substr(2));
    for (ShellArgument& a : arguments_of(words)) read_option(std::move(a));
  }

  void read_comments(const SourceRef& source) {
    LogLines lines{source->text};
    while (const auto line = lines.next()) {
      if (!line->starts_with("#SBATCH")) continue;
      std::vector<ShellWord> words;
      for (size_t at = line->find_first_of(" \t"); at < line->size();) {
        at = std::min(line->find_first_not_of(" \t\r", at), line->size());
        const size_t end = std::min(line->find_first_of(" \t\r", at), line->size());
        if (at == end || (*line)[at] == '#') break;
        words.push_back({std::string(line->substr(at, end - at)),
                         {source, lines.number, static_cast<int>(at) + 1}});
        at = end;
      }
      read(std::move(words));
    }
  }

  // What it is asked for in words that are not understood.
  void note(std::vector<std::string>* warnings) const {
    if (warnings == nullptr) return;
    for (const auto& [name, written] : not_understood_)
      warnings->push_back(fmt::format(
          "{} is not understood, and left out of how many nodes and GPUs there are", written));
  }

  // As launchers of Megatron are told it.  `tasks`: each of Slurm's tasks is a process of Megatron,
  // which has one GPU.
  std::vector<ShellArgument> as_launchers(bool tasks) const {
    const Count asked_nodes = find("nodes"), all_tasks = find("ntasks"),
                tasks_each = find("ntasks_per_node");
    // One task for a node, or for all of them, starts the others itself.
    const bool one_each =
        tasks_each.n == 1 || all_tasks.n == 1 || (all_tasks.n && all_tasks.n == asked_nodes.n);
    const bool processes = tasks && !one_each;
    const Count each_task = find("gpus_per_task");

    Count all = processes ? all_tasks : Count{};
    if (!all) all = find("gpus");
    if (!all && each_task && all_tasks) all = product(each_task, all_tasks);
    Count each = processes ? tasks_each : Count{};
    if (!each && processes && all_tasks) each = quotient(all_tasks, asked_nodes);
    if (!each) each = find("gpus_per_node");
    if (!each && each_task && tasks_each) each = product(each_task, tasks_each);
    // A task for each node, unless it is said how many there are.
    if (!each && !all_tasks) each = each_task;
    if (!each) each = quotient(all, asked_nodes);
    Count nodes = asked_nodes;
    if (!nodes) nodes = quotient(all_tasks, tasks_each);
    if (!nodes) nodes = quotient(all, each);
    // So many a node are the most that it takes: more in all take more nodes, of a range that is
    // asked for; fewer leave some of each node idle.
    const Count room = product(each, nodes);
    if (all.n && room.n && *all.n > *room.n) {
      if (const Count more = quotient(all, each)) nodes = more;
    } else if (all.n && room.n && *all.n < *room.n) {
      each = quotient(all, nodes);
      if (!each) nodes = {};
    }

    std::vector<ShellArgument> said;
    const auto say = [&](const char* name, const Count& count) {
      said.push_back(*count.argument);
      said.back().argument.name = name;
    };
    if (all && (!each || (all.n && !nodes)))  // it does not divide, or no node is spoken of
      say("world_size", all);
    else if (each)
      say("nproc_per_node", each);
    if (nodes) say("nnodes", nodes);
    return said;
  }

 private:
  // What an option says, or what follows from two.
  struct Count {
    std::optional<ShellArgument> argument{};  // nothing: it is not asked for
    std::optional<int64_t> n{};               // nothing: a variable that nothing sets
    explicit operator bool() const { return argument.has_value(); }
  };

  void read_option(ShellArgument a) {
    Argument& of = a.argument;
    if (!of.value.is_scalar() && !of.value.items.empty()) of.value = Value(of.value.items.front());
    const bool is_generic =
        of.name == "gres" || of.name == "tres_per_node" || of.name == "tres_per_task";
    const bool is_list = is_generic || of.name == "gpus" || of.name == "gpus_per_node" ||
                         of.name == "gpus_per_task" || of.name == "gpus_per_socket";
    if (of.name == "tasks_per_node") of.name = "ntasks_per_node";
    if (of.name == "gres" || of.name == "tres_per_node") of.name = "gpus_per_node";
    if (of.name == "tres_per_task") of.name = "gpus_per_task";
    if (!is_list && of.name != "nodes" && of.name != "ntasks" && of.name != "ntasks_per_node")
      return;
    std::string& text = of.value.text;
    if (!a.is_open) {
      const std::optional<int64_t> n =
          is_list ? gpus_of_slurm(text, is_generic) : least_of_slurm(text);
      if (n == 0) return;  // other resources
      // A placeholder in a comment, which no shell fills in, or a unit that has no place here.
      if (!n || of.name == "gpus_per_socket") {
        not_understood_.insert_or_assign(of.name, fmt::format("{} {}", of.written, text));
        return;
      }
      text = fmt::format("{}", *n);
    }
    not_understood_.erase(of.name);
    asked_.insert_or_assign(of.name, std::move(a));
  }

  Count find(const char* name) const {
    const auto found = asked_.find(name);
    if (found == asked_.end()) return {};
    return {found->second, parse_index(found->second.argument.value.text)};
  }

  static Count derived(const Count& a, char sign, const Count& b, int64_t n) {
    Count c{a.argument, n};
    Argument& of = c.argument->argument;
    of.written = fmt::format("{} {} {} {} {} =", of.written, of.value.text, sign,
                             b.argument->argument.written, b.argument->argument.value.text);
    of.value.text = fmt::format("{}", n);
    return c;
  }
  // Nothing unless both are known.
  static Count product(const Count& a, const Count& b) {
    int64_t n = 0;
    if (!a.n || !b.n || __builtin_mul_overflow(*a.n, *b.n, &n)) return {};
    return derived(a, 'x', b, n);
  }
  // Nothing unless both are known, and the first is a multiple of the second.
  static Count quotient(const Count& a, const Count& b) {
    if (!a.n || !b.n || *a.n < *b.n || *a.n % *b.n != 0) return {};
    return derived(a, '/', b, *a.n / *b.n);
  }

  std::map<std::string, ShellArgument, std::less<>> asked_;
  std::map<std::string, std::string, std::less<>> not_understood_;  // as written
};

// What a command trains.
struct Training {
  MegatronProgram does{};
  // The values of a variable train different things, or the program's name is not known.
  bool is_open = false;
};

Training training_of(const ProgramNames& names, const std::vector<ShellArgument>& arguments) {
  const auto does = [&](const ShellWord& program) {
    MegatronProgram p = megatron_program(program.text);
    for (std::string_view rest = p.needs; !rest.empty();) {
      const std::string_view name = rest.substr(0, rest.find('|'));
      rest.remove_prefix(std::min(name.size() + 1, rest.size()));
      if (std::any_of(arguments.begin(), arguments.end(),
                      [&](const ShellArgument& a) { return a.argument.name.starts_with(name); }))
        return p;
    }
    if (!p.needs.empty()) p = {MegatronProgram::Trains::nothing};
    return p;
  };
  using Trains = MegatronProgram::Trains;
  const auto differs = [](const MegatronProgram& a, const MegatronProgram& b) {
    const auto kind = [](Trains t) { return t == Trains::unknown ? Trains::decoder : t; };
    return kind(a.trains) != kind(b.trains) || a.what != b.what;
  };
  Training t{does(*names.all().front())};
  for (const ShellWord* program : names.all()) {
    t.is_open = t.is_open || differs(does(*program), t.does);
    // "pretrain_$KIND.py", but not "convert_$MODEL.py"; the folders may be open.
    const size_t file = program->text.rfind('/') + 1;
    t.is_open = t.is_open || (program->open && does(*program).trains == Trains::unknown &&
                              program->text.ends_with(".py") &&
                              program->text.find_first_of("$`<", file) != std::string::npos);
  }
  return t;
}

// One that converts, evaluates or measures.
bool is_no_training(const ShellCommand& command, const std::vector<ShellArgument>& arguments) {
  const Training t = training_of(ProgramNames(command.words), arguments);
  return !t.is_open && t.does.trains == MegatronProgram::Trains::nothing;
}

// Whether the arguments that change the cost are the same.
bool same_costs(const std::vector<ShellArgument>& a, const std::vector<ShellArgument>& b) {
  const auto costs = [](const std::vector<ShellArgument>& all) {
    std::map<std::string, std::string> named;
    for (const ShellArgument& x : all)
      if (changes_cost(x.argument.name) && !may_stay_open(x.argument.name))
        named[x.argument.name] = to_flow(x.argument.value);
    return named;
  };
  return costs(a) == costs(b);
}

bool has_sizes(const std::vector<ShellArgument>& arguments) {
  return std::any_of(arguments.begin(), arguments.end(), [](const ShellArgument& a) {
    return a.argument.name == "num_layers" || a.argument.name == "hidden_size" ||
           a.argument.name == "micro_batch_size" || a.argument.name == "batch_size";
  });
}

// The lines of a text, to ask why a command ended.
class ScriptLines {
 public:
  explicit ScriptLines(std::string_view text) {
    LogLines lines{text};
    size_t last = 0;  // line with something of a command
    while (const auto line = lines.next()) {
      lines_.push_back(*line);
      last_before_.push_back(last);
      const std::string_view t = trimmed(*line);
      if (!t.empty() && !t.starts_with('#')) last = lines_.size();
    }
  }

  // Why the command ended before `line`, whose first word is an option; empty if what stands before
  // does not show it.
  std::string why_lost(int line) const {
    const auto at = static_cast<size_t>(line);
    if (line < 1 || at > lines_.size()) return {};
    const size_t before = last_before_[at - 1];
    if (before == 0) return {};
    const std::string_view all = lines_[before - 1];
    const std::string_view written = all.substr(0, all.find_last_not_of(kBlanks) + 1);
    if (!written.ends_with('\\'))
      return fmt::format("is a backslash missing at the end of line {}?", before);
    if (all.substr(written.size()).find_first_of(" \t") != std::string_view::npos)
      return fmt::format("blanks follow the backslash of line {}", before);
    if (before + 1 == at) return {};
    return fmt::format("line {} is {}, which ends the command", before + 1,
                       trimmed(lines_[before]).empty() ? "empty" : "a comment");
  }

 private:
  static constexpr std::string_view kBlanks = " \t\r";
  static std::string_view trimmed(std::string_view t) {
    t.remove_prefix(std::min(t.find_first_not_of(kBlanks), t.size()));
    return t;
  }

  std::vector<std::string_view> lines_;
  std::vector<size_t> last_before_;  // of each line: the number of the last that is no comment
};

// Says of each statement behind the command that trains, and that begins with an option, that the
// shell would not hand it to that command.
void warn_of_lost_lines(const std::vector<Mark>& lost, const ImportSources& in) {
  constexpr size_t kMostSaid = 10;
  if (in.warnings == nullptr) return;
  std::map<const Source*, ScriptLines> texts;
  int last = 0;
  size_t count = 0;
  for (const Mark& mark : lost) {
    if (mark.line == last || mark.source == nullptr) continue;
    last = mark.line;
    const std::string why =
        texts.try_emplace(mark.source.get(), mark.source->text).first->second.why_lost(mark.line);
    if (why.empty() || ++count > kMostSaid) continue;
    in.warnings->push_back(fmt::format(
        "line {} begins with an option, which the shell takes for a command of its own, so that "
        "it is left out: {}",
        mark.line, why));
  }
  if (count > kMostSaid)
    in.warnings->push_back(
        fmt::format("{} more lines begin with an option, and are left out", count - kMostSaid));
}

}  // namespace

std::vector<Argument> megatron_script_arguments(const ImportSources& in,
                                                MegatronEnvironment& environment,
                                                CalledProgram& program) {
  const ShellScript script = read_shell(in.file, in.given, in.files);
  if (script.cut) {
    in.problems.add("E331", "the script becomes too long to be followed from here on", *script.cut,
                    1, {}, "give the list of arguments that Megatron prints instead");
    return {};
  }
  for (const auto& [name, word] : script.exported) environment.emplace_back(name, word.text);
  std::vector<Argument> all;
  SlurmRequest slurm;
  slurm.read_comments(in.file);
  bool tasks = false;  // of Slurm's, which are Megatron's processes
  if (script.nodes && !script.nodes->open)
    slurm.read({{"--nodes=" + script.nodes->text, script.nodes->mark}});
  std::vector<std::pair<const ShellCommand*, std::vector<ShellArgument>>> training;
  std::vector<ShellArgument> loose;
  std::vector<Mark> lost;
  const ShellCommand* other = nullptr;
  for (const ShellCommand& command : script.commands) {
    std::vector<ShellArgument> found = arguments_of(command.words);
    const bool is_options = command.words.front().text.starts_with("--");
    if (is_options && !training.empty() && std::ranges::any_of(found, [](const ShellArgument& a) {
          return known_argument(megatron_arguments(), "megatron", a.argument.name);
        }))
      lost.push_back(command.words.front().mark);
    if (is_options)
      loose.insert(loose.end(), found.begin(), found.end());
    else if (is_no_training(command, found))
      other = other == nullptr ? &command : other;
    else if (has_sizes(found))
      training.emplace_back(&command, std::move(found));
    else if (training.empty())
      loose.insert(loose.end(), found.begin(), found.end());
  }
  // Of a text that is all arguments ("--num-layers 32 ...") there is nothing else to read.
  if (training.empty() && !has_sizes(loose) &&
      (other != nullptr || (loose.empty() && in.file->text.find("--") != std::string::npos))) {
    in.problems.add("E336",
                    other == nullptr ? "this script trains no model: no command in it has arguments"
                                     : fmt::format("this script trains no model: it runs {}",
                                                   ProgramNames(other->words).word().text),
                    other == nullptr ? Mark{in.file, 1, 1} : other->words.front().mark, 1, {},
                    "import the script that starts the training");
    return {};
  }
  warn_of_lost_lines(lost, in);
  if (in.warnings != nullptr && !script.unread.empty())
    in.warnings->push_back(fmt::format(
        "{} {} given, and nothing in the script reads {}", fmt::join(script.unread, ", "),
        script.unread.size() == 1 ? "is" : "are", script.unread.size() == 1 ? "it" : "them"));
  OpenValues open(script);
  std::vector<ShellArgument> found;
  if (training.empty()) {
    found = std::move(loose);
  } else {
    const auto& [command, arguments] = training.front();
    const ProgramNames names(command->words);
    const Training t = training_of(names, arguments);
    const ShellWord& called = *names.all().front();
    if (t.is_open) {
      open.add(names.word().open->names, "the program", names.word().text, names.word().mark);
    } else if (t.does.trains == MegatronProgram::Trains::other) {
      in.problems.add("E130", fmt::format("not supported yet: {} ({})", t.does.what, called.text),
                      called.mark);
      return {};
    }
    if (called.open && called.open->is_unset && in.warnings != nullptr)
      in.warnings->push_back(
          fmt::format("what {} runs is not known, and taken to train a decoder: NAME=VALUE after "
                      "the file gives "
                      "a variable",
                      called.text));
    program = {t.does, {fmt::format("program {}", called.text), called.mark}};
    if (!command->hangs_on.empty() && training.size() > 1 &&
        training[1].first->words.front().text == command->words.front().text &&
        !same_costs(arguments, training[1].second))
      open.add(command->hangs_on, "the command", command->words.front().text,
               command->words.front().mark);
    found = arguments;
    if (const std::vector<ShellWord> srun = words_of_srun(command->words); !srun.empty()) {
      const size_t own = std::min(found.size(), arguments_of(srun).size());
      found.erase(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(own));
      slurm.read(srun);
      tasks = !is_launched({command->words.begin() + static_cast<std::ptrdiff_t>(srun.size()),
                            command->words.end()});
    }
  }
  // What the launcher itself says counts, and says it better.
  const bool launched = std::ranges::any_of(found, [](const ShellArgument& a) {
    return !a.is_open && says_how_many_gpus(a.argument.name);
  });
  slurm.note(in.warnings);
  std::vector<ShellArgument> of_slurm = slurm.as_launchers(tasks);
  std::erase_if(of_slurm, [&](const ShellArgument& a) {
    return launched && a.argument.name == "world_size";
  });
  found.insert(found.begin(), of_slurm.begin(), of_slurm.end());
  std::erase_if(found, [&](ShellArgument& a) { return open.leaves_out(a, in); });
  for (ShellArgument& a : found) {
    if (is_flag(a.argument.name) && !a.argument.value.is_scalar())
      a.argument.value = word_value("true", a.argument.value.mark);
    all.push_back(std::move(a.argument));
  }
  open.leave_out_gpus_of_a_node(all);
  if (!open.refuse(in) && in.warnings != nullptr && !script.empty.empty())
    in.warnings->push_back(fmt::format(
        "{} {} not set, and taken to be empty: NAME=VALUE after the file gives a variable",
        fmt::join(script.empty, ", "), script.empty.size() == 1 ? "is" : "are"));
  return all;
}

}  // namespace stepcast
