// SPDX-License-Identifier: Apache-2.0
// What is written in words: layouts, lists of layers, network cards.
#include <algorithm>
#include <cmath>
#include <regex>

#include "tests/accuracy/convert.h"

namespace stepcast::accuracy {
namespace {

std::string layout_of(const std::vector<int64_t>& layers) {
  std::string text = "E";
  for (size_t i = 0; i < layers.size(); ++i) {
    if (i > 0) text += '|';
    text.append(static_cast<size_t>(layers[i]), 't');
  }
  return text + 'L';
}

double number(const std::ssub_match& match) {
  return std::stod(match.str());
}

}  // namespace

std::optional<std::string> accounted_layout(int64_t layers, int64_t stages) {
  const int64_t room = (layers + 2 + stages - 1) / stages;
  std::vector<int64_t> each(static_cast<size_t>(stages), room);
  each.front() -= 1;
  each.back() -= stages * room - layers - 1;
  if (each.front() < 0 || each.back() < 0) return {};
  return layout_of(each);
}

std::string balanced_layout(int64_t layers, int64_t stages, double head) {
  const auto fullest = [&](int64_t last) {
    const int64_t others = (layers - last + stages - 2) / (stages - 1);
    return std::max(static_cast<double>(others), static_cast<double>(last) + head);
  };
  int64_t best = 0;
  for (int64_t last = 1; last <= layers / stages; ++last)
    if (fullest(last) <= fullest(best)) best = last;
  std::vector<int64_t> each;
  for (int64_t i = 0; i + 1 < stages; ++i) {
    const int64_t left = layers - best, n = stages - 1;
    each.push_back(left * (i + 1) / n - left * i / n);
  }
  each.push_back(best);
  return layout_of(each);
}

std::optional<int64_t> leading_dense(const std::string& moe_layer_freq) {
  if (moe_layer_freq == "1") return 0;
  static const std::regex form(R"(\(?\[0\]\*(\d+)\+\[1\]\*\d+\)?)");
  std::smatch m;
  if (!std::regex_match(moe_layer_freq, m, form)) return {};
  return std::stoll(m[1].str());
}

std::optional<NicWords> read_nics(const std::string& interconnect, int64_t gpus,
                                  double usual_gbit) {
  // "8x 200 Gb/s", "4x Omni-Path 100 Gb/s", "4x100 Gb/s", "8x CX7 InfiniBand (400Gb/s)"; the
  // fastest of several.
  static const std::regex cards(R"((\d{1,4})x ?(?:[A-Za-z][\w-]* )*\(?(\d+) ?G(?:b/s|b/Sec))");
  static const std::regex per_gpu(R"((\d+) Gb/s [A-Z0-9-]* ?(?:RDMA )?per GPU)");
  static const std::regex per_node(R"((\d+) ([GT])b/s[A-Za-z ]*(?:per node|inter-node|node-node))");
  std::smatch m;
  std::optional<NicWords> best;
  for (std::sregex_iterator i(interconnect.begin(), interconnect.end(), cards), end; i != end;
       ++i) {
    const NicWords found{std::stoll((*i)[1].str()), number((*i)[2])};
    const auto total = [](const NicWords& w) { return static_cast<double>(w.count) * w.gbit; };
    if (!best || total(found) > total(*best)) best = found;
  }
  if (best) return best;
  if (std::regex_search(interconnect, m, per_gpu)) return NicWords{gpus, number(m[1])};
  if (!std::regex_search(interconnect, m, per_node)) return {};
  const double total = number(m[1]) * (m[2].str() == "T" ? 1000 : 1);
  const double count = std::max(1.0, std::min(8.0, std::floor(total / usual_gbit)));
  return NicWords{static_cast<int64_t>(count), total / count};
}

}  // namespace stepcast::accuracy
