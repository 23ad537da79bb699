// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/megatron/hybrid_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace stepcast {
namespace {

// A pattern of `layers` with these shares of attention and MLPs, spread evenly
// (pattern_from_ratios() of megatron/core/models/hybrid/hybrid_layer_allocation.py).
std::string pattern_of_ratios(int64_t layers, double attention, double mlp) {
  std::string pattern(static_cast<size_t>(layers), 'M');
  const auto share = [&](double ratio) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(layers) * ratio));
  };
  int64_t recurrent = layers - share(attention);
  const double section = static_cast<double>(recurrent) / static_cast<double>(share(attention) + 1);
  const auto spread = [&](char letter, double first) {
    double left = first;
    for (char& c : pattern) {
      if (c != 'M') continue;
      if (left < 0.5)
        c = letter, left += first;
      else
        left -= 1;
    }
  };
  spread('*', section);
  if (const int64_t mlps = share(mlp); mlps > 0) {
    recurrent -= mlps;
    spread('-', static_cast<double>(recurrent) / static_cast<double>(mlps));
  }
  return pattern;
}

// What the pattern says, "M-M*|M-M*/*E/*E": `|` between the stages, and behind `/` the layers of
// each prediction module.  Nothing, and a problem, where it cannot be.
std::optional<Hybrid> read_pattern(const ArgumentReader& a, std::string_view name,
                                   std::string_view pattern) {
  Hybrid hybrid;
  hybrid.why = a.origin(name);
  const size_t slash = std::min(pattern.find('/'), pattern.size());
  hybrid.stages.push_back(0);
  for (const char c : pattern.substr(0, slash)) {
    if (c == '|') {
      hybrid.stages.push_back(0);
      continue;
    }
    if (c == 'G' || c == 'D' || c == '+') {
      a.problems().add("E130",
                       fmt::format("not supported yet: {} in a pattern of layers (letter {})",
                                   c == 'G'   ? "the gated delta rule"
                                   : c == 'D' ? "sparse attention"
                                              : "latent attention",
                                   c),
                       a.mark(name), 1, a.why(name));
      return {};
    }
    if (std::string_view("M*E-").find(c) == std::string_view::npos) {
      a.refuse(name, "must be of the letters M, *, E and -, with | between stages");
      return {};
    }
    hybrid.layers += c;
    ++hybrid.stages.back();
  }
  if (hybrid.layers.empty() || hybrid.layers.size() > kMostLayers) {
    a.refuse(name, "must name at least 1 layer and at most 100000");
    return {};
  }
  for (std::string_view rest = pattern.substr(slash); !rest.empty();) {
    rest.remove_prefix(1);
    const std::string_view module = rest.substr(0, rest.find('/'));
    rest.remove_prefix(module.size());
    if (module.empty()) continue;
    if (!hybrid.prediction.empty() && hybrid.prediction != module) {
      a.refuse(name, "must have the same layers in all prediction modules");
      return {};
    }
    hybrid.prediction = module;
    ++hybrid.predictions;
  }
  return hybrid;
}

}  // namespace

std::optional<Hybrid> hybrid_of(const ArgumentReader& a) {
  const std::vector<std::string> spec = a.words("spec");
  const bool of_hybrids = !spec.empty() && (spec.front().find("mamba") != std::string::npos ||
                                            spec.front().find("hybrid") != std::string::npos);
  // Lists of all arguments have shares of 0 for every model.
  const auto has_share = [&](const char* name) {
    return a.given(name) && (a.real(name).value_or(0) > 0 || a.why(name).starts_with("--"));
  };
  const bool ratios = of_hybrids || a.flag("is_hybrid_model") ||
                      has_share("hybrid_attention_ratio") || has_share("hybrid_mlp_ratio");
  if (!a.given("hybrid_layer_pattern") && !ratios) return {};
  const std::string_view sign = a.given("hybrid_layer_pattern")     ? "hybrid_layer_pattern"
                                : a.given("hybrid_attention_ratio") ? "hybrid_attention_ratio"
                                : a.given("hybrid_mlp_ratio")       ? "hybrid_mlp_ratio"
                                : a.flag("is_hybrid_model")         ? "is_hybrid_model"
                                                                    : "spec";
  // Layers of another specification may mean anything by the letters.
  if (!spec.empty() && !of_hybrids) {
    a.problems().add(
        "E130",
        fmt::format("not supported yet: layers of {}, beside {}", spec.front(), a.why(sign)),
        a.mark("spec"));
    return {};
  }
  if (a.given("hybrid_layer_pattern"))
    return read_pattern(a, "hybrid_layer_pattern", a.word("hybrid_layer_pattern"));
  const int64_t layers = a.whole("num_layers", 0);
  const double attention = a.real("hybrid_attention_ratio").value_or(0);
  const double mlp = a.real("hybrid_mlp_ratio").value_or(0);
  if (attention + mlp > 1) a.refuse(sign, "is more than all layers, with the MLPs");
  if (layers < 1 || layers > kMostLayers || attention + mlp > 1) return {};
  return read_pattern(a, sign, pattern_of_ratios(layers, attention, mlp));
}

}  // namespace stepcast
