// SPDX-License-Identifier: Apache-2.0
// The table of everything a scenario may say: one row for each key.
//
// A row has the path of the key, its type (which implies the unit), what it means, its default and
// why, and the words of a closed list with what each stands for.  Reading, messages about unknown
// keys, `stepcast explain`, the JSON Schema and `stepcast schema` all come from the rows, so they
// cannot drift apart.
//
// A resolver binds a key by its path:
//
//   values.read("parallel.etp", plan.etp);          // a count, into an int64_t
//   values.read("parallel.cp_comm", plan.cp_comm);  // a word, into its enumerator
//
// The path is looked up here while the resolver is compiled (Key, KeyOf): a misspelt path, or one
// whose row holds a value of another type, does not compile.  A value that only has to be put into
// the plan or the cluster says so in its row (`into`), and no resolver mentions it:
// FieldValues::fill (values.h) puts all of these into the plan and the cluster at once.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/plan.h"
#include "scenarios/scenario.h"
#include "schedules/schedule.h"
#include "sim/graph/work.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

enum class FieldType : uint8_t {
  section,    // mapping of the rows below it; a scalar stands for its `shorthand` keys
  text,       // any scalar
  flag,       // true, false
  count,      // whole number from 1
  whole,      // whole number from 0
  number,     // from 0, no unit
  bytes,      // "80GiB"
  bandwidth,  // "400Gb/s", "50GB/s"
  time,       // "2.5us"
  flop_rate,  // "989TFLOP/s"
  power,      // "700W"
  share,      // "5%", 0.05
  tokens,     // 2048, "15T", "8Ki"
  choice,     // one of `choices`
  choices,    // list of them
  texts,      // list of scalars
  pairs,      // mapping of free keys to scalars
  list,       // list of mappings; the rows below are "path[].key"
  names,      // mapping with free keys; the rows below are "path.*.key"
  opaque,     // read elsewhere: `model`, `compare.cases.*`, ...
  noted,      // any YAML that says nothing of a step: `tags`
};

// One word of a closed list.
struct Word {
  std::string_view text;
  int meaning = 0;       // the enumerator that it stands for
  bool modelled = true;  // false: known, refused with E130 until it is
};

// The class that a member belongs to.
template <class>
struct WholeOfMember;
template <class Whole, class Member>
struct WholeOfMember<Member Whole::*> {
  using type = Whole;
};
template <class Member>
using WholeOf = typename WholeOfMember<Member>::type;

// Its address tells types apart: it marks what type the meanings of a list have.
template <class T>
inline constexpr char type_mark = 0;

// The words of a closed list, in the order in which messages list them.
struct Choices {
  std::span<const Word> words{};
  const void* type = nullptr;  // &type_mark<Enum>

  constexpr bool empty() const { return words.empty(); }
  // nullptr if it is none of the words.
  constexpr const Word* find(std::string_view text) const {
    for (const Word& w : words)
      if (w.text == text) return &w;
    return nullptr;
  }
};

// One value of one row.  count, whole, tokens, bytes and time (picoseconds) are kept as int64_t;
// number, share, bandwidth, flop_rate and power as double; text and choice as a string; texts,
// choices and pairs ("key=value") as strings.
//
// The list is a type of its own because libstdc++ (of g++ 12) takes a variant of nothing but
// numbers, std::string and std::vector for one that always has a value, and destroys what is not
// there when memory runs out while one is copied.
struct Texts : std::vector<std::string> {
  Texts() = default;
  Texts(std::vector<std::string> texts) : vector(std::move(texts)) {}
};
using Datum = std::variant<int64_t, double, bool, std::string, Texts>;

struct Field;

// The member of a Plan, Cluster or Scenario that a value is put into as it is.
struct Destination {
  void (*put)(const Field& row, const Datum& datum, void* whole) = nullptr;  // nullptr: none
  const void* whole = nullptr;                                               // &type_mark<Plan>
  bool (*fits)(const Field& row) = nullptr;  // whether the row holds what the member is
};

struct Field {
  std::string_view path;  // "parallel.tp"; "[]" = each item, "*" = each name
  FieldType type = FieldType::text;
  bool positive = false;        // bytes: above 0
  int64_t most = 0;             // count, whole, tokens: the largest value; 0 = that of the type
  std::string_view summary{};   // one line, for the schema
  std::string_view fallback{};  // default as one would write it; empty = none
  std::string_view reason{};    // why this default
  Choices choices{};            // choice, choices
  std::string_view now{};       // whole: the only value that is modelled so far; empty = all are
  std::array<std::string_view, 2> shorthand{};  // section: the keys that a scalar sets
  // Filled in before the resolvers run: for values that follow from no others, whose checks read
  // the member.
  Destination into{};
};

// Whether the row's value is a T: what value_as<T>() returns.
template <class T>
constexpr bool holds(const Field& row) {
  using enum FieldType;
  if constexpr (std::is_same_v<T, int64_t>)
    return row.type == count || row.type == whole || row.type == tokens;
  else if constexpr (std::is_same_v<T, double>)
    return row.type == number || row.type == share;
  else if constexpr (std::is_same_v<T, Bytes>)
    return row.type == bytes;
  else if constexpr (std::is_same_v<T, Time>)
    return row.type == time;
  else if constexpr (std::is_same_v<T, Bandwidth>)
    return row.type == bandwidth;
  else if constexpr (std::is_same_v<T, FlopRate>)
    return row.type == flop_rate;
  else if constexpr (std::is_same_v<T, Power>)
    return row.type == power;
  else if constexpr (std::is_same_v<T, std::string>)
    return row.type == text || row.type == choice;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return row.type == texts || row.type == choices || row.type == pairs;
  else if constexpr (std::is_same_v<T, bool>)
    return row.type == flag || (row.type == choice && row.choices.type == &type_mark<T>);
  else
    return (row.type == choice || row.type == choices) && row.choices.type == &type_mark<T>;
}

// The value as a T: int64_t, double, bool, std::string, a list of strings, Bytes, Time, Bandwidth,
// FlopRate, Power, or the enum of the row's words.  REQUIRES: holds<T>(row).
template <class T>
T value_as(const Field& row, const Datum& d) {
  if constexpr (std::is_same_v<T, Bytes> || std::is_same_v<T, Time>) {
    return T{std::get<int64_t>(d)};
  } else if constexpr (std::is_same_v<T, Bandwidth> || std::is_same_v<T, FlopRate> ||
                       std::is_same_v<T, Power>) {
    return T{std::get<double>(d)};
  } else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, double> ||
                       std::is_same_v<T, std::string>) {
    return std::get<T>(d);
  } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
    return std::get<Texts>(d);
  } else {  // true or false, or a word and what it stands for
    if constexpr (std::is_same_v<T, bool>)
      if (const bool* flag = std::get_if<bool>(&d)) return *flag;
    return static_cast<T>(row.choices.find(std::get<std::string>(d))->meaning);
  }
}

template <class Object, class Member>
constexpr auto& member_of(Object& object, Member at) {
  return object.*at;
}
template <class Object, class Member, class... Below>
constexpr auto& member_of(Object& object, Member at, Below... below) {
  return member_of(object.*at, below...);
}

// {.into = into<&Plan::overlap, &Overlap::dp_param>}: Plan::overlap.dp_param.
template <auto first, auto... below>
inline constexpr Destination into = [] {
  using Whole = WholeOf<decltype(first)>;
  using Put = std::remove_reference_t<decltype(member_of(std::declval<Whole&>(), first, below...))>;
  return Destination{[](const Field& row, const Datum& datum, void* whole) {
                       member_of(*static_cast<Whole*>(whole), first, below...) =
                           value_as<Put>(row, datum);
                     },
                     &type_mark<Whole>, &holds<Put>};
}();

// ------------------------------------------------------------------------------ words of lists

// A word and the enumerator (or bool, or int) that it stands for; without one it is not modelled
// yet.
template <class Enum>
struct WordOf {
  std::string_view text;
  std::optional<Enum> meaning{};
};

template <class Enum, size_t n>
struct WordList {
  std::array<Word, n> words{};
  constexpr operator Choices() const { return {words, &type_mark<Enum>}; }
};

template <class Enum, size_t n>
constexpr WordList<Enum, n> words_of(const WordOf<Enum> (&list)[n]) {
  WordList<Enum, n> out;
  for (size_t i = 0; i < n; ++i) {
    const auto& [text, meaning] = list[i];
    out.words[i] = {text, meaning ? static_cast<int>(*meaning) : 0, meaning.has_value()};
  }
  return out;
}

// What only scenarios tell apart: resolvers turn it into other properties of the plan.
enum class NicAffinity : uint8_t { per_gpu, per_switch, shared };
enum class FsdpKind : uint8_t { fsdp1, fsdp2, deepspeed, deepspeed_2021, megatron };
enum class LayerSplit : uint8_t { even, last, products, modules };
enum class OptimizerKind : uint8_t { adam, adamw };
enum class PrecisionPreset : uint8_t {
  fp32,
  fp16_mixed,
  bf16_mixed,
  fp8_delayed,
  fp8_tensorwise,
  fp8_blockwise,
  fp8_deepseek,
  mxfp8,
  nvfp4,
  int8,
};
enum class RecomputeModule : uint8_t {
  core_attention,
  moe_activation,
  norms,
  mla_up_projection,
  mlp,
  moe,
  shared_experts,
};

inline constexpr auto kGpuArchs = [] {
  WordList<GpuArch, kGpuArchitectures.size()> list;
  for (size_t i = 0; i < list.words.size(); ++i)
    list.words[i] = {kGpuArchitectures[i].name, static_cast<int>(i), true};
  return list;
}();
inline constexpr auto kIntraKinds = words_of<IntraKind>({{"nvswitch", IntraKind::nvswitch},
                                                         {"nvlink-mesh", IntraKind::nvlink_mesh},
                                                         {"pcie", IntraKind::pcie},
                                                         {"custom"}});
inline constexpr auto kNicDrivers =
    words_of<NicDriver>({{name_of(NicDriver::verbs), NicDriver::verbs},
                         {name_of(NicDriver::roce), NicDriver::roce},
                         {name_of(NicDriver::gib), NicDriver::gib},
                         {name_of(NicDriver::efa), NicDriver::efa},
                         {name_of(NicDriver::tcpxo), NicDriver::tcpxo},
                         {name_of(NicDriver::efa_v1), NicDriver::efa_v1},
                         {name_of(NicDriver::tcpx), NicDriver::tcpx}});
inline constexpr auto kNicAffinities =
    words_of<NicAffinity>({{"per-gpu", NicAffinity::per_gpu},
                           {"per-switch", NicAffinity::per_switch},
                           {"shared", NicAffinity::shared}});
inline constexpr auto kCpuLinks = words_of<bool>({{"pcie", false}, {"c2c", true}});
inline constexpr auto kFabricKinds =
    words_of<FabricKind>({{"fat-tree", FabricKind::fat_tree},
                          {"rail-fat-tree", FabricKind::rail_fat_tree},
                          {"clos", FabricKind::clos},
                          {"dragonfly"},
                          {"custom"}});
inline constexpr auto kFabricRoutings = words_of<bool>({{"ecmp", false}, {"adaptive", true}});
inline constexpr auto kModes = words_of<StepMode>(
    {{"train", StepMode::train}, {"prefill", StepMode::prefill}, {"decode", StepMode::decode}});
inline constexpr auto kZeroStages = words_of<int>({{"0", 0}, {"1", 1}, {"2", 2}, {"3", 3}});
inline constexpr auto kZeroExchanges =
    words_of<ZeroExchange>({{"scatter", ZeroExchange::scatter},
                            {"all-reduce", ZeroExchange::all_reduce},
                            {"broadcast", ZeroExchange::broadcast}});
inline constexpr auto kZeroReduces =
    words_of<ZeroReduce>({{"backward", ZeroReduce::backward}, {"round", ZeroReduce::round}});
inline constexpr auto kFsdpKinds = words_of<FsdpKind>({{"fsdp1", FsdpKind::fsdp1},
                                                       {"fsdp2", FsdpKind::fsdp2},
                                                       {"deepspeed", FsdpKind::deepspeed},
                                                       {"deepspeed-2021", FsdpKind::deepspeed_2021},
                                                       {"megatron", FsdpKind::megatron}});
inline constexpr auto kLayerSplits = words_of<LayerSplit>({{"even", LayerSplit::even},
                                                           {"last", LayerSplit::last},
                                                           {"products", LayerSplit::products},
                                                           {"modules", LayerSplit::modules}});
inline constexpr auto kCpComms = words_of<CpComm>({{"p2p", CpComm::p2p},
                                                   {"allgather", CpComm::all_gather},
                                                   {"a2a", CpComm::all_to_all},
                                                   {"a2a+p2p", CpComm::hierarchical}});
inline constexpr auto kPruneKinds = words_of<bool>({{"safe", false}, {"fast", true}});
inline constexpr auto kCheckpointModes = words_of<bool>({{"sync", false}, {"async", true}});
inline constexpr auto kSweepModes = words_of<bool>({{"product", false}, {"zip", true}});
inline constexpr auto kP2pStyleWords =
    words_of<P2pStyle>({{"async", P2pStyle::async},
                        {"megatron", P2pStyle::megatron},
                        {"megatron-overlap", P2pStyle::megatron_overlap},
                        {"megatron-overlap-flush", P2pStyle::megatron_overlap_flush},
                        {"dualpipe", P2pStyle::dualpipe},
                        {"deepspeed", P2pStyle::deepspeed}});
inline constexpr auto kPrecisionPresets =
    words_of<PrecisionPreset>({{"fp32", PrecisionPreset::fp32},
                               {"fp16-mixed", PrecisionPreset::fp16_mixed},
                               {"bf16-mixed", PrecisionPreset::bf16_mixed},
                               {"fp8-delayed", PrecisionPreset::fp8_delayed},
                               {"fp8-tensorwise", PrecisionPreset::fp8_tensorwise},
                               {"fp8-blockwise", PrecisionPreset::fp8_blockwise},
                               {"fp8-deepseek", PrecisionPreset::fp8_deepseek},
                               {"mxfp8", PrecisionPreset::mxfp8},
                               {"nvfp4", PrecisionPreset::nvfp4},
                               {"int8", PrecisionPreset::int8}});
// What forward and backward compute with and gradients add up in.
inline constexpr auto kParamFormats = words_of<DType>({{"fp32", DType::fp32},
                                                       {"tf32"},
                                                       {"fp16", DType::fp16},
                                                       {"bf16", DType::bf16},
                                                       {"fp8"},
                                                       {"int8"},
                                                       {"fp4"}});
// What is kept of the optimizer and sent by the reduction.
inline constexpr auto kStateFormats = words_of<DType>({{"fp32", DType::fp32},
                                                       {"tf32"},
                                                       {"fp16", DType::fp16},
                                                       {"bf16", DType::bf16},
                                                       {"fp8", DType::fp8},
                                                       {"int8", DType::int8},
                                                       {"fp4"}});
// What tokens are sent to experts as.
inline constexpr auto kPayloadFormats = words_of<DType>({{"fp32", DType::fp32},
                                                         {"tf32"},
                                                         {"fp16", DType::fp16},
                                                         {"bf16", DType::bf16},
                                                         {"fp8", DType::fp8},
                                                         {"int8"},
                                                         {"fp4"}});
// What an activation is kept in for the backward.
inline constexpr auto kKeptFormats = words_of<KeptFormat>(
    {{"params", KeptFormat::params}, {"fp8", KeptFormat::fp8}, {"e5m6", KeptFormat::e5m6}});
// What weights that are not trained and caches are stored in.
inline constexpr auto kStoredFormats = words_of<DType>({{"fp32", DType::fp32},
                                                        {"fp16", DType::fp16},
                                                        {"bf16", DType::bf16},
                                                        {"fp8", DType::fp8},
                                                        {"int8", DType::int8},
                                                        {"fp4", DType::fp4},
                                                        {"int4", DType::fp4}});  // as many bits
inline constexpr auto kRecomputes = words_of<Recompute>({{"none", Recompute::none},
                                                         {"selective", Recompute::selective},
                                                         {"full", Recompute::full},
                                                         {"per-op", Recompute::per_op}});
inline constexpr auto kRecomputeMethods = words_of<RecomputeMethod>(
    {{"uniform", RecomputeMethod::uniform}, {"block", RecomputeMethod::block}});
inline constexpr auto kRecomputeModules =
    words_of<RecomputeModule>({{"core_attn", RecomputeModule::core_attention},
                               {"moe_act", RecomputeModule::moe_activation},
                               {"layernorm", RecomputeModule::norms},
                               {"mla_up_proj", RecomputeModule::mla_up_projection},
                               {"mlp", RecomputeModule::mlp},
                               {"moe", RecomputeModule::moe},
                               {"shared_experts", RecomputeModule::shared_experts}});
inline constexpr auto kTpOverlaps = words_of<TpOverlap>({{"none", TpOverlap::none},
                                                         {"backward", TpOverlap::backward},
                                                         {"bulk", TpOverlap::bulk},
                                                         {"pipelined", TpOverlap::pipelined}});
inline constexpr auto kOptimizers = words_of<OptimizerKind>(
    {{"adam", OptimizerKind::adam}, {"adamw", OptimizerKind::adamw}, {"muon"}, {"sgd"}});
inline constexpr auto kOptimizerKernels =
    words_of<OptimizerKernel>({{"fused", OptimizerKernel::fused},
                               {"foreach", OptimizerKernel::foreach},
                               {"flat", OptimizerKernel::flat}});
inline constexpr auto kLayerNormKernels = words_of<LayerNormKernel>(
    {{"fused", LayerNormKernel::fused}, {"torch-2021", LayerNormKernel::torch_2021}});
inline constexpr auto kGradientCopies =
    words_of<GradientCopies>({{"none", GradientCopies::none},
                              {"by-tensor", GradientCopies::by_tensor},
                              {"flat", GradientCopies::flat},
                              {"for-norm", GradientCopies::for_norm}});
inline constexpr auto kProductGradients =
    words_of<ProductGradients>({{"added", ProductGradients::added},
                                {"backward", ProductGradients::backward},
                                {"tensors", ProductGradients::tensors}});
inline constexpr auto kModuleLoadings = words_of<bool>({{"lazy", false}, {"eager", true}});
inline constexpr auto kAttentions = words_of<bool>({{"flash", true}, {"unfused", false}});
inline constexpr auto kFlashKernels =
    words_of<AttentionKernel>({{"table", AttentionKernel::table},
                               {"flash-1", AttentionKernel::flash1},
                               {"flash-1-triton", AttentionKernel::flash1_triton},
                               {"flash-2", AttentionKernel::flash2}});
inline constexpr auto kLosses = words_of<Loss>({{"megatron", Loss::megatron},
                                                {"megatron-copied", Loss::megatron_copied},
                                                {"in-place", Loss::in_place},
                                                {"torch", Loss::torch},
                                                {"torch-compiled", Loss::torch_compiled},
                                                {"torch-gathered", Loss::torch_gathered}});
inline constexpr auto kModuleOwners =
    words_of<Modules>({{"torch", Modules::torch},
                       {"megatron", Modules::megatron},
                       {"transformer-engine", Modules::transformer_engine}});
inline constexpr auto kCudaGraphs = words_of<CudaGraph>(
    {{"none", CudaGraph::none}, {"layer", CudaGraph::layer}, {"step", CudaGraph::step}});
inline constexpr auto kHostWaits = words_of<HostWaits>({{"none", HostWaits::none},
                                                        {"forward", HostWaits::forward},
                                                        {"passes", HostWaits::passes},
                                                        {"launches", HostWaits::launches}});
inline constexpr auto kDispatchers = words_of<Dispatcher>({{"allgather", Dispatcher::all_gather},
                                                           {"alltoall", Dispatcher::all_to_all},
                                                           {"deepep", Dispatcher::deepep}});
inline constexpr auto kSwitch = words_of<bool>({{"off", false}, {"on", true}});
inline constexpr auto kLinkSharings =
    words_of<Scenario::Links>({{"off", Scenario::Links::off},
                               {"on", Scenario::Links::on},
                               {"auto", Scenario::Links::automatic}});
inline constexpr auto kInterferences =
    words_of<Scenario::Interference>({{"off", Scenario::Interference::off},
                                      {"on", Scenario::Interference::on},
                                      {"auto", Scenario::Interference::automatic}});
inline constexpr auto kDrawnPer = words_of<bool>({{"op", true}, {"rank", false}});

// ---------------------------------------------------------------------------------------- rows

// In the order of the schema; a section comes before what is in it.  Designated initialisers: a row
// names only what it has.
inline constexpr Field kFields[] = {
    {.path = "schema",
     .type = FieldType::whole,
     .summary = "version of the scenario format",
     .fallback = "1",
     .reason = "the only version there is",
     .now = "1"},
    {.path = "name", .type = FieldType::text, .summary = "shown in reports"},
    {.path = "description", .type = FieldType::text, .summary = "what the scenario is about"},
    {.path = "tags", .type = FieldType::noted, .summary = "words to find the scenario by"},
    {.path = "extends",
     .type = FieldType::texts,
     .summary = "scenario files this one builds on; later ones win, this file wins over all"},

    {.path = "model",
     .type = FieldType::opaque,
     .summary = "a preset's name, or keys of a Hugging Face config.json, or {hf: FILE}",
     .shorthand = {"preset"}},

    {.path = "prune",
     .type = FieldType::section,
     .summary = "what is taken away from the model, in shares"},
    {.path = "prune.layers",
     .type = FieldType::share,
     .summary = "of the layers; the first ones stay"},
    {.path = "prune.heads",
     .type = FieldType::share,
     .summary = "of the key-value heads, with their queries"},
    {.path = "prune.ffn", .type = FieldType::share, .summary = "of the width of MLPs and experts"},
    {.path = "prune.hidden",
     .type = FieldType::share,
     .summary = "of the width of the residual stream"},
    {.path = "prune.experts", .type = FieldType::share, .summary = "of the experts of every layer"},
    {.path = "distill",
     .type = FieldType::section,
     .summary = "a teacher runs forward beside the model, which learns from its logits",
     .shorthand = {"teacher"}},
    {.path = "distill.teacher",
     .type = FieldType::opaque,
     .summary = "a model, written as `model` is"},

    {.path = "cluster",
     .type = FieldType::section,
     .summary = "preset x nodes, or what the cluster is made of",
     .shorthand = {"preset"}},
    {.path = "cluster.preset", .type = FieldType::text, .summary = "name of a cluster preset"},
    {.path = "cluster.nodes",
     .type = FieldType::count,
     .summary = "number of nodes",
     .fallback = "1",
     .reason = "one node"},
    {.path = "cluster.node", .type = FieldType::section, .summary = "one node"},
    {.path = "cluster.node.gpu",
     .type = FieldType::section,
     .summary = "a GPU preset's name, or the GPU's data",
     .shorthand = {"preset"}},
    {.path = "cluster.node.gpu.preset", .type = FieldType::text, .summary = "name of a GPU preset"},
    {.path = "cluster.node.gpu.like",
     .type = FieldType::text,
     .summary = "GPU preset whose measured times, scaled by data sheets and power, price what this "
                "one has none of"},
    {.path = "cluster.node.gpu.arch",
     .type = FieldType::choice,
     .summary = "architecture: decides efficiencies",
     .fallback = "other",
     .reason = "unknown, modelled with cautious efficiencies",
     .choices = kGpuArchs,
     .into = into<&Cluster::node, &Node::gpu, &Gpu::arch>},
    {.path = "cluster.node.gpu.memory",
     .type = FieldType::bytes,
     .positive = true,
     .summary = "what the device reports, not the label",
     .into = into<&Cluster::node, &Node::gpu, &Gpu::memory>},
    {.path = "cluster.node.gpu.context",
     .type = FieldType::bytes,
     .summary = "CUDA context with the kernels that are in use",
     .fallback = "512MiB",
     .reason = "about what nvidia-smi shows of a process with a context",
     .into = into<&Cluster::node, &Node::gpu, &Gpu::context>},
    {.path = "cluster.node.gpu.reserve",
     .type = FieldType::bytes,
     .summary = "CUDA context and communication libraries; default: counted (docs/memory.md)"},
    {.path = "cluster.node.gpu.mem_bw",
     .type = FieldType::bandwidth,
     .summary = "data sheet",
     .into = into<&Cluster::node, &Node::gpu, &Gpu::memory_bandwidth>},
    {.path = "cluster.node.gpu.host_bw",
     .type = FieldType::bandwidth,
     .summary = "to the host's memory, one way (offloading)",
     .fallback = "31.5GB/s",
     .reason = "PCIe 4.0 x16",
     .into = into<&Cluster::node, &Node::gpu, &Gpu::host_bandwidth>},
    {.path = "cluster.node.gpu.host_mem_bw",
     .type = FieldType::bandwidth,
     .summary = "its share of the bandwidth of the host's own memory (offloaded optimizer)",
     .fallback = "51.2GB/s",
     .reason = "an eighth of two sockets with eight channels of DDR4-3200",
     .into = into<&Cluster::node, &Node::gpu, &Gpu::host_memory>},
    {.path = "cluster.node.gpu.sms",
     .type = FieldType::count,
     .summary = "streaming multiprocessors",
     .fallback = "108",
     .reason = "as an A100",
     .into = into<&Cluster::node, &Node::gpu, &Gpu::sms>},
    {.path = "cluster.node.gpu.power",
     .type = FieldType::power,
     .summary = "rating of the data sheet, which rates and measured tables are at",
     .into = into<&Cluster::node, &Node::gpu, &Gpu::power>},
    {.path = "cluster.node.gpu.power_limit",
     .type = FieldType::power,
     .summary =
         "what the host lets the GPU draw; products and attention slow down below its rating",
     .into = into<&Cluster::node, &Node::gpu, &Gpu::power_limit>},
    {.path = "cluster.node.gpu.peak",
     .type = FieldType::section,
     .summary = "dense rate by number format"},
    {.path = "cluster.node.gpu.peak.fp32", .type = FieldType::flop_rate},
    {.path = "cluster.node.gpu.peak.tf32", .type = FieldType::flop_rate},
    {.path = "cluster.node.gpu.peak.fp16", .type = FieldType::flop_rate},
    {.path = "cluster.node.gpu.peak.bf16", .type = FieldType::flop_rate},
    {.path = "cluster.node.gpu.peak.fp8", .type = FieldType::flop_rate},
    {.path = "cluster.node.gpu.peak.int8", .type = FieldType::flop_rate},
    {.path = "cluster.node.gpu.peak.fp4", .type = FieldType::flop_rate},
    {.path = "cluster.node.gpus",
     .type = FieldType::count,
     .summary = "GPUs of a node",
     .fallback = "8",
     .reason = "the usual server",
     .into = into<&Cluster::node, &Node::gpus>},
    {.path = "cluster.node.intra",
     .type = FieldType::section,
     .summary = "links between the GPUs of a node"},
    {.path = "cluster.node.intra.kind",
     .type = FieldType::choice,
     .fallback = "nvswitch",
     .reason = "the usual server",
     .choices = kIntraKinds,
     .into = into<&Cluster::node, &Node::intra>},
    {.path = "cluster.node.intra.bw",
     .type = FieldType::bandwidth,
     .summary = "of one GPU, one direction (data sheets give both); of pcie that of gpu.host_bw"},
    {.path = "cluster.node.intra.latency",
     .type = FieldType::time,
     .summary = "between two GPUs",
     .fallback = "1us",
     .reason = "nominal NVLink latency",
     .into = into<&Cluster::node, &Node::intra_latency>},
    {.path = "cluster.node.intra.sharp",
     .type = FieldType::flag,
     .summary = "the switch reduces in the network (NVLS)",
     .fallback = "false",
     .reason = "no reduction in the switch unless it is stated",
     .into = into<&Cluster::node, &Node::sharp>},
    {.path = "cluster.node.intra.switches",
     .type = FieldType::count,
     .most = 1024,
     .summary = "NVSwitch chips, each linked to every GPU",
     .fallback = "1",
     .reason = "all of them as one",
     .into = into<&Cluster::node, &Node::nvswitches>},
    {.path = "cluster.node.intra.links",
     .type = FieldType::count,
     .most = 1024,
     .summary = "NVLinks of a GPU, over all NVSwitches",
     .into = into<&Cluster::node, &Node::nvlinks>},
    {.path = "cluster.node.nics", .type = FieldType::section, .summary = "network cards of a node"},
    {.path = "cluster.node.nics.count",
     .type = FieldType::count,
     .most = 1024,
     .fallback = "8",
     .reason = "one for each GPU of the usual server"},
    {.path = "cluster.node.nics.bw",
     .type = FieldType::bandwidth,
     .summary = "of one card, one direction"},
    {.path = "cluster.node.nics.latency",
     .type = FieldType::time,
     .summary = "end to end between two nodes' cards, switches not counted",
     .fallback = "2us",
     .reason = "nominal InfiniBand latency",
     .into = into<&Cluster::node, &Node::nic_latency>},
    {.path = "cluster.node.nics.driver",
     .type = FieldType::choice,
     .summary = "what drives the cards: collectives reach more or less of them",
     .fallback = "verbs",
     .reason = "NCCL's own InfiniBand",
     .choices = kNicDrivers,
     .into = into<&Cluster::node, &Node::nic_driver>},
    {.path = "cluster.node.nics.affinity",
     .type = FieldType::choice,
     .summary = "which GPUs use a card",
     .fallback = "per-gpu",
     .reason = "GPUDirect: each GPU uses the card nearest to it",
     .choices = kNicAffinities},
    {.path = "cluster.node.hosts",
     .type = FieldType::count,
     .most = 1024,
     .summary = "machines (trays) that share the node's NVLink domain",
     .fallback = "1",
     .reason = "the usual server",
     .into = into<&Cluster::node, &Node::hosts>},
    {.path = "cluster.node.cpus", .type = FieldType::section, .summary = "CPU sockets of a host"},
    {.path = "cluster.node.cpus.count",
     .type = FieldType::count,
     .most = 1024,
     .fallback = "2",
     .reason = "the usual server",
     .into = into<&Cluster::node, &Node::cpus>},
    {.path = "cluster.node.cpus.bw",
     .type = FieldType::bandwidth,
     .summary = "between two sockets, one direction",
     .into = into<&Cluster::node, &Node::cpu_bandwidth>},
    {.path = "cluster.node.cpus.link",
     .type = FieldType::choice,
     .summary = "how a GPU reaches its CPU; its bandwidth is gpu.host_bw",
     .fallback = "pcie",
     .reason = "the usual server",
     .choices = kCpuLinks,
     .into = into<&Cluster::node, &Node::c2c>},
    {.path = "cluster.node.pcie", .type = FieldType::section, .summary = "PCIe of a host"},
    {.path = "cluster.node.pcie.switches",
     .type = FieldType::whole,
     .most = 1024,
     .summary =
         "GPUs and NICs in equal shares behind them; 0: on the CPUs. One for each GPU or NIC "
         "if nics.affinity says so"},
    {.path = "cluster.node.pcie.bw",
     .type = FieldType::bandwidth,
     .summary = "of one GPU or NIC, one direction",
     .into = into<&Cluster::node, &Node::pcie_bandwidth>},
    {.path = "cluster.fabric", .type = FieldType::section, .summary = "the network between nodes"},
    {.path = "cluster.fabric.kind",
     .type = FieldType::choice,
     .fallback = "rail-fat-tree",
     .reason = "the reference design of GPU clusters",
     .choices = kFabricKinds,
     .into = into<&Cluster::fabric, &Fabric::kind>},
    {.path = "cluster.fabric.radix",
     .type = FieldType::count,
     .summary = "ports of a switch",
     .fallback = "64",
     .reason = "Quantum-2 and Spectrum-4 switches",
     .into = into<&Cluster::fabric, &Fabric::radix>},
    {.path = "cluster.fabric.oversub",
     .type = FieldType::number,
     .summary = "down : up of every tier",
     .fallback = "1",
     .reason = "full bisection bandwidth"},
    {.path = "cluster.fabric.sharp",
     .type = FieldType::flag,
     .summary = "switches reduce in the network, and NCCL uses them (CollNet)",
     .fallback = "false",
     .reason = "NCCL leaves CollNet off",
     .into = into<&Cluster::fabric, &Fabric::sharp>},
    {.path = "cluster.fabric.routing",
     .type = FieldType::choice,
     .summary = "where links are shared (contention.links): ecmp draws one of several equal routes "
                "for each pair of GPUs, adaptive spreads over all of them",
     .fallback = "ecmp",
     .reason = "switches route so unless adaptive routing is configured",
     .choices = kFabricRoutings,
     .into = into<&Cluster::fabric, &Fabric::adaptive>},
    {.path = "cluster.fabric.rail_aware",
     .type = FieldType::flag,
     .summary = "what leaves a NIC arrives at the NIC of the same rail, if the receiver has one",
     .fallback = "true",
     .reason = "NCCL's channels stay on their rail where there is one",
     .into = into<&Cluster::fabric, &Fabric::rail_aware>},
    {.path = "cluster.fabric.pxn",
     .type = FieldType::flag,
     .summary = "what goes to another rail first crosses NVLink to the GPU beside it",
     .fallback = "true",
     .reason = "NCCL 2.12 and later (NCCL_PXN_DISABLE=0)",
     .into = into<&Cluster::fabric, &Fabric::pxn>},
    {.path = "cluster.fabric.latency_per_hop",
     .type = FieldType::time,
     .summary = "of one switch",
     .fallback = "200ns",
     .reason = "InfiniBand switch latency, rounded up",
     .into = into<&Cluster::fabric, &Fabric::hop_latency>},
    {.path = "cluster.fabric.tiers",
     .type = FieldType::list,
     .summary = "switch groups, innermost first"},
    {.path = "cluster.fabric.tiers[].name", .type = FieldType::text},
    {.path = "cluster.fabric.tiers[].size",
     .type = FieldType::count,
     .summary = "GPUs under one switch group"},
    {.path = "cluster.fabric.tiers[].oversub", .type = FieldType::number, .summary = "down : up"},
    {.path = "cluster.topology",
     .type = FieldType::section,
     .summary = "the fabric written out: nodes, all of one kind, switches and links"},
    {.path = "cluster.topology.nodes", .type = FieldType::list},
    {.path = "cluster.topology.nodes[].id", .type = FieldType::text},
    {.path = "cluster.topology.nodes[].preset",
     .type = FieldType::text,
     .summary = "of a cluster: this is one of its nodes"},
    {.path = "cluster.topology.nodes[].gpu",
     .type = FieldType::text,
     .summary = "a GPU preset's name"},
    {.path = "cluster.topology.nodes[].gpus", .type = FieldType::count},
    {.path = "cluster.topology.switches", .type = FieldType::list},
    {.path = "cluster.topology.switches[].id", .type = FieldType::text},
    {.path = "cluster.topology.switches[].latency",
     .type = FieldType::time,
     .summary = "of passing it; fabric.latency_per_hop if it is not stated"},
    {.path = "cluster.topology.links", .type = FieldType::list},
    {.path = "cluster.topology.links[].a", .type = FieldType::text},
    {.path = "cluster.topology.links[].b", .type = FieldType::text},
    {.path = "cluster.topology.links[].bw",
     .type = FieldType::bandwidth,
     .summary = "of one cable, a to b; at a node, each has a NIC of its own"},
    {.path = "cluster.topology.links[].bw_back",
     .type = FieldType::bandwidth,
     .summary = "b to a; as `bw` if it is not stated"},
    {.path = "cluster.topology.links[].latency", .type = FieldType::time},
    {.path = "cluster.topology.links[].count",
     .type = FieldType::count,
     .most = 1024,
     .summary = "parallel cables"},

    {.path = "cluster.placement",
     .type = FieldType::section,
     .summary = "which nodes the job runs on; default: all of them, in order"},
    {.path = "cluster.placement.nodes",
     .type = FieldType::texts,
     .summary = "in the order of the ranks: 0, 1, 8-15"},

    {.path = "software",
     .type = FieldType::text,
     .summary = "name of a software profile: what a version of a framework launches and overlaps, "
                "as defaults for the keys that are left out",
     .fallback = "megatron-core",
     .reason = "what the defaults describe; of runs of 2020 to 2023 see megatron-lm-2021 to -2023"},
    {.path = "mode",
     .type = FieldType::choice,
     .summary =
         "what a step is: training; or a forward alone, of whole prompts (prefill) or of one "
         "new token a sequence that sees batch.seq tokens in the cache (decode)",
     .choices = kModes,
     .into = into<&Plan::mode>},

    {.path = "parallel",
     .type = FieldType::section,
     .summary = "how the model is spread over the GPUs"},
    {.path = "parallel.tp",
     .type = FieldType::count,
     .summary = "tensor parallelism",
     .fallback = "1",
     .reason = "no tensor parallelism",
     .into = into<&Plan::tp>},
    {.path = "parallel.cp",
     .type = FieldType::count,
     .summary = "context parallelism",
     .fallback = "1",
     .reason = "no context parallelism",
     .into = into<&Plan::cp>},
    {.path = "parallel.ep",
     .type = FieldType::count,
     .summary = "expert parallelism",
     .fallback = "1",
     .reason = "no expert parallelism",
     .into = into<&Plan::ep>},
    {.path = "parallel.etp",
     .type = FieldType::count,
     .summary = "tensor parallelism of the experts; default: tp, or 1 if tp * cp * dp would not be "
                "a multiple of ep * tp"},
    {.path = "parallel.pp",
     .type = FieldType::count,
     .summary = "pipeline parallelism",
     .fallback = "1",
     .reason = "no pipeline",
     .into = into<&Plan::pp>},
    {.path = "parallel.dp",
     .type = FieldType::count,
     .summary = "model replicas; follows from the number of GPUs"},
    {.path = "parallel.dp_replicate",
     .type = FieldType::count,
     .summary = "replicas of the sharded group (HSDP)",
     .fallback = "1",
     .reason = "no hybrid sharding"},
    {.path = "parallel.vpp",
     .type = FieldType::count,
     .summary = "model chunks of each pipeline rank",
     .fallback = "1",
     .reason = "one chunk for each pipeline rank"},
    {.path = "parallel.sp",
     .type = FieldType::flag,
     .summary = "sequence parallelism in the tensor-parallel group"},
    {.path = "parallel.zero",
     .type = FieldType::choice,
     .summary = "what is sharded over dp and cp: 1 = optimizer state, 2 = gradients too, 3 = "
                "parameters too (FSDP)",
     .fallback = "0",
     .reason = "replicated optimizer, Megatron's default without --use-distributed-optimizer",
     .choices = kZeroStages,
     .into = into<&Plan::zero>},
    {.path = "parallel.zero_exchange",
     .type = FieldType::choice,
     .summary = "zero 1: gradients reduce-scattered, or all-reduced; with 'broadcast' each tensor "
                "then comes from its owner instead of a gather",
     .fallback = "scatter",
     .reason = "Megatron's distributed optimizer",
     .choices = kZeroExchanges,
     .into = into<&Plan::zero_exchange>},
    {.path = "parallel.zero_reduce",
     .type = FieldType::choice,
     .summary = "zero 2: gradients are reduced in every backward (the default), or after the last "
                "of the backwards that a stage runs in a row, and summed unsharded until then",
     .choices = kZeroReduces,
     .into = into<&Plan::zero_reduce>},
    {.path = "parallel.fsdp",
     .type = FieldType::choice,
     .summary = "zero 3: whose way of gathering and keeping parameters",
     .fallback = "fsdp2",
     .reason = "PyTorch's fully_shard",
     .choices = kFsdpKinds},
    {.path = "parallel.fsdp_unit",
     .type = FieldType::count,
     .summary = "zero 3: layers that are gathered together",
     .fallback = "1",
     .reason = "each layer is wrapped by itself",
     .into = into<&Plan::sharding, &Sharding::unit_layers>},
    {.path = "parallel.reshard_after_forward",
     .type = FieldType::flag,
     .summary = "zero 3: gathered parameters are given back after a forward",
     .fallback = "true",
     .reason = "the least memory; PyTorch's default",
     .into = into<&Plan::sharding, &Sharding::reshard_after_forward>},
    {.path = "parallel.vocab_multiple",
     .type = FieldType::count,
     .summary = "the vocabulary is padded to a multiple of so many times tp",
     .fallback = "128",
     .reason = "Megatron's --make-vocab-size-divisible-by 128"},
    {.path = "parallel.order",
     .type = FieldType::text,
     .summary = "rank order, innermost first",
     .fallback = "tp-cp-dp-pp",
     .reason = "Megatron's order"},
    {.path = "parallel.layout",
     .type = FieldType::text,
     .summary = "layers of each stage in Megatron's notation, \"E|(t|)*30,tL\""},
    {.path = "parallel.split",
     .type = FieldType::choice,
     .summary = "without layout: equally many layers a stage; the last stages one more each, where "
                "layers do not divide; equal shares of the products with weights, the head's among "
                "them; or equally many modules, of which embedding, final norm and head are one "
                "each",
     .fallback = "even",
     .reason = "Megatron's split",
     .choices = kLayerSplits},
    {.path = "parallel.cp_comm",
     .type = FieldType::choice,
     .summary = "how ranks see the keys of others: around a ring, gathered, heads exchanged for "
                "tokens, or exchanged inside and a ring outside",
     .fallback = "p2p",
     .reason = "Megatron's --cp-comm-type p2p",
     .choices = kCpComms},
    {.path = "parallel.cp_inner",
     .type = FieldType::count,
     .summary = "a2a+p2p: ranks that exchange heads, neighbours in cp"},

    {.path = "batch", .type = FieldType::section, .summary = "in sequences"},
    {.path = "batch.global", .type = FieldType::tokens, .summary = "sequences of a step"},
    {.path = "batch.micro",
     .type = FieldType::count,
     .summary = "sequences of a microbatch",
     .fallback = "1",
     .reason = "the least memory and the smallest pipeline bubble",
     .into = into<&Plan::micro_batch>},
    {.path = "batch.seq",
     .type = FieldType::tokens,
     .summary = "tokens of a sequence; of the decoder's, where there is an encoder too"},
    {.path = "batch.encoder_seq",
     .type = FieldType::tokens,
     .summary = "tokens of the encoder's sequence; as many as batch.seq if left out"},

    {.path = "schedule",
     .type = FieldType::section,
     .summary = "order of the microbatches in the pipeline",
     .shorthand = {"kind"}},
    {.path = "schedule.kind",
     .type = FieldType::text,
     .summary = "name of a schedule family, or auto: an order made for this scenario"},
    {.path = "schedule.group",
     .type = FieldType::count,
     .summary = "microbatches in one round of a chunk (interleaved)"},
    {.path = "schedule.params",
     .type = FieldType::pairs,
     .summary = "parameters of the family; of auto: placement, split_backward, effort, seed"},
    {.path = "schedule.file", .type = FieldType::text, .summary = "PyTorch's schedule CSV"},
    {.path = "schedule.steps",
     .type = FieldType::texts,
     .summary = "actions of each pipeline rank, \"0F0 0B0 0F1 0B1\""},
    {.path = "schedule.p2p",
     .type = FieldType::choice,
     .summary = "how pipeline transfers block the ranks that make them; default: as the framework "
                "that runs the schedule",
     .choices = kP2pStyleWords},
    {.path = "schedule.scatter_gather",
     .type = FieldType::flag,
     .summary =
         "pipeline transfers without parallel.sp: each tensor-parallel rank sends its part of "
         "a tensor, and the receivers gather it",
     .fallback = "false",
     .reason = "Megatron-Core sends whole tensors",
     .into = into<&Plan::scatter_gather>},
    {.path = "schedule.memory_limit",
     .type = FieldType::bytes,
     .summary = "auto: most bytes of activations on a rank; default: what the GPU has left"},
    {.path = "schedule.post_validation",
     .type = FieldType::flag,
     .summary = "each pipeline rank updates its parameters as soon as its own gradients are there; "
                "the global norm is checked afterwards, so that a step costs the span",
     .fallback = "false",
     .reason = "the global gradient norm is a barrier between the stages",
     .into = into<&Scenario::post_validation>},

    {.path = "precision",
     .type = FieldType::section,
     .summary = "number formats",
     .shorthand = {"preset"}},
    {.path = "precision.preset",
     .type = FieldType::choice,
     .fallback = "bf16-mixed",
     .reason = "the usual training precision",
     .choices = kPrecisionPresets},
    {.path = "precision.params",
     .type = FieldType::choice,
     .summary = "what forward and backward compute with",
     .choices = kParamFormats},
    {.path = "precision.grads",
     .type = FieldType::choice,
     .summary = "main gradient buffer",
     .choices = kParamFormats},
    {.path = "precision.own_grads",
     .type = FieldType::flag,
     .summary = "each backward's own gradients stay, in the format of the parameters, beside wider "
                "main gradients",
     .fallback = "false",
     .reason = "Megatron's products add into the main gradients",
     .into = into<&Plan::precision, &Precision::own_gradients>},
    {.path = "precision.product_grads",
     .type = FieldType::choice,
     .summary = "gradients that products write, where these do not add into the main ones: added "
                "at once; held to the end of the backward; or themselves the main gradients, a "
                "tensor each, until the optimizer runs",
     .fallback = "added",
     .reason = "Megatron's hooks add a gradient as soon as autograd has it",
     .choices = kProductGradients,
     .into = into<&Plan::precision, &Precision::product_gradients>},
    {.path = "precision.reduce",
     .type = FieldType::choice,
     .summary = "what the gradient reduction sends",
     .choices = kStateFormats},
    {.path = "precision.gradient_ratio",
     .type = FieldType::share,
     .summary = "compressed gradients: bytes that their reduction sends, of those without",
     .fallback = "1",
     .reason = "gradients are not compressed"},
    {.path = "precision.master",
     .type = FieldType::flag,
     .summary = "fp32 copy of the parameters in the optimizer"},
    {.path = "precision.moments",
     .type = FieldType::choice,
     .summary = "Adam's two moments",
     .choices = kStateFormats},
    {.path = "precision.fp8_params",
     .type = FieldType::flag,
     .summary = "low-precision presets: the weights of linear layers are kept and gathered in the "
                "GEMMs' format",
     .fallback = "false",
     .reason = "off without Megatron's --fp8-param-gather"},
    {.path = "precision.first_last_bf16",
     .type = FieldType::flag,
     .summary = "low-precision presets: the layers at either end compute in 16 bits",
     .fallback = "false",
     .reason = "off without Megatron's --first-last-layers-bf16"},
    {.path = "precision.first_bf16_layers",
     .type = FieldType::whole,
     .summary = "first_last_bf16: so many at the begin",
     .fallback = "1",
     .reason = "Megatron's --num-layers-at-start-in-bf16 1"},
    {.path = "precision.last_bf16_layers",
     .type = FieldType::whole,
     .summary = "first_last_bf16: so many at the end",
     .fallback = "1",
     .reason = "Megatron's --num-layers-at-end-in-bf16 1"},

    {.path = "precision.attention_output",
     .type = FieldType::choice,
     .summary = "low-precision presets: what fused attention's output is kept in for the backward, "
                "alone; default: as computed, and quantized for the projection beside it",
     .choices = kKeptFormats},
    {.path = "precision.weights",
     .type = FieldType::choice,
     .summary = "prefill, decode, teacher: what the weights of linear layers are stored in",
     .choices = kStoredFormats},
    {.path = "precision.kv_cache",
     .type = FieldType::choice,
     .summary = "prefill, decode: what keys and values are stored in",
     .choices = kStoredFormats},

    {.path = "recompute",
     .type = FieldType::section,
     .summary = "activations computed again in the backward pass",
     .shorthand = {"granularity"}},
    {.path = "recompute.granularity",
     .type = FieldType::choice,
     .fallback = "none",
     .reason = "fastest if the activations fit",
     .choices = kRecomputes,
     .into = into<&Plan::recompute>},
    {.path = "recompute.method",
     .type = FieldType::choice,
     .summary = "full: uniform units, or the first layers of a stage",
     .fallback = "uniform",
     .reason = "every layer is recomputed",
     .choices = kRecomputeMethods,
     .into = into<&Plan::recompute_method>},
    {.path = "recompute.layers",
     .type = FieldType::count,
     .summary = "uniform: layers of a unit; block: layers recomputed in a stage",
     .fallback = "1",
     .reason = "Megatron's --recompute-num-layers 1"},
    {.path = "recompute.modules",
     .type = FieldType::choices,
     .summary = "selective: what is recomputed",
     .fallback = "[core_attn]",
     .reason = "Megatron's default of selective recomputation",
     .choices = kRecomputeModules},
    {.path = "recompute.distribute",
     .type = FieldType::flag,
     .summary = "full: what is kept of a unit is split over the tensor-parallel group",
     .fallback = "false",
     .reason = "off without Megatron's --distribute-saved-activations"},

    {.path = "overlap", .type = FieldType::section, .summary = "communication beside computation"},
    {.path = "overlap.tp",
     .type = FieldType::choice,
     .summary = "tensor-parallel collectives",
     .fallback = "backward",
     .reason = "Megatron overlaps them with the backward GEMMs",
     .choices = kTpOverlaps,
     .into = into<&Plan::overlap, &Overlap::tp>},
    {.path = "overlap.dp_grad",
     .type = FieldType::flag,
     .summary = "gradient reduction by bucket, beside the last backward",
     .fallback = "false",
     .reason = "off without Megatron's --overlap-grad-reduce"},
    {.path = "overlap.dp_param",
     .type = FieldType::flag,
     .summary = "parameter all-gather beside the first forward",
     .fallback = "false",
     .reason = "off without Megatron's --overlap-param-gather",
     .into = into<&Plan::overlap, &Overlap::dp_param>},
    {.path = "overlap.pp_p2p",
     .type = FieldType::flag,
     .summary =
         "pipeline transfers beside computation; without it 1F1B exchanges as Megatron does"},
    {.path = "overlap.bucket",
     .type = FieldType::whole,
     .summary = "parameters of a gradient bucket; 0 = Megatron's max(40e6, 1e6 dp)",
     .fallback = "0",
     .reason = "Megatron's max(40e6, 1e6 dp)",
     .into = into<&Plan::bucket_parameters>},
    {.path = "overlap.ep",
     .type = FieldType::flag,
     .summary = "expert all-to-all of one microbatch beside the compute of another",
     .fallback = "false",
     .reason = "off without Megatron's --overlap-moe-expert-parallel-comm",
     .into = into<&Plan::overlap, &Overlap::ep>},
    {.path = "overlap.comm_sms",
     .type = FieldType::whole,
     .summary = "SMs that exchanges of experts keep to themselves in overlapped pairs",
     .fallback = "0",
     .reason = "communication takes no SMs from compute"},
    {.path = "overlap.fsdp_prefetch",
     .type = FieldType::whole,
     .summary = "zero 3: units gathered ahead",
     .fallback = "1",
     .reason = "PyTorch gathers the next unit beside the compute of this one",
     .into = into<&Plan::sharding, &Sharding::prefetch>},
    {.path = "overlap.gather_bucket",
     .type = FieldType::whole,
     .summary = "zero 1 and 2: parameters gathered at once after the optimizer; 0 = a stage",
     .fallback = "0",
     .reason = "one gather for each chunk"},

    {.path = "optimizer", .type = FieldType::section, .shorthand = {"kind"}},
    {.path = "optimizer.kind",
     .type = FieldType::choice,
     .fallback = "adam",
     .reason = "the usual optimizer",
     .choices = kOptimizers},
    {.path = "optimizer.kernel",
     .type = FieldType::choice,
     .summary = "what Adam holds while it runs: nothing, a number in fp32 for each parameter "
                "(torch.optim's foreach), or two (torch.optim on one flat tensor)",
     .fallback = "fused",
     .reason = "apex and Transformer Engine",
     .choices = kOptimizerKernels,
     .into = into<&Plan::optimizer_kernel>},
    {.path = "optimizer.gradient_copies",
     .type = FieldType::choice,
     .summary = "what gradients are copied to before Adam runs, beside fp32 if they are narrower: "
                "buckets, each tensor to fp32 and fp64, and one flat tensor (DeepSpeed's ZeRO-1); "
                "each to fp32 before these are flat (its FP16_Optimizer); or all narrower ones to "
                "fp32 at once for their norm (InternEvo)",
     .fallback = "none",
     .reason = "Megatron's optimizers work on the buffer of gradients",
     .choices = kGradientCopies,
     .into = into<&Plan::gradient_copies>},
    {.path = "optimizer.whole_master",
     .type = FieldType::flag,
     .summary = "ZeRO-1: every rank has the fp32 copy of all of its parameters, not of its shard",
     .fallback = "false",
     .reason = "optimizer states are sharded",
     .into = into<&Plan::whole_master>},
    {.path = "optimizer.clip",
     .type = FieldType::flag,
     .summary = "global gradient norm before the step",
     .fallback = "true",
     .reason = "Megatron's --clip-grad 1.0",
     .into = into<&Plan::clip_gradients>},

    {.path = "kernels",
     .type = FieldType::section,
     .summary = "which kernels the framework launches"},
    {.path = "kernels.attention",
     .type = FieldType::choice,
     .fallback = "flash",
     .reason = "fused attention, the default of today's frameworks",
     .choices = kAttentions,
     .into = into<&Plan::kernels, &Kernels::flash_attention>},
    {.path = "kernels.flash_kernel",
     .type = FieldType::choice,
     .summary = "which fused attention; table: the one that was measured on the GPU",
     .fallback = "table",
     .reason = "FlashAttention 2 on Ampere, cuDNN on Hopper and Blackwell",
     .choices = kFlashKernels,
     .into = into<&Plan::kernels, &Kernels::fused_attention>},
    {.path = "kernels.dropout",
     .type = FieldType::section,
     .summary = "probabilities",
     .shorthand = {"attention", "hidden"}},
    {.path = "kernels.dropout.attention",
     .type = FieldType::share,
     .fallback = "0",
     .reason = "large models train without dropout"},
    {.path = "kernels.dropout.hidden",
     .type = FieldType::share,
     .fallback = "0",
     .reason = "large models train without dropout"},
    {.path = "kernels.fused_bias",
     .type = FieldType::flag,
     .summary = "bias in the GEMM's epilogue",
     .fallback = "false",
     .reason = "Megatron adds biases in kernels of their own",
     .into = into<&Plan::kernels, &Kernels::fused_bias>},
    {.path = "kernels.fused_bias_dropout_add",
     .type = FieldType::flag,
     .summary = "bias, dropout and residual in one kernel",
     .fallback = "true",
     .reason = "Megatron's default",
     .into = into<&Plan::kernels, &Kernels::fused_bias_dropout_add>},
    {.path = "kernels.fused_activation",
     .type = FieldType::flag,
     .summary = "bias and GELU, or SiLU and product, in one kernel",
     .fallback = "true",
     .reason = "Megatron's default",
     .into = into<&Plan::kernels, &Kernels::fused_activation>},
    {.path = "kernels.gate_views",
     .type = FieldType::flag,
     .summary = "gated MLPs without kernels.fused_activation: gate and up are views of one "
                "product's output, whose gradients a copy puts side by side",
     .fallback = "false",
     .reason = "most have a product for each",
     .into = into<&Plan::kernels, &Kernels::gate_views>},
    {.path = "kernels.fused_softmax",
     .type = FieldType::flag,
     .summary = "scale, mask and softmax in one kernel",
     .fallback = "true",
     .reason = "Megatron's default",
     .into = into<&Plan::kernels, &Kernels::fused_softmax>},
    {.path = "kernels.softmax_fp32",
     .type = FieldType::flag,
     .summary = "without fused_softmax: scores are converted to fp32 before they are scaled, and "
                "the probabilities back",
     .fallback = "false",
     .reason = "off without Megatron's --attention-softmax-in-fp32",
     .into = into<&Plan::kernels, &Kernels::softmax_fp32>},
    {.path = "kernels.fused_cross_entropy",
     .type = FieldType::flag,
     .summary = "one kernel each way",
     .fallback = "false",
     .reason = "off without Megatron's --cross-entropy-loss-fusion",
     .into = into<&Plan::kernels, &Kernels::fused_cross_entropy>},
    {.path = "kernels.loss",
     .type = FieldType::choice,
     .summary =
         "cross-entropy: Megatron's; the same beside a copy of the logits in fp32 (nanotron); "
         "over the logits (Transformer Engine, Liger-Kernel); torch.nn.functional's in "
         "fp32, compiled, or with gathered logits",
     .fallback = "megatron",
     .reason = "Megatron's vocabulary-parallel cross-entropy",
     .choices = kLosses,
     .into = into<&Plan::kernels, &Kernels::loss>},
    {.path = "kernels.gradient_accumulation_fusion",
     .type = FieldType::flag,
     .summary = "weight-gradient GEMMs add into the main gradients",
     .fallback = "true",
     .reason = "Megatron's default",
     .into = into<&Plan::kernels, &Kernels::gradient_accumulation_fusion>},
    {.path = "kernels.fused_norm",
     .type = FieldType::flag,
     .summary = "norms in one kernel; false: RMSNorm by PyTorch's operators, in fp32",
     .fallback = "true",
     .reason = "kernels of apex or Transformer Engine",
     .into = into<&Plan::kernels, &Kernels::fused_norm>},
    {.path = "kernels.fused_input_norm",
     .type = FieldType::flag,
     .summary = "the norm before attention in one kernel, where kernels.fused_norm is true; false: "
                "that norm alone by PyTorch's operators",
     .fallback = "true",
     .reason = "as the others",
     .into = into<&Plan::kernels, &Kernels::fused_input_norm>},
    {.path = "kernels.layer_norm",
     .type = FieldType::choice,
     .summary = "LayerNorm: fused, one kernel each way; torch-2021: PyTorch before 1.11, two and "
                "three kernels, each of which reads its input again",
     .fallback = "fused",
     .reason = "kernels of apex or Transformer Engine",
     .choices = kLayerNormKernels,
     .into = into<&Plan::kernels, &Kernels::layer_norm>},
    {.path = "kernels.fused_rotary",
     .type = FieldType::flag,
     .summary = "queries and keys are rotated in one kernel, where they lie; false: by PyTorch's "
                "operators, out of the output of one projection, which stays for the values",
     .fallback = "true",
     .reason = "kernels of apex, Transformer Engine and flash-attn",
     .into = into<&Plan::kernels, &Kernels::fused_rotary>},
    {.path = "kernels.keep_gathered",
     .type = FieldType::flag,
     .summary =
         "with sequence parallelism the inputs of column-parallel layers stay gathered until "
         "their backward; without tensor-parallel overlap, experts and low precision",
     .fallback = "false",
     .reason = "Megatron keeps a rank's part and gathers it again",
     .into = into<&Plan::kernels, &Kernels::keep_gathered>},
    {.path = "kernels.context_copies",
     .type = FieldType::flag,
     .summary = "with several sequences in a microbatch the context of fused attention is copied "
                "for the projection, and both stay",
     .fallback = "false",
     .reason = "Transformer Engine hands on what the kernel wrote",
     .into = into<&Plan::kernels, &Kernels::context_copies>},
    {.path = "kernels.held_logits",
     .type = FieldType::whole,
     .summary = "microbatches whose 16-bit logits the framework refers to: 1, until the backward "
                "ends; 2, those of the microbatch before too",
     .fallback = "0",
     .reason = "freed when the loss has read them",
     .into = into<&Plan::kernels, &Kernels::held_logits>},
    {.path = "kernels.modules",
     .type = FieldType::choice,
     .summary = "whose layers launch the kernels: what the host takes for it",
     .fallback = "transformer-engine",
     .reason = "Megatron-Core's --transformer-impl",
     .choices = kModuleOwners,
     .into = into<&Plan::kernels, &Kernels::modules>},
    {.path = "kernels.gradient_placeholders",
     .type = FieldType::flag,
     .summary = "with Transformer Engine and gradient_accumulation_fusion: a tensor for each shape "
                "of weights, which autograd takes for their gradient",
     .fallback = "true",
     .reason = "Transformer Engine from 2.3",
     .into = into<&Plan::kernels, &Kernels::gradient_placeholders>},
    {.path = "kernels.libraries",
     .type = FieldType::whole,
     .most = 2099,
     .summary = "year of the software: kernels of a generation's first years are slower, and so "
                "are hosts with Python of 2022 and before",
     .fallback = "0",
     .reason = "as young as can be",
     .into = into<&Plan::kernels, &Kernels::libraries>},
    {.path = "kernels.blas_workspace",
     .type = FieldType::bytes,
     .summary = "what PyTorch gives cuBLAS for each thread that multiplies"},
    {.path = "kernels.module_loading",
     .type = FieldType::choice,
     .summary = "when CUDA loads kernels: those that are used, or all of PyTorch's at once",
     .fallback = "lazy",
     .reason = "PyTorch from 1.13 sets CUDA_MODULE_LOADING=LAZY",
     .choices = kModuleLoadings},
    {.path = "kernels.nccl",
     .type = FieldType::count,
     .most = 29999,
     .summary = "version of NCCL, from 2.7 on, as NCCL_VERSION_CODE has it (22105 is 2.21.5), "
                "which decides what buffers its communicators hold",
     .fallback = "22105",
     .reason = "what PyTorch 2.4 to 2.6 bring along"},
    {.path = "kernels.expandable_segments",
     .type = FieldType::flag,
     .summary = "PyTorch's caching allocator has one segment that grows "
                "(PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
     .fallback = "false",
     .reason = "PyTorch's default"},
    {.path = "kernels.record_streams",
     .type = FieldType::flag,
     .summary = "what a tensor-parallel collective has read is free again only when the device has "
                "ended it, 1,024 launches behind the host",
     .fallback = "false",
     .reason = "TORCH_NCCL_AVOID_RECORD_STREAMS=1, as recipes of NVIDIA set it"},
    {.path = "kernels.cuda_graph",
     .type = FieldType::choice,
     .summary = "what is launched as one",
     .fallback = "none",
     .reason = "off without Megatron's --cuda-graph-impl",
     .choices = kCudaGraphs},
    {.path = "kernels.host_waits",
     .type = FieldType::choice,
     .summary = "where the host waits for its device: before each forward pass, around all passes, "
                "after all that it launches",
     .fallback = "none",
     .reason = "Megatron-Core does not wait there; for counts of experts, moe says",
     .choices = kHostWaits,
     .into = into<&Plan::kernels, &Kernels::host_waits>},

    {.path = "moe",
     .type = FieldType::section,
     .summary = "mixture of experts: dispatch and routing"},
    {.path = "moe.dispatcher",
     .type = FieldType::choice,
     .summary = "how tokens reach the ranks of their experts",
     .fallback = "alltoall",
     .reason = "what Megatron's recipes set; its own default is allgather",
     .choices = kDispatchers},
    {.path = "moe.dispatch_dtype",
     .type = FieldType::choice,
     .summary = "what tokens are sent as; default: precision.params",
     .choices = kPayloadFormats},
    {.path = "moe.combine_dtype",
     .type = FieldType::choice,
     .summary = "what comes back as; default: precision.params",
     .choices = kPayloadFormats},
    {.path = "moe.capacity_factor",
     .type = FieldType::number,
     .summary = "tokens that an expert takes, of a fair share; 0: all that come",
     .fallback = "0",
     .reason = "no token is dropped"},
    {.path = "moe.pad_to_capacity",
     .type = FieldType::flag,
     .summary = "every expert computes its full capacity",
     .fallback = "false",
     .reason = "off without Megatron's --moe-pad-expert-input-to-capacity"},
    {.path = "moe.grouped_gemm",
     .type = FieldType::flag,
     .summary = "all experts of a rank in one launch",
     .fallback = "true",
     .reason = "what Megatron's recipes set (--moe-grouped-gemm)"},
    {.path = "moe.permute_fusion",
     .type = FieldType::flag,
     .summary = "tokens are reordered by one kernel",
     .fallback = "true",
     .reason = "what Megatron's recipes set (--moe-permute-fusion)"},
    {.path = "moe.router_fusion",
     .type = FieldType::flag,
     .summary = "scores, choice and auxiliary loss of the router in one kernel each way",
     .fallback = "false",
     .reason = "off without Megatron's --moe-router-fusion"},
    {.path = "moe.shared_overlap",
     .type = FieldType::flag,
     .summary = "shared experts run beside dispatch and combine",
     .fallback = "false",
     .reason = "off without Megatron's --moe-shared-expert-overlap"},
    {.path = "moe.activation_input",
     .type = FieldType::choice,
     .summary = "what the input of experts' activations is kept in for the backward; default: as "
                "computed",
     .choices = kKeptFormats},
    {.path = "moe.node_limit",
     .type = FieldType::whole,
     .summary = "deepep: nodes that a token may reach, 0 = any; default: the model's topk_group"},
    {.path = "moe.routing",
     .type = FieldType::section,
     .summary = "which experts tokens choose",
     .shorthand = {"kind"}},
    {.path = "moe.routing.kind",
     .type = FieldType::text,
     .summary = "balanced; zipf(S): the r-th most popular in proportion to r^-S",
     .fallback = "balanced",
     .reason = "what the auxiliary loss works towards"},
    {.path = "moe.routing.shares",
     .type = FieldType::texts,
     .summary = "in place of kind: how much each expert gets, in any unit"},
    {.path = "moe.routing.trace",
     .type = FieldType::text,
     .summary = "in place of kind: CSV file with the tokens that each expert got"},
    {.path = "moe.routing.by_sequence",
     .type = FieldType::flag,
     .summary = "all tokens of a sequence choose alike",
     .fallback = "false",
     .reason = "each token chooses for itself"},
    {.path = "offload", .type = FieldType::section, .summary = "what the host's memory holds"},
    {.path = "offload.optimizer",
     .type = FieldType::share,
     .summary = "share of the optimizer states; their step runs on the CPUs",
     .fallback = "0",
     .reason = "the GPU holds them"},
    {.path = "offload.parameters",
     .type = FieldType::flag,
     .summary = "zero 3: shards of the parameters, which come over before each gather",
     .fallback = "false",
     .reason = "the GPU holds them",
     .into = into<&Plan::offload, &Offload::parameters>},
    {.path = "offload.activation_layers",
     .type = FieldType::whole,
     .summary = "of each stage, whose activations go to the host until the backward",
     .fallback = "0",
     .reason = "the GPU holds them",
     .into = into<&Plan::offload, &Offload::activation_layers>},
    {.path = "contention",
     .type = FieldType::section,
     .summary = "what changes while the step runs because ranks get in each other's way"},
    {.path = "contention.links",
     .type = FieldType::choice,
     .summary = "transfers on one link share it; auto: where that is simulated in about a second",
     .fallback = "off",
     .reason = "prices contain the usual sharing",
     .choices = kLinkSharings,
     .into = into<&Scenario::links>},
    {.path = "contention.interference",
     .type = FieldType::choice,
     .summary = "compute and communication beside each other slow each other down, as measured; "
                "auto: where that was measured and takes no more than some seconds",
     .fallback = "auto",
     .reason = "they use the same multiprocessors and the same memory",
     .choices = kInterferences,
     .into = into<&Scenario::interference>},
    {.path = "perturb",
     .type = FieldType::list,
     .summary = "GPUs and links that are slower than the others"},
    {.path = "perturb[].where",
     .type = FieldType::text,
     .summary = "all, rank 12, ranks 8-15, gpu 12, node 3, stage 2; node 3 nic 1, node 3 nvlink"},
    {.path = "perturb[].compute",
     .type = FieldType::section,
     .summary = "factor on the speed of compute, or what it is drawn from",
     .shorthand = {"factor"}},
    {.path = "perturb[].compute.factor",
     .type = FieldType::number,
     .summary = "0.8 = 80 % of its speed"},
    {.path = "perturb[].compute.lognormal",
     .type = FieldType::section,
     .summary = "times are multiplied by a factor with median 1"},
    {.path = "perturb[].compute.lognormal.sigma",
     .type = FieldType::number,
     .summary = "of its logarithm, 0 to 1"},
    {.path = "perturb[].compute.lognormal.per",
     .type = FieldType::choice,
     .summary = "drawn anew for each op, or once for each rank",
     .fallback = "op",
     .reason = "kernel times vary from launch to launch",
     .choices = kDrawnPer},
    {.path = "perturb[].bw",
     .type = FieldType::number,
     .summary = "factor on the bandwidth of the NICs of these GPUs, or of their NVLink, 0 to 1"},
    {.path = "perturb[].latency",
     .type = FieldType::time,
     .summary = "more latency of the same links"},
    {.path = "perturb[].from", .type = FieldType::time, .summary = "since the begin of the step"},
    {.path = "perturb[].until", .type = FieldType::time},
    {.path = "replicas",
     .type = FieldType::count,
     .most = 10'000,
     .summary = "runs with seeds seed, seed + 1, ...: mean and percentiles of the step time",
     .fallback = "1",
     .reason = "one run",
     .into = into<&Scenario::replicas>},
    {.path = "calibration",
     .type = FieldType::texts,
     .summary = "files of one's own: a cost table instead of the shipped one of the GPU, own runs "
                "that `stepcast calibrate runs` learnt from; or the name of a shipped table"},
    {.path = "in_situ",
     .type = FieldType::choice,
     .summary = "what kernels, collectives and the host take longer inside a step than measured "
                "alone, as estimated from published runs",
     .fallback = "on",
     .reason = "the best estimate of what will be measured",
     .choices = kSwitch,
     .into = into<&Scenario::in_situ>},
    {.path = "env", .type = FieldType::noted, .summary = "environment variables of the run"},
    {.path = "seed",
     .type = FieldType::whole,
     .summary = "of random numbers",
     .fallback = "0",
     .reason = "any will do"},
    {.path = "job",
     .type = FieldType::section,
     .summary = "the whole training, of which this is a step"},
    {.path = "job.tokens",
     .type = FieldType::tokens,
     .summary = "that it trains on: 15T; a search then knows days"},
    {.path = "job.price",
     .type = FieldType::text,
     .summary = "of a GPU: 2.5USD/GPUh; a search then knows what the training costs"},
    {.path = "job.failures",
     .type = FieldType::section,
     .summary = "how often the job is interrupted, and how long it then stands; a word: the fleet",
     .shorthand = {"fleet"}},
    {.path = "job.failures.fleet",
     .type = FieldType::text,
     .summary = "whose published failure rate is taken: llama3, rsc-1, rsc-2",
     .fallback = "llama3",
     .reason =
         "419 unexpected interruptions of 2,048 nodes in 54 days (arXiv 2407.21783, table 5)"},
    {.path = "job.failures.per_node_day",
     .type = FieldType::number,
     .summary = "interruptions that a node causes a day, instead of the fleet's"},
    {.path = "job.failures.per_job_day",
     .type = FieldType::number,
     .summary = "interruptions a day that no node causes, whatever the size of the job",
     .fallback = "0",
     .reason = "published rates are of nodes"},
    {.path = "job.failures.mtbf",
     .type = FieldType::time,
     .positive = true,
     .summary = "mean time between interruptions of the job, instead of rates"},
    {.path = "job.failures.restart",
     .type = FieldType::time,
     .summary = "from an interruption until processes are up: detection, replacement and "
                "initialization together; loading, warm-up and what is done again come on top",
     .fallback = "5min",
     .reason = "what Kokolis et al. reckon with (arXiv 2410.21680); MegaScale names less than 10 "
               "min for detection and diagnosis (arXiv 2402.15627)"},
    {.path = "job.failures.detect",
     .type = FieldType::time,
     .summary = "until an interruption is noticed and its cause is known"},
    {.path = "job.failures.replace",
     .type = FieldType::section,
     .summary = "how a node that failed is replaced; a time: by a spare",
     .shorthand = {"spare"}},
    {.path = "job.failures.replace.spare",
     .type = FieldType::time,
     .summary = "until another node stands in"},
    {.path = "job.failures.replace.repair",
     .type = FieldType::time,
     .positive = true,
     .summary = "until the node itself is back; with spares, how long one is away"},
    {.path = "job.failures.init",
     .type = FieldType::time,
     .summary = "processes, communicators and the program's start"},
    {.path = "job.failures.warmup",
     .type = FieldType::time,
     .summary = "lost by slow first steps after a restart",
     .fallback = "0s",
     .reason = "no published figure"},
    {.path = "job.failures.causes",
     .type = FieldType::list,
     .summary = "causes with times of their own; their rates add up to the job's"},
    {.path = "job.failures.causes[].name", .type = FieldType::text, .summary = "for the answer"},
    {.path = "job.failures.causes[].per_node_day", .type = FieldType::number},
    {.path = "job.failures.causes[].per_job_day", .type = FieldType::number},
    {.path = "job.failures.causes[].detect", .type = FieldType::time},
    {.path = "job.failures.causes[].replace",
     .type = FieldType::time,
     .summary = "until another node stands in"},
    {.path = "job.failures.causes[].repair",
     .type = FieldType::time,
     .summary =
         "until the node is back; 0s: the node stays, the processes alone are started again"},
    {.path = "job.failures.causes[].init", .type = FieldType::time},
    {.path = "job.spares",
     .type = FieldType::whole,
     .most = 100'000,
     .summary = "nodes that stand by for those in repair; default: as many as are needed"},
    {.path = "job.checkpoint",
     .type = FieldType::section,
     .summary = "how often the state is saved, and how long that takes; a time: how often",
     .shorthand = {"every"}},
    {.path = "job.checkpoint.every",
     .type = FieldType::text,
     .summary = "auto: what loses least; 1h; 500 steps",
     .fallback = "auto",
     .reason = "what loses least (Daly 2006)"},
    {.path = "job.checkpoint.mode",
     .type = FieldType::choice,
     .summary = "sync: training stands until all is written; async: until it is copied to the host",
     .fallback = "sync",
     .reason = "as Megatron-LM without --async-save, and torchtitan",
     .choices = kCheckpointModes},
    {.path = "job.checkpoint.write_bw",
     .type = FieldType::bandwidth,
     .summary = "of the storage, all nodes of the job together; default: 0.977 GB/s a node, as the "
                "2TB/s of Llama 3's 2,048 (arXiv 2407.21783, 3.3.1)"},
    {.path = "job.checkpoint.read_bw",
     .type = FieldType::bandwidth,
     .summary = "the same of reading; default: as of writing"},
    {.path = "job.checkpoint.block",
     .type = FieldType::time,
     .summary = "how long training stands at a checkpoint, where that was measured"},
    {.path = "job.checkpoint.save",
     .type = FieldType::time,
     .summary = "until a checkpoint is complete, where that was measured"},
    {.path = "job.checkpoint.load",
     .type = FieldType::time,
     .summary = "how long loading one takes, where that was measured"},
    {.path = "job.checkpoint.memory_copies",
     .type = FieldType::count,
     .most = 16,
     .summary = "nodes that keep a copy of each state in their memory beside the checkpoints on "
                "storage, its own included; from 2 on the loss of a node is survived"},
    {.path = "job.checkpoint.memory_every",
     .type = FieldType::text,
     .summary = "how often such a copy is made: 1 steps, 10min",
     .fallback = "1 steps",
     .reason = "as GEMINI (SOSP 2023)"},
    {.path = "job.checkpoint.memory_block",
     .type = FieldType::time,
     .summary = "how long training stands for such a copy",
     .fallback = "0s",
     .reason = "GEMINI copies while the network is idle (SOSP 2023)"},
    {.path = "job.checkpoint.memory_load",
     .type = FieldType::time,
     .summary = "how long loading from memory takes",
     .fallback = "10s",
     .reason = "GEMINI reads a copy in seconds (SOSP 2023)"},
    {.path = "job.power",
     .type = FieldType::section,
     .summary = "what nodes draw; a power: of a node, whatever it does",
     .shorthand = {"node"}},
    {.path = "job.power.node",
     .type = FieldType::power,
     .summary = "of a node, all of it, whatever it does; default: GPUs by kind of operation, and "
                "their host"},
    {.path = "job.power.pue",
     .type = FieldType::number,
     .summary = "energy of the building over that of its computers, from 1"},
    {.path = "job.carbon", .type = FieldType::text, .summary = "CO2 of the electricity: 385g/kWh"},
    {.path = "job.rampup",
     .type = FieldType::list,
     .summary = "what the batch is before it is that of the step, in order"},
    {.path = "job.rampup[].tokens",
     .type = FieldType::tokens,
     .summary = "trained on so, from the end of the line before"},
    {.path = "job.rampup[].batch", .type = FieldType::count, .summary = "batch.global of it"},
    {.path = "job.rampup[].seq", .type = FieldType::count, .summary = "batch.seq of it"},
    {.path = "job.evaluation", .type = FieldType::section, .summary = "pauses between steps"},
    {.path = "job.evaluation.every", .type = FieldType::text, .summary = "1000 steps, 4h"},
    {.path = "job.evaluation.takes", .type = FieldType::time},

    {.path = "measured", .type = FieldType::section, .summary = "what a real run took"},
    {.path = "measured.step_time", .type = FieldType::time},
    {.path = "measured.tokens_per_gpu_s", .type = FieldType::number},
    {.path = "measured.peak_memory",
     .type = FieldType::bytes,
     .summary = "the most that was allocated on a GPU"},
    {.path = "measured.reserved_memory",
     .type = FieldType::bytes,
     .summary = "the most that PyTorch's allocator held there"},
    {.path = "measured.tolerance",
     .type = FieldType::share,
     .summary = "how far the prediction may be off",
     .fallback = "10%",
     .reason = "what a good model reaches"},
    {.path = "measured.source",
     .type = FieldType::text,
     .summary = "where the figures were published"},
    {.path = "measured.variants",
     .type = FieldType::names,
     .summary = "the run with something changed"},
    {.path = "measured.variants.*.set",
     .type = FieldType::opaque,
     .summary = "dotted path -> value"},
    {.path = "measured.variants.*.step_time", .type = FieldType::time},
    {.path = "measured.variants.*.tokens_per_gpu_s", .type = FieldType::number},
    {.path = "measured.variants.*.peak_memory", .type = FieldType::bytes},
    {.path = "measured.variants.*.reserved_memory", .type = FieldType::bytes},
    {.path = "measured.variants.*.tolerance", .type = FieldType::share},
    {.path = "measured.variants.*.source", .type = FieldType::text},

    {.path = "compare", .type = FieldType::section, .summary = "named cases against a baseline"},
    {.path = "compare.baseline",
     .type = FieldType::text,
     .summary = "name of a case; default: the first"},
    {.path = "compare.cases", .type = FieldType::names},
    {.path = "compare.cases.*", .type = FieldType::opaque, .summary = "dotted path -> value"},

    {.path = "sweep",
     .type = FieldType::section,
     .summary = "what `stepcast sweep` forecasts: the scenario with other values"},
    {.path = "sweep.axes",
     .type = FieldType::noted,
     .summary = "by dotted path the values that a key takes: {parallel.tp: [1, 2, 4]}"},
    {.path = "sweep.mode",
     .type = FieldType::choice,
     .summary = "product (the default): every value of each axis with all of the others; zip: the "
                "first values of all axes, then the second ones",
     .choices = kSweepModes},
    {.path = "search",
     .type = FieldType::section,
     .summary = "what `stepcast search` looks for, and among which layouts"},
    {.path = "search.space",
     .type = FieldType::noted,
     .summary = "auto (the default), or by dotted path what a key may be: auto, a value or a list; "
                "layouts are made of parallel.tp, cp, pp, vpp, ep, etp, zero, split, batch.micro, "
                "recompute and schedule"},
    {.path = "search.schedules",
     .type = FieldType::texts,
     .summary = "orders of the pipeline; default: those that the software runs"},
    {.path = "search.where",
     .type = FieldType::texts,
     .summary = "conditions on layouts: tp * cp <= 16 and recompute != full"},
    {.path = "search.objective",
     .type = FieldType::texts,
     .summary =
         "step_time (the default), tokens_per_gpu_s, peak_memory, days, price or energy; several "
         "ask for the Pareto front"},
    {.path = "search.constraints",
     .type = FieldType::texts,
     .summary = "conditions on what a layout takes and holds: peak_memory <= 60GiB"},
    {.path = "search.memory_margin",
     .type = FieldType::share,
     .summary = "of the usable memory that stays free; default 5%"},
    {.path = "search.prune",
     .type = FieldType::choice,
     .summary = "safe (the default): what is left out is proven to be no better; fast: by rules of "
                "thumb too",
     .choices = kPruneKinds},
    {.path = "search.top",
     .type = FieldType::count,
     .most = 1000,
     .summary = "how many layouts are shown; default 10"},
    {.path = "search.budget",
     .type = FieldType::time,
     .summary = "how long to search; what is left undecided then is said"},
};

static_assert(std::all_of(std::begin(kFields), std::end(kFields),
                          [](const Field& f) { return !f.into.put || f.into.fits(f); }),
              "a row is put into a member of its type");

// ---------------------------------------------------------------------------------------- keys

// All rows.
constexpr std::span<const Field> scenario_fields() {
  return kFields;
}

// nullptr if there is no such row.  The path of a value: list positions and free names as in Field.
constexpr const Field* find_field(std::string_view path) {
  for (const Field& f : kFields)
    if (f.path == path) return &f;
  return nullptr;
}

// Never defined: calling them where a constant is computed is what makes a wrong key an error.
void the_table_of_keys_has_no_such_path();
void the_row_of_this_key_holds_another_type();

// A key that a resolver names by its path.
class Key {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): paths are written where keys are wanted
  consteval Key(const char* path) : row_(find_field(path)) {
    if (row_ == nullptr) the_table_of_keys_has_no_such_path();
  }
  constexpr explicit Key(const Field& row) : row_(&row) {}
  // One of the free names below a row of pairs: {"schedule.params", "tF"}.  `name` outlives the
  // key.
  constexpr Key(Key around, std::string_view name) : row_(around.row_), name_(name) {}

  constexpr const Field& row() const { return *row_; }
  constexpr size_t index() const { return static_cast<size_t>(row_ - kFields); }
  std::string path() const;
  friend constexpr bool operator==(const Key&, const Key&) = default;

 private:
  const Field* row_;
  std::string_view name_{};
};

// A key whose value is a T.  (It holds a Key and is none: clang 14 fails on constants of a class
// that has a base.)
template <class T>
class KeyOf {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor)
  consteval KeyOf(const char* path) : key_(path) {
    if (!holds<T>(key_.row())) the_row_of_this_key_holds_another_type();
  }
  // NOLINTNEXTLINE(google-explicit-constructor)
  constexpr operator Key() const { return key_; }
  constexpr const Field& row() const { return key_.row(); }
  std::string path() const { return key_.path(); }

 private:
  Key key_;
};

// For loops over a few keys: for (const Key key : Keys{"parallel.tp", "parallel.pp"}).
using Keys = std::initializer_list<Key>;

// "tp" of "parallel.tp".
std::string last_word(std::string_view path);

// Whether what stands at `path` says what the scenario is called, was measured or is compared with,
// and nothing of what happens in the step.  Of a software profile the keys that it fills in do.
bool is_label(std::string_view path);

// "a, b or c"; of those that are modelled alone, if `modelled`.
std::string choices_text(const Choices& choices, bool modelled = false);

// The table as JSON Schema (draft 2020-12), with which editors complete and check scenarios: one
// object a line, ends with '\n'.
std::string scenario_json_schema();

// What a key is called in another tool: for "did you mean".
struct ForeignName {
  std::string_view foreign;  // normalised: lower case, '_'
  std::string_view path;     // ours, "batch.global"
  std::string_view note;     // "Megatron's --global-batch-size is batch.global here"; may be empty
};

// By a key as the user wrote it ("--global-batch-size", "GBS"); nullptr if it is none.
const ForeignName* find_foreign_name(std::string_view key);

}  // namespace stepcast
