// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import_simumax.h"

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "calibrate/measurement_json.h"
#include "sim/work.h"

namespace stepcast {
namespace {

using nlohmann::json;

// The words of a key: "b=1, m=4096, layout=TN".
using Words = std::map<std::string, std::string, std::less<>>;

Words words_of(std::string_view key) {
  Words words;
  while (!key.empty()) {
    const size_t end = std::min(key.find(','), key.size());
    std::string_view word = key.substr(0, end);
    key.remove_prefix(std::min(end + 1, key.size()));
    while (word.starts_with(' ')) word.remove_prefix(1);
    const size_t equals = word.find('=');
    if (equals != std::string_view::npos)
      words.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return words;
}

class SimumaxSystem {
 public:
  explicit SimumaxSystem(const MeasurementInput& in) : in_(in) {}

  TableText read() {
    const json root = parse_json(in_);
    const json* accelerator = member(root, "accelerator");
    const json* ops = accelerator == nullptr ? nullptr : member(*accelerator, "op");
    if (ops == nullptr || !ops->is_object())
      refuse_measurements(in_, "E330", "a JSON file without SimuMax's accelerator.op");
    for (const auto& [name, op] : ops->items()) family(name, op);
    if (gemms_.empty() && attentions_.empty())
      refuse_measurements(in_, "E330", "no efficiencies by shape in this system file",
                          "accelerator.op.matmul.accurate_efficient_factor has them");
    return table(root);
  }

 private:
  using GemmKey = std::tuple<DType, GemmLayout, int64_t, int64_t, int64_t, int64_t>;
  using AttentionKey = std::tuple<bool, int64_t, int64_t, int64_t, int64_t, int64_t>;

  static const json* member(const json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
  }

  [[noreturn]] void broken(const std::string& key, const std::string& what) const {
    const size_t at = in_.text.find(key);
    refuse_measurements(in_, "E333", what, "in the key '" + key + "'",
                        at == std::string_view::npos ? TextPlace{} : place_of(in_.text, at));
  }

  void family(const std::string& name, const json& op) {
    const json* by_shape = member(op, "accurate_efficient_factor");
    const json* peak = member(op, "tflops");
    if (by_shape == nullptr || !by_shape->is_object() || by_shape->empty()) return;
    if (peak == nullptr || !peak->is_number() || !(peak->get<double>() > 0))
      broken(name, "'" + name + "' has efficiencies and no peak rate");
    const bool known = name == "matmul" || name == "fp8_matmul" || name == "group_matmul" ||
                       name == "fp8_group_matmul" || name == "sdp_fwd" || name == "sdp_bwd";
    if (!known) {
      in_.note(std::to_string(by_shape->size()) + " efficiencies of '" + name +
               "' are not used: the op is not known");
      return;
    }
    for (const auto& [key, value] : by_shape->items()) {
      if (!value.is_number() || !(value.get<double>() > 0) || value.get<double>() > 100)
        broken(key, "an efficiency that is no positive number");
      const double rate = peak->get<double>() * value.get<double>() * 1e6;  // flops a microsecond
      const Words words = words_of(key);
      if (name.starts_with("sdp")) {
        attention(key, words, name == "sdp_bwd", rate);
      } else if (name.find("group") != std::string::npos) {
        grouped(key, words, name.starts_with("fp8"), rate);
      } else {
        product(key, words, name.starts_with("fp8"), rate);
      }
    }
  }

  int64_t size(const std::string& key, const Words& words, std::string_view name) const {
    const auto found = words.find(name);
    const std::optional<int64_t> value =
        found == words.end() ? std::nullopt : integer_number(found->second);
    if (!value || *value < 1 || *value > (int64_t{1} << 30))
      broken(key, "'" + std::string(name) + "' is missing or no size");
    return *value;
  }

  static bool says(const Words& words, std::string_view name, std::string_view value) {
    const auto found = words.find(name);
    return found != words.end() && found->second == value;
  }

  DType dtype(const Words& words, bool fp8) const {
    const auto found = words.find("dtype");
    if (found == words.end()) return fp8 ? DType::fp8 : DType::bf16;
    return foreign_dtype(found->second).value_or(fp8 ? DType::fp8 : DType::bf16);
  }

  void add(const GemmKey& key, double rate) {
    const auto& [dtype, layout, m, n, k, batch] = key;
    gemms_[key].push_back(2.0 * static_cast<double>(m) * static_cast<double>(n) *
                          static_cast<double>(k) * static_cast<double>(batch) / rate);
  }

  void product(const std::string& key, const Words& words, bool fp8, double rate) {
    const GemmLayout layout = says(words, "layout", "TN")   ? GemmLayout::tn
                              : says(words, "layout", "NN") ? GemmLayout::nn
                                                            : GemmLayout::nt;
    if (layout == GemmLayout::nt && !says(words, "layout", "NT"))
      broken(key, "the layout is none of TN, NN and NT");
    // Rows of nt add into fp32, the others write what they were given.
    if (says(words, "accumulate", "True") != (layout == GemmLayout::nt)) {
      ++other_outputs_;
      return;
    }
    add({dtype(words, fp8), layout, size(key, words, "m"), size(key, words, "n"),
         size(key, words, "k"), size(key, words, "b")},
        rate);
  }

  // N and K are those of the forward product: [M, K] x [K, N].
  void grouped(const std::string& key, const Words& words, bool fp8, double rate) {
    const int64_t groups = size(key, words, "ng"), m = size(key, words, "M");
    const int64_t n = size(key, words, "N"), k = size(key, words, "K");
    const DType type = dtype(words, fp8);
    if (says(words, "stage", "fwd")) {
      add({type, GemmLayout::tn, m, n, k, groups}, rate);
    } else if (says(words, "stage", "bwd_grad_act")) {
      add({type, GemmLayout::nn, m, k, n, groups}, rate);
    } else if (!says(words, "stage", "bwd_grad_w")) {
      broken(key, "the stage is none of fwd, bwd_grad_act and bwd_grad_w");
    } else if (says(words, "main_grad_dtype", "bf16")) {
      ++other_outputs_;
    } else {
      add({type, GemmLayout::nt, n, k, m, groups}, rate);
    }
  }

  void attention(const std::string& key, const Words& words, bool backward, double rate) {
    const int64_t batch = size(key, words, "batch"), seq = size(key, words, "seq_len");
    const int64_t heads = size(key, words, "head_num"), kv = size(key, words, "kv_head_num");
    const int64_t dims = size(key, words, "qk_head_dim") + size(key, words, "v_head_dim");
    if (dims % 2 != 0) broken(key, "the mean of the head dimensions is not whole");
    const double flops = (backward ? 5.0 : 2.0) * static_cast<double>(batch) *
                         static_cast<double>(seq) * static_cast<double>(seq) *
                         static_cast<double>(heads) * static_cast<double>(dims);
    attentions_[{backward, heads, kv, seq, dims / 2, batch}].push_back(flops / rate);
  }

  TableText table(const json& root) const {
    TableText t;
    t.gpu = measured_gpu(in_, "");
    const json* name = member(root, "sys_name");
    t.sources.push_back(
        {"simumax", false,
         "SimuMax system file " + file_stem(in_.file) +
             (name != nullptr && name->is_string() ? " (" + name->get<std::string>() + ")"
                                                   : std::string()) +
             ": times = flops / (peak x efficiency)"});
    for (char& letter : t.sources[0].text)
      if (letter == '\n' || letter == '\r') letter = ' ';
    for (const auto& [key, times] : gemms_) {
      GemmRow r;
      std::tie(r.dtype, r.layout, r.m, r.n, r.k, r.batch) = key;
      const SampleSummary s = summarize_samples(times);
      r.us = rounded_figure(s.median);
      r.spread = rounded_figure(s.spread);
      t.gemms.push_back(r);
    }
    for (const auto& [key, times] : attentions_) {
      AttentionRow r;
      r.dtype = DType::bf16;
      r.causal = true;
      std::tie(r.backward, r.heads, r.kv_heads, r.m, r.k, r.batch) = key;
      r.n = r.m;
      const SampleSummary s = summarize_samples(times);
      r.us = rounded_figure(s.median);
      r.spread = rounded_figure(s.spread);
      t.attentions.push_back(r);
    }
    if (other_outputs_ > 0)
      in_.note(std::to_string(other_outputs_) +
               " efficiencies are not used: their products write another type than those of "
               "training (fp32 weight gradients)");
    in_.note("bandwidths and networks are not used: they are fits");
    return t;
  }

  const MeasurementInput& in_;
  std::map<GemmKey, std::vector<double>> gemms_;
  std::map<AttentionKey, std::vector<double>> attentions_;
  int64_t other_outputs_ = 0;
};

}  // namespace

bool is_simumax_system(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{' &&
         text.find("\"accurate_efficient_factor\"") != std::string_view::npos;
}

TableText import_simumax(const MeasurementInput& in) {
  return SimumaxSystem(in).read();
}

}  // namespace stepcast
