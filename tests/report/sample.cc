// SPDX-License-Identifier: Apache-2.0
#include "tests/report/sample.h"

#include <map>
#include <utility>

namespace stepcast {
namespace {

using namespace literals;

constexpr uint32_t kMicrobatches = 2;

class SampleStep {
 public:
  std::pair<std::shared_ptr<OpGraph>, std::shared_ptr<Prices>> build() {
    graph_->tensor_tables.push_back({{{1'000'000}, MemoryCategory::activations, label("qkv input")},
                                     {{500'000}, MemoryCategory::activations, label("mask")}});
    for (uint32_t rank = 0; rank < 2; ++rank) add_role(rank);
    const LabelId forward = label("activations 0 -> 1");
    const LabelId backward = label("gradients 1 -> 0");
    const WorkId there = send(0, 1), back = send(1, 0);
    for (uint32_t m = 0; m < kMicrobatches; ++m) graph_->rendezvous.push_back({there, 1, forward});
    for (uint32_t m = 0; m < kMicrobatches; ++m) graph_->rendezvous.push_back({back, 1, backward});
    schedule();
    return {graph_, prices_};
  }

 private:
  LabelId label(const std::string& text) {
    graph_->labels.push_back(text);
    return static_cast<LabelId>(graph_->labels.size() - 1);
  }

  WorkId work(const Work& w, Time t, Origin origin, const std::string& basis) {
    graph_->works.push_back(w);
    prices_->by_work.push_back({t, origin, basis});
    return static_cast<WorkId>(graph_->works.size() - 1);
  }

  WorkId send(uint16_t from, uint16_t to) {
    Work w;
    w.kind = WorkKind::send_recv;
    w.axis = Axis::pp;
    w.from = from;
    w.to = to;
    w.bytes = {4096};
    return work(w, 10_us, Origin::roofline, "one message, 1 node");
  }

  // gemm, all-reduce on its own stream, gemm that waits for it.
  PassId pass(const std::string& name, Phase phase, int64_t unit_ps) {
    Work gemm;
    gemm.kind = WorkKind::gemm;
    gemm.m = gemm.n = gemm.k = unit_ps;  // any shape: works of different passes differ
    Work norm;
    norm.kernel = Kernel::layer_norm;
    norm.bytes = {unit_ps};
    Work reduce;
    reduce.kind = WorkKind::all_reduce;
    reduce.axis = Axis::tp;
    reduce.bytes = {unit_ps};
    const WorkId g = work(gemm, Time{100 * unit_ps}, Origin::measured, "table test: exact row");
    const WorkId r = work(reduce, Time{20 * unit_ps}, Origin::interpolated, "ring, 8 ranks");
    const WorkId n = work(norm, Time{30 * unit_ps}, Origin::measured, "table test: exact row");
    Pass p;
    p.name = name;
    p.ops = {{g, Stream::compute, phase, label("qkv"), 0},
             {r, Stream::tp, phase, label("attention all-reduce"), 0},
             {n, Stream::compute, phase, label("norm"), 1}};
    p.waits = WaitGraph(3, {{1, 0}, {2, 1}});
    if (phase == Phase::forward) p.memory = {{0, 0, true}, {2, 1, true}};
    if (phase == Phase::backward_input) p.memory = {{0, 0, false}, {2, 1, false}};
    graph_->passes.push_back(std::move(p));
    return static_cast<PassId>(graph_->passes.size() - 1);
  }

  PassId optimizer_pass() {
    Work adam;
    adam.kernel = Kernel::adam;
    adam.bytes = {1'000'000};
    Pass p;
    p.name = "optimizer";
    p.ops = {{work(adam, 50_us, Origin::roofline, "data sheet"), Stream::compute, Phase::optimizer,
              label("adam"), -1}};
    p.waits = WaitGraph(1, {});
    graph_->passes.push_back(std::move(p));
    return static_cast<PassId>(graph_->passes.size() - 1);
  }

  void add_role(uint32_t rank) {
    RoleOps role;
    role.name = "stage " + std::to_string(rank);
    role.pipeline_rank = rank;
    role.ranks = 4;
    role.memory = {{MemoryCategory::parameters, {2'000'000}},
                   {MemoryCategory::optimizer_state, {6'000'000}}};
    graph_->roles.push_back(std::move(role));
    const int64_t unit = rank == 0 ? 1'000'000 : 1'100'000;
    forward_[rank] = pass("forward", Phase::forward, unit);
    backward_[rank] = pass("backward", Phase::backward_input, 2 * unit);
  }

  void run(uint32_t rank, ActionKind kind, uint32_t microbatch) {
    Item item;
    item.has_action = true;
    item.pass = kind == ActionKind::forward ? forward_[rank] : backward_[rank];
    item.action = {kind, static_cast<uint16_t>(rank), microbatch};
    graph_->roles[rank].items.push_back(item);
  }

  void transfer(uint32_t rank, ItemKind kind, uint32_t id) {
    Item item;
    item.kind = kind;
    item.rendezvous = static_cast<RendezvousId>(id);
    graph_->roles[rank].items.push_back(item);
  }

  void schedule() {
    for (uint32_t m = 0; m < kMicrobatches; ++m) {
      run(0, ActionKind::forward, m);
      transfer(0, ItemKind::post, m);
    }
    for (uint32_t m = 0; m < kMicrobatches; ++m) {
      transfer(1, ItemKind::join, m);
      run(1, ActionKind::forward, m);
      run(1, ActionKind::backward, m);
      transfer(1, ItemKind::post, kMicrobatches + m);
    }
    for (uint32_t m = 0; m < kMicrobatches; ++m) {
      transfer(0, ItemKind::join, kMicrobatches + m);
      run(0, ActionKind::backward, m);
    }
    const PassId adam = optimizer_pass();
    for (RoleOps& role : graph_->roles) {
      Item item;
      item.pass = adam;
      role.items.push_back(item);
    }
  }

  std::shared_ptr<OpGraph> graph_ = std::make_shared<OpGraph>();
  std::shared_ptr<Prices> prices_ = std::make_shared<Prices>();
  std::map<uint32_t, PassId> forward_, backward_;
};

}  // namespace

Result empty_result() {
  Result r;
  r.scenario.name = "nothing";
  return r;
}

Result sample_result() {
  auto [graph, prices] = SampleStep().build();
  check_graph(*graph);
  Result r;
  r.scenario.name = "sample";
  r.scenario.file = "sample.yaml";
  r.scenario.hash = "0123456789abcdef";
  r.scenario.gpu = "TEST-GPU";
  r.scenario.gpus = 8;
  r.scenario.tp = 4;
  r.scenario.pp = 2;
  r.scenario.global_batch = r.scenario.microbatches = 2;
  r.scenario.seq = 128;
  r.scenario.schedule = "1F1B";
  const Program program = compile(*graph, *prices, {}, false);
  r.timeline = run(program, Record::all);
  r.account = make_account(program, r.timeline);
  r.critical_path = critical_path(program, r.timeline);
  r.step_time = r.timeline.makespan;
  r.span = r.timeline.span;
  r.rank_ops = r.timeline.rank_ops;
  for (int i = 0; i < kSpends; ++i)
    if (is_bubble(static_cast<Spend>(i)))
      r.bubble += r.account.by_role[r.account.critical_role][static_cast<size_t>(i)];
  r.what_if = {{Spend::exposed_tp, 132_us}, {Spend::optimizer, 50_us}};
  r.tokens_per_step = 256;
  r.tokens_per_s_per_gpu = 150.43;
  r.model_flops_per_step = 1e15;
  r.utilization = {0.519, 0.511, 0.54, 0.55};
  for (uint32_t i = 0; i < 2; ++i)
    r.memory.push_back({.name = graph->roles[i].name,
                        .memory = trace_memory(*graph)[i],
                        .peak_at = "norm in 0F1",
                        .reserved = {i == 0 ? 16'000'000 : 15'000'000},
                        .activation_terms = {{"qkv input", {2'000'000}}, {"mask", {1'000'000}}}});
  r.peak_role = r.reserved_role = 0;
  r.memory_reserved = {16'000'000};
  r.memory_usable = {32'000'000};
  r.trust = {0.91, 0.07, 0, 0, 0.02};
  r.calibration = "table test";
  r.graph = graph;
  r.prices = prices;
  return r;
}

}  // namespace stepcast
