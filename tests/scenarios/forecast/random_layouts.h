// SPDX-License-Identifier: Apache-2.0
// Scenarios of random layouts, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/scenario.h"
#include "scenarios/scenario_document.h"

namespace stepcast::testing {

class RandomLayouts {
 public:
  explicit RandomLayouts(uint32_t seed) : random_(seed) {}

  // Small models, dense and with experts, on 16 GPUs.  Layouts that are refused are drawn again.
  Scenario next() { return next(below(4)); }

  // Of this model, so that all that are drawn have it and the cluster in common.
  Scenario next(size_t model) {
    for (;;)
      if (std::optional<Scenario> s = try_next(model)) return std::move(*s);
  }

  size_t below(size_t n) { return random_() % n; }

 private:
  static const ScenarioDocument& document(size_t model) {
    static const std::vector<std::string> kModels{
        "model: {preset: gpt3-1.3b, num_hidden_layers: 16}\ncluster: dgx-a100-80g x 2\n",
        "model: {preset: llama3-8b, num_hidden_layers: 16, hidden_size: 1024}\n"
        "cluster: dgx-h100 x 2\n",
        "model: {preset: mixtral-8x7b, num_hidden_layers: 16}\ncluster: dgx-h100 x 2\n",
        "model: {preset: llama3-8b, num_hidden_layers: 21}\ncluster: dgx-h100 x 2\n"
        "parallel: {split: last}\n"};
    static const std::vector<ScenarioDocument> kDocuments = [] {
      std::vector<ScenarioDocument> all;
      for (const std::string& text : kModels)
        all.push_back(ScenarioDocument::of_text(text, "random.yaml", ""));
      return all;
    }();
    return kDocuments[model];
  }

  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

  std::optional<Scenario> try_next(size_t model) {
    ScenarioDocument changed = document(model);
    const auto set = [&](const char* path, const std::string& value) {
      if (!value.empty()) changed.set(path, scalar_value(value));
    };
    const auto draw = [&](const char* path, std::initializer_list<const char*> values) {
      set(path, one_of(values));
    };
    size_t tp = 1, pp = 1, cp = 1;
    do {
      tp = one_of<size_t>({1, 2, 4, 8});
      pp = one_of<size_t>({1, 2, 4, 8});
      cp = one_of<size_t>({1, 1, 1, 2});
    } while (tp * pp * cp > 16);
    const size_t micro = one_of<size_t>({1, 1, 2});
    const size_t microbatches = pp * one_of<size_t>({1, 2, 3, 4, 8});
    set("parallel.tp", std::to_string(tp));
    set("parallel.pp", std::to_string(pp));
    set("parallel.cp", std::to_string(cp));
    set("batch.micro", std::to_string(micro));
    set("batch.global", std::to_string(micro * microbatches * (16 / (tp * pp * cp))));
    draw("batch.seq", {"1024", "2048", "4096"});
    draw("parallel.zero", {"", "", "0", "1", "2", "3"});
    if (model == 2) draw("parallel.ep", {"1", "2", "4", "8"});
    if (pp > 1) {
      using Pair = std::pair<const char*, const char*>;
      const auto [kind, vpp] = one_of<Pair>({{"", ""},
                                             {"gpipe", ""},
                                             {"1f1b", ""},
                                             {"zb-h1", ""},
                                             {"zb-2p", ""},
                                             {"interleaved", "2"},
                                             {"interleaved", "2"},
                                             {"interleaved", "4"},
                                             {"breadth-first", "2"},
                                             {"zb-v", ""},
                                             {"v-half", ""},
                                             {"dualpipev", ""}});
      set("schedule.kind", kind);
      set("parallel.vpp", vpp);
      draw("schedule.p2p", {"", "", "", "async", "megatron"});
    }
    draw("recompute", {"", "none", "selective", "full"});
    draw("kernels.attention", {"", "", "unfused"});
    draw("kernels.expandable_segments", {"", "true"});
    draw("kernels.record_streams", {"", "", "true"});
    draw("overlap.dp_grad", {"", "true", "false"});
    // Gradients that products write: of these one goes with fused accumulation, two without.
    draw("kernels.gradient_accumulation_fusion", {"", "", "false"});
    draw("precision.product_grads", {"", "", "", "backward", "tensors"});
    draw("precision.own_grads", {"", "", "", "true"});
    if (model != 0) draw("precision.preset", {"", "", "fp8-delayed", "fp8-blockwise"});
    if (model == 2) draw("parallel.etp", {"", "", "1", "2"});
    draw("offload.optimizer", {"", "", "", "0.5"});
    draw("offload.parameters", {"", "", "", "true"});
    draw("offload.activation_layers", {"", "", "", "1"});
    auto resolved = std::move(changed).try_resolve();
    Scenario* scenario = std::get_if<Scenario>(&resolved);
    if (scenario == nullptr || scenario->to_make) return {};
    return std::move(*scenario);
  }

  std::mt19937 random_;
};

}  // namespace stepcast::testing
