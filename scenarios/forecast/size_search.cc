// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/size_search.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "model/parameters.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/step_memory.h"
#include "scenarios/schema/keys.h"
#include "schedules/lower/lower.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

std::string layout_text(const LayoutChoice& c) {
  std::string text = "{tp: " + std::to_string(c.tp) + ", pp: " + std::to_string(c.pp);
  if (!c.weights.empty()) return text + '}';
  if (c.ep > 1) text += ", ep: " + std::to_string(c.ep);
  return text + ", zero: " + std::to_string(c.zero) + '}';
}

// The sizes of clusters that are looked at: parts of a node, then nodes.
std::vector<int64_t> gpu_counts(int64_t node, int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t n = 1; n < node && n <= most; n *= 2) counts.push_back(n);
  constexpr int64_t kEveryNode = 16;  // up to so many nodes one by one, then in steps of an eighth
  for (int64_t nodes = 1; nodes * node <= most;
       nodes += std::max<int64_t>(1, nodes / kEveryNode * (kEveryNode / 8)))
    counts.push_back(nodes * node);
  return counts;
}

std::vector<int> zero_stages() {
  std::vector<int> stages;
  for (const Word& word : Key("parallel.zero").row().choices.words)
    if (word.modelled && word.meaning > 0) stages.push_back(word.meaning);
  return stages;
}

std::vector<int64_t> expert_groups(const Transformer& model) {
  std::vector<int64_t> groups{1};
  for (int64_t ep = 8; ep <= std::min<int64_t>(64, model.experts); ep *= 2)
    if (model.experts % ep == 0) groups.push_back(ep);
  return groups;
}

// All layouts on so many GPUs that divide the model; what else is illegal shows when they are
// loaded.
std::vector<LayoutChoice> layouts_on(int64_t gpus, int64_t node, const Scenario& scenario) {
  std::vector<LayoutChoice> all;
  const Transformer& m = scenario.model;
  for (int64_t tp = 1; tp <= std::min(node, gpus); tp *= 2) {
    if (gpus % tp != 0 || m.heads % tp != 0) continue;
    for (int64_t pp = 1; pp <= gpus / tp && pp <= m.layers; ++pp) {
      if (gpus % (tp * pp) != 0 || m.layers % pp != 0) continue;
      const int64_t dp = gpus / (tp * pp);
      if (scenario.plan.global_batch % dp != 0) continue;
      for (const int64_t ep : expert_groups(m)) {
        if (ep > tp * dp) continue;
        for (const int zero : zero_stages()) {
          if (zero > 1 && (dp == 1 || pp > 1)) continue;
          all.push_back({gpus, tp, pp, ep, zero, "full"});
        }
      }
    }
  }
  return all;
}

// Whether the states fit, spread as evenly as the layout spreads them: necessary for a layout, and
// quick.  `choice` of one tensor-parallel group, one stage and ZeRO-3: for any layout.
bool can_hold(const ModelSize& size, const LayoutChoice& choice) {
  const auto all = static_cast<double>(choice.gpus);
  // Experts may be spread over all ranks.
  const bool dense = size.active_parameters == size.parameters;
  const double model = dense ? static_cast<double>(choice.tp * choice.pp) : all;
  const double each = size.parameter_bytes / (choice.zero == 3 ? all : model) +
                      size.gradient_bytes / (choice.zero >= 2 ? all : model) +
                      size.optimizer_bytes / all;
  return each * static_cast<double>(size.parameters) <= static_cast<double>(size.gpu_usable.value);
}

// Whether the step fits, from as few microbatches as fill the pipeline.
bool fits(const SizeSubject& subject, const LayoutChoice& choice, int64_t global_batch) {
  const int64_t dp = choice.gpus / (choice.tp * choice.pp);
  SizeSubject few = subject;
  few.load.set.emplace_back("batch.global",
                            std::to_string(std::min(global_batch, dp * (choice.pp + 1))));
  try {
    const Scenario s = load_candidate(few, choice);
    const OpGraph graph = lower(s.model, s.plan, s.schedule, {.p2p = s.p2p});
    const Bytes usable = s.cluster.node.gpu.memory - s.cluster.node.gpu.reserve;
    return step_memory(graph, trace_memory(graph), usable).reserved <= usable;
  } catch (const InputError&) {
    return false;  // not a legal layout
  } catch (const std::invalid_argument&) {
    return false;  // nor one that can be lowered
  }
}

std::optional<SizedLayout> simulated(const SizeSubject& subject, const LayoutChoice& choice) {
  try {
    const Scenario s = load_candidate(subject, choice);
    SizedLayout out;
    out.gpus = choice.gpus;
    out.tp = choice.tp;
    out.pp = choice.pp;
    out.ep = choice.ep;
    out.dp = s.plan.dp;
    out.zero = choice.zero;
    out.recompute = choice.recompute;
    out.set = "parallel=" + layout_text(choice) +
              (choice.weights.empty() ? " recompute=" + choice.recompute
                                      : " precision.weights=" + choice.weights);
    out.result = forecast(s, {.what_if = false});
    const size_t stage = out.result.reserved_role;
    out.parameters = stage_parameters(s.model, s.plan, s.plan.stages[stage]);
    if (!out.result.fits) return {};
    return out;
  } catch (const InputError&) {
    return {};
  }
}

// Layouts of one number of GPUs that fit, the fastest of them simulated.
std::optional<SizedLayout> fastest_on(const SizeSubject& subject, const Scenario& own, int64_t gpus,
                                      ModelSize& size) {
  std::optional<SizedLayout> best;
  for (LayoutChoice choice : layouts_on(gpus, subject.node, own)) {
    ++size.layouts_tried;
    if (!can_hold(size, choice)) continue;
    // Full recomputation holds least; then the least recomputation that still fits.
    choice.recompute = "full";
    if (!fits(subject, choice, own.plan.global_batch)) continue;
    for (const char* less : {"none", "selective", "full"}) {
      choice.recompute = less;
      if (choice.recompute == "full" || fits(subject, choice, own.plan.global_batch)) break;
    }
    std::optional<SizedLayout> now = simulated(subject, choice);
    if (now && (!best || now->result.step_time < best->result.step_time)) best = std::move(now);
  }
  return best;
}

// All GPUs share the model: by tensor parallelism inside a node, by stages over several.
std::optional<SizedLayout> smallest_inference(const SizeSubject& subject, const Transformer& model,
                                              int64_t most_gpus, SizedInference& inference) {
  for (const int64_t gpus : gpu_counts(subject.node, most_gpus)) {
    LayoutChoice choice{.gpus = gpus, .zero = 0, .weights = inference.weights};
    choice.tp = std::min(gpus, subject.node);
    choice.pp = gpus / choice.tp;
    if (model.heads % choice.tp != 0 || model.layers % choice.pp != 0) continue;
    if (!fits(subject, choice, 1)) continue;
    if (std::optional<SizedLayout> found = simulated(subject, choice)) return found;
  }
  return {};
}

}  // namespace

void find_smallest(const SizeSubject& subject, int64_t most_gpus, ModelSize& size) {
  const Scenario own = load_candidate(subject, {});
  for (const int64_t gpus : gpu_counts(subject.node, most_gpus)) {
    size.most_gpus_tried = gpus;
    if (!can_hold(size, {.gpus = gpus, .zero = 3})) continue;
    size.training = fastest_on(subject, own, gpus, size);
    if (size.training) break;
  }
  if (own.model.encoder_layers > 0 || own.model.bidirectional) return;
  for (const auto& [weights, bytes] :
       std::array<std::pair<const char*, double>, 3>{{{"bf16", 2}, {"int8", 1}, {"int4", 0.5}}}) {
    SizedInference inference{weights, bytes, {}};
    inference.layout = smallest_inference(subject, own.model, most_gpus, inference);
    size.inference.push_back(std::move(inference));
  }
}

Scenario load_candidate(const SizeSubject& subject, const LayoutChoice& c) {
  LoadOptions load = subject.load;
  const auto set = [&](const char* path, std::string value) {
    load.set.emplace_back(path, std::move(value));
  };
  for (const char* section : {"parallel", "schedule", "recompute", "cluster.placement", "perturb"})
    set(section, "null");
  set("parallel", layout_text(c));
  set("batch.micro", "1");
  if (c.weights.empty()) {
    set("recompute", c.recompute);
    // Without what only a forward has.
    for (const char* key : {"mode", "precision.weights", "precision.kv_cache"})
      if (subject.infers) set(key, "null");
  } else {
    set("distill", "null");
    set("mode", "decode");
    set("precision.weights", c.weights);
    set("batch.global", "1");
  }
  if (c.gpus < subject.node) set("cluster.node.gpus", std::to_string(c.gpus));
  set("cluster.nodes", std::to_string(std::max<int64_t>(1, c.gpus / subject.node)));
  if (subject.text) return load_scenario_text(*subject.text, subject.name, load);
  return load_scenario(subject.name, load);
}

}  // namespace stepcast
