// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/layer.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <set>

#include "sim/diagnostic.h"

namespace stepcast::measure {
namespace {

constexpr int64_t kMostValues = int64_t{1} << 40;  // of a tensor: products below stay in 64 bits

struct SizeOption {
  const char* option;
  int64_t LayerShape::*field;
  const char* text;
};
constexpr std::array kSizeOptions = {
    SizeOption{"--hidden", &LayerShape::hidden, "width of the residual stream"},
    SizeOption{"--heads", &LayerShape::heads, "query heads"},
    SizeOption{"--kv-heads", &LayerShape::kv_heads, "key-value heads"},
    SizeOption{"--ffn", &LayerShape::ffn, "width of the MLP"},
    SizeOption{"--seq", &LayerShape::seq, "tokens of a sequence"},
    SizeOption{"--micro", &LayerShape::micro, "sequences of a microbatch"},
};

constexpr std::array<std::string_view, kLayerKernels> kNames{"norm 1",
                                                             "qkv",
                                                             "rotary",
                                                             "attention",
                                                             "projection",
                                                             "residual 1",
                                                             "norm 2",
                                                             "up",
                                                             "activation",
                                                             "down",
                                                             "residual 2",
                                                             "down input gradient",
                                                             "down weight gradient",
                                                             "activation backward",
                                                             "up input gradient",
                                                             "up weight gradient",
                                                             "norm 2 backward",
                                                             "residual 2 backward",
                                                             "projection input gradient",
                                                             "projection weight gradient",
                                                             "attention backward",
                                                             "rotary backward",
                                                             "qkv input gradient",
                                                             "qkv weight gradient",
                                                             "norm 1 backward",
                                                             "residual 1 backward"};

Work product(GemmLayout layout, int64_t m, int64_t n, int64_t k) {
  Work w;
  w.kind = WorkKind::gemm;
  w.layout = layout;
  w.m = m;
  w.n = n;
  w.k = k;
  w.accumulate = layout == GemmLayout::nt;
  w.flops.value = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  return w;
}

Work attention(const LayerShape& s, bool backward) {
  Work w;
  w.kind = backward ? WorkKind::attention_backward : WorkKind::attention_forward;
  w.causal = true;
  w.m = w.n = s.seq;
  w.k = s.head_dim();
  w.batch = s.micro;
  w.heads = s.heads;
  w.kv_heads = s.kv_heads;
  // 4 m n k a head, half of it under the causal mask; 2.5 times that backward.
  w.flops.value = (backward ? 2.5 : 1.0) * 2.0 * static_cast<double>(s.seq) *
                  static_cast<double>(s.seq) * static_cast<double>(w.k * w.heads * w.batch);
  return w;
}

// Of `elements` bf16 numbers read and written.
Work memory_bound(Kernel kernel, int64_t elements) {
  Work w;
  w.kernel = kernel;
  w.bytes.value = 2 * elements;
  return w;
}

int64_t whole_number(const std::string& option, const std::string& text) {
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty())
    refuse(fmt::format("{} needs a whole number, not '{}'", option, text));
  return value;
}

// One option with a value; false: there is none of that name.
bool take(const std::string& option, const std::string& value, LayerRun& run) {
  for (const SizeOption& size : kSizeOptions) {
    if (option != size.option) continue;
    run.shape.*size.field = whole_number(option, value);
    return true;
  }
  if (option == "--loops") {
    run.loops = whole_number(option, value);
    if (run.loops < 5 || run.loops > 100000) refuse("--loops is from 5 to 100000");
    return true;
  }
  if (option == "--device") {
    const int64_t index = whole_number(option, value);
    if (index < 0 || index > 1023) refuse("--device is the number of a GPU, from 0");
    run.device = static_cast<int>(index);
    return true;
  }
  return false;
}

}  // namespace

std::string_view name_of(LayerKernel k) {
  return kNames[static_cast<size_t>(k)];
}

std::vector<Work> layer_works(const LayerShape& s) {
  const int64_t t = s.tokens(), h = s.hidden, attended = s.heads * s.head_dim();
  const int64_t turned = t * (s.heads + s.kv_heads) * s.head_dim();
  using enum GemmLayout;
  std::vector<Work> works(kLayerKernels);
  const auto at = [&](LayerKernel k) -> Work& { return works[static_cast<size_t>(k)]; };
  const auto linear = [&](LayerKernel forward, LayerKernel input, LayerKernel weight, int64_t out,
                          int64_t in) {
    at(forward) = product(tn, t, out, in);
    at(input) = product(nn, t, in, out);
    at(weight) = product(nt, out, in, t);
  };
  using enum LayerKernel;
  linear(qkv, qkv_input_gradient, qkv_weight_gradient, s.qkv_width(), h);
  linear(projection, projection_input_gradient, projection_weight_gradient, h, attended);
  linear(up, up_input_gradient, up_weight_gradient, s.up_width(), h);
  linear(down, down_input_gradient, down_weight_gradient, h, s.ffn);
  at(LayerKernel::attention) = measure::attention(s, false);
  at(LayerKernel::attention_backward) = measure::attention(s, true);
  for (const LayerKernel k : {norm1, norm2}) at(k) = memory_bound(Kernel::rms_norm, 2 * t * h);
  for (const LayerKernel k : {norm1_backward, norm2_backward})
    at(k) = memory_bound(Kernel::rms_norm_backward, 3 * t * h);
  for (const LayerKernel k : {residual1, residual2, residual1_backward, residual2_backward})
    at(k) = memory_bound(Kernel::add, 3 * t * h);
  at(LayerKernel::rotary) = memory_bound(Kernel::rotary, 2 * turned);
  at(LayerKernel::rotary_backward) = memory_bound(Kernel::rotary_backward, 2 * turned);
  at(LayerKernel::activation) = memory_bound(Kernel::activation, t * (s.up_width() + s.ffn));
  at(LayerKernel::activation_backward) =
      memory_bound(Kernel::activation_backward, t * (2 * s.up_width() + s.ffn));
  return works;
}

void check_layer(const LayerShape& s) {
  for (const SizeOption& size : kSizeOptions) {
    const int64_t value = s.*size.field;
    if (value <= 0) refuse(fmt::format("{} is at least 1, not {}", size.option, value));
    if (value > (int64_t{1} << 30)) refuse(fmt::format("{} is at most 2^30", size.option));
  }
  if (s.hidden % s.heads != 0)
    refuse(fmt::format("--hidden {} is no multiple of --heads {}", s.hidden, s.heads));
  if (s.heads % s.kv_heads != 0)
    refuse(fmt::format("--heads {} is no multiple of --kv-heads {}", s.heads, s.kv_heads));
  if (s.head_dim() % 16 != 0 || s.head_dim() > 256)
    refuse(fmt::format("--hidden / --heads is a multiple of 16 up to 256, not {}", s.head_dim()));
  if (s.hidden > 16384) refuse("--hidden is at most 16384, what a norm holds in registers");
  if (s.ffn % 8 != 0) refuse("--ffn is a multiple of 8, for loads of 16 bytes");
  if (s.seq % 8 != 0) refuse("--seq is a multiple of 8, for loads of 16 bytes");
  const auto limit = [](const char* what, std::initializer_list<int64_t> factors) {
    double values = 1;
    for (int64_t f : factors) values *= static_cast<double>(f);
    if (values > static_cast<double>(kMostValues))
      refuse(fmt::format("{} has more than 2^40 values", what));
  };
  limit("the MLP", {s.hidden, s.up_width()});
  limit("an activation", {s.micro, s.seq, s.up_width() + s.qkv_width()});
}

LayerRun parse_layer_run(std::span<const std::string> arguments) {
  LayerRun run;
  std::set<std::string> seen;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& option = arguments[i];
    if (option == "--help" || option == "-h") {
      run.help = true;
      return run;
    }
    if (!seen.insert(option).second) refuse(option + " stands twice");
    if (option == "--plain-mlp") {
      run.shape.gated = false;
      continue;
    }
    static const std::string kNone;
    const bool has_value = i + 1 < arguments.size();
    if (!take(option, has_value ? arguments[i + 1] : kNone, run))
      refuse(fmt::format("unknown option '{}'; --help tells which there are", option));
    if (!has_value) refuse(option + " needs a value");
    ++i;
  }
  check_layer(run.shape);
  return run;
}

std::string layer_usage() {
  std::string text =
      "One transformer layer, forward and backward in a loop: its kernels' times there beside "
      "those alone\n"
      "Usage: stepcast-measure layer [OPTIONS]\n\n";
  const LayerShape usual;
  for (const SizeOption& size : kSizeOptions)
    text += fmt::format("  {:<16}{} ({})\n", std::string(size.option) + " N", size.text,
                        usual.*size.field);
  text += fmt::format("  {:<16}GELU without a gate instead of SiLU with one\n", "--plain-mlp");
  text += fmt::format("  {:<16}loops that are timed (50)\n", "--loops N");
  text += fmt::format("  {:<16}which GPU (0)\n", "--device N");
  return text;
}

std::string layer_text(const LayerShape& shape, const LayerTimes& times) {
  struct Sum {
    const char* what;
    double alone = 0, inside = 0;
    bool whole = true;  // no kernel of it is without a time
  };
  std::array<Sum, 3> sums{Sum{"matrix products"}, Sum{"attention"}, Sum{"bound by memory"}};
  const std::vector<Work> works = layer_works(shape);
  std::string text = fmt::format("{:<28}{:<40}{:>10}{:>16}{:>8}\n", "kernel", "work", "alone us",
                                 "in the loop us", "ratio");
  const auto line = [&](std::string_view name, const std::string& work, double alone,
                        double inside) {
    text += fmt::format("{:<28}{:<40}", name, work);
    text += alone > 0 ? fmt::format("{:10.1f}{:16.1f}{:8.3f}\n", alone, inside, inside / alone)
                      : fmt::format("{:>10}{:16.1f}{:>8}\n", "-", inside, "-");
  };
  for (size_t i = 0; i < works.size(); ++i) {
    const double alone = times.alone_us[i], inside = times.inside_us[i];
    line(kNames[i], describe(works[i]), alone, inside);
    Sum& sum = sums[works[i].kind == WorkKind::gemm           ? 0U
                    : works[i].kind == WorkKind::memory_bound ? 2U
                                                              : 1U];
    sum.alone += alone;
    sum.inside += inside;
    sum.whole = sum.whole && alone > 0;
  }
  text += '\n';
  double alone = 0;
  bool whole = true;
  for (const Sum& sum : sums) {
    line(sum.what, "", sum.whole ? sum.alone : 0, sum.inside);
    alone += sum.alone;
    whole = whole && sum.whole;
  }
  line("the loop, as one graph", fmt::format("spread {:.1f} %", 100 * times.spread),
       whole ? alone : 0, times.loop_us);
  return text;
}

}  // namespace stepcast::measure
