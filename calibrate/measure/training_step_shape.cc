// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step_shape.h"

#include <array>
#include <charconv>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string_view>

namespace stepcast::measure {
namespace {

constexpr int64_t kMostValues = int64_t{1} << 40;  // of a tensor: products below stay in 64 bits

[[noreturn]] void refuse(const std::string& sentence) {
  throw std::invalid_argument(sentence);
}

struct Size {
  const char* option;
  int64_t TrainingStep::*field;
  const char* text;
};
constexpr std::array kSizes = {
    Size{"--layers", &TrainingStep::layers, "transformer layers"},
    Size{"--hidden", &TrainingStep::hidden, "width of the residual stream"},
    Size{"--heads", &TrainingStep::heads, "query heads"},
    Size{"--kv-heads", &TrainingStep::kv_heads, "key-value heads (default: at most 8)"},
    Size{"--ffn", &TrainingStep::ffn, "width of the MLP"},
    Size{"--vocab", &TrainingStep::vocab, "words, a multiple of 128"},
    Size{"--seq", &TrainingStep::seq, "tokens of a sequence"},
    Size{"--micro", &TrainingStep::micro, "sequences of a microbatch"},
    Size{"--microbatches", &TrainingStep::microbatches, "microbatches of a step"},
};

int64_t whole_number(const std::string& option, const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.empty())
    refuse(option + " needs a whole number, not '" + text + "'");
  return value;
}

double positive_number(const std::string& option, const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !(value > 0) || !std::isfinite(value))
    refuse(option + " needs a number above zero, not '" + text + "'");
  return value;
}

// One option with a value; false: there is none of that name.
bool take(const std::string& option, const std::string& value, TrainingRun& run) {
  for (const Size& size : kSizes) {
    if (option != size.option) continue;
    run.shape.*size.field = whole_number(option, value);
    return true;
  }
  if (option == "--attention") {
    if (value == "auto") {
      run.attention = AttentionChoice::automatic;
    } else if (value == "fused") {
      run.attention = AttentionChoice::fused;
    } else if (value == "unfused") {
      run.attention = AttentionChoice::unfused;
    } else {
      refuse("--attention is auto, fused or unfused, not '" + value + "'");
    }
  } else if (option == "--steps") {
    run.steps = whole_number(option, value);
    if (run.steps < 2 || run.steps > 100000) refuse("--steps is from 2 to 100000");
  } else if (option == "--learning-rate") {
    run.learning_rate = positive_number(option, value);
  } else if (option == "--device") {
    const int64_t index = whole_number(option, value);
    if (index < 0 || index > 1023) refuse("--device is the number of a GPU, from 0");
    run.device = static_cast<int>(index);
  } else if (option == "--gpu") {
    run.gpu = value;
  } else if (option == "--scenario-out") {
    run.scenario_out = value;
  } else if (option == "--calibration") {
    run.calibration = value;
  } else {
    return false;
  }
  return true;
}

uint64_t mixed(uint64_t x) {  // splitmix64, Steele, Lea, Flood 2014
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace

void check_shape(const TrainingStep& s) {
  for (const Size& size : kSizes) {
    const int64_t value = s.*size.field;
    if (value <= 0)
      refuse(std::string(size.option) + " is at least 1, not " + std::to_string(value));
    if (value > (int64_t{1} << 30)) refuse(std::string(size.option) + " is at most 2^30");
  }
  if (s.hidden % s.heads != 0)
    refuse("--hidden is a multiple of --heads: " + std::to_string(s.hidden) + " is none of " +
           std::to_string(s.heads));
  if (s.heads % s.kv_heads != 0)
    refuse("--heads is a multiple of --kv-heads: " + std::to_string(s.heads) + " is none of " +
           std::to_string(s.kv_heads));
  if (s.head_dim() % 16 != 0 || s.head_dim() > 256)
    refuse("--hidden / --heads is a multiple of 16 up to 256, not " + std::to_string(s.head_dim()));
  if (s.hidden > 16384) refuse("--hidden is at most 16384, what a norm holds in registers");
  if (s.ffn % 8 != 0) refuse("--ffn is a multiple of 8, for loads of 16 bytes");
  if (s.seq % 8 != 0) refuse("--seq is a multiple of 8, for loads of 16 bytes");
  if (s.vocab % 128 != 0)
    refuse("--vocab is a multiple of 128, as the forecast pads it: " +
           std::to_string((s.vocab + 127) / 128 * 128) + " would do");
  const auto limit = [](const char* what, std::initializer_list<int64_t> factors) {
    double product = 1;
    for (int64_t f : factors) product *= static_cast<double>(f);
    if (product > static_cast<double>(kMostValues))
      refuse(std::string(what) + " has more than 2^40 values");
  };
  limit("a layer's MLP", {s.hidden, s.up_width(), s.layers});
  limit("the vocabulary", {s.hidden, s.vocab});
  limit("an activation", {s.micro, s.seq, s.up_width() + s.qkv_width() + s.vocab});
  limit("the matrix of scores", {s.micro, s.heads, s.seq, s.seq});
}

double usual_learning_rate(const TrainingStep& shape) {
  return 0.3 / static_cast<double>(shape.hidden);
}

TrainingRun parse_training_run(std::span<const std::string> arguments) {
  TrainingRun run;
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
      refuse("unknown option '" + option + "'; --help tells which there are");
    if (!has_value) refuse(option + " needs a value");
    ++i;
  }
  TrainingStep& s = run.shape;
  if (!seen.contains("--kv-heads") && s.heads > 0 && (s.heads % 8 != 0 || s.heads < s.kv_heads))
    s.kv_heads = s.heads;
  s.fused_attention = run.attention == AttentionChoice::fused;
  check_shape(s);
  return run;
}

std::string training_step_usage() {
  std::string text =
      "Train a stack of transformer layers on one GPU: what a step takes\n"
      "Usage: stepcast-measure training-step [OPTIONS]\n\n";
  const auto line = [&](std::string option, const std::string& what) {
    option.resize(std::max<size_t>(option.size() + 2, 24), ' ');
    text += "  " + option + what + "\n";
  };
  const TrainingStep usual;
  for (const Size& size : kSizes)
    line(std::string(size.option) + " N",
         std::string(size.text) + " (" + std::to_string(usual.*size.field) + ")");
  line("--plain-mlp", "GELU without a gate instead of SiLU with one");
  line("--attention WHICH", "fused, unfused, or auto: fused where the library can (auto)");
  line("--steps N", "steps on one fixed batch (20)");
  line("--learning-rate X", "of Adam (0.3 / hidden)");
  line("--device N", "which GPU (0)");
  line("--gpu NAME", "preset that the scenario names, where the device's name does not tell");
  line("--scenario-out FILE", "write the run as a scenario: stepcast check FILE compares");
  line("--calibration TABLE", "cost table that the scenario names, as seen from its folder");
  return text;
}

// ------------------------------------------------------------------------------------ parameters
ParameterMap map_parameters(const TrainingStep& s) {
  ParameterMap map;
  const auto add = [&](int64_t rows, int64_t width) {
    const Parameter p{map.count, rows, width};
    map.count += p.count();
    return p;
  };
  map.embedding = add(s.vocab, s.hidden);
  for (int64_t i = 0; i < s.layers; ++i) {
    LayerParameters layer;
    layer.norm1 = add(1, s.hidden);
    layer.qkv = add(s.qkv_width(), s.hidden);
    layer.projection = add(s.hidden, s.heads * s.head_dim());
    layer.norm2 = add(1, s.hidden);
    layer.up = add(s.up_width(), s.hidden);
    layer.down = add(s.hidden, s.ffn);
    map.layers.push_back(layer);
  }
  map.final_norm = add(1, s.hidden);
  map.head = add(s.vocab, s.hidden);
  return map;
}

std::vector<InitialValue> initial_values(const TrainingStep& s) {
  const ParameterMap map = map_parameters(s);
  constexpr double kDeviation = 0.02;
  const double residual = kDeviation / std::sqrt(2.0 * static_cast<double>(s.layers));
  std::vector<InitialValue> values;
  values.push_back({map.embedding, 0, kDeviation});
  for (const LayerParameters& layer : map.layers) {
    values.push_back({layer.norm1, 1, 0});
    values.push_back({layer.qkv, 0, kDeviation});
    values.push_back({layer.projection, 0, residual});
    values.push_back({layer.norm2, 1, 0});
    values.push_back({layer.up, 0, kDeviation});
    values.push_back({layer.down, 0, residual});
  }
  values.push_back({map.final_norm, 1, 0});
  values.push_back({map.head, 0, kDeviation});
  return values;
}

// -------------------------------------------------------------------------------------- the batch
Microbatch fixed_microbatch(const TrainingStep& s, int64_t index) {
  Microbatch batch;
  const auto word = [&](int64_t sequence, int64_t position) {
    const auto place = static_cast<uint64_t>((index * s.micro + sequence) * (s.seq + 1) + position);
    return static_cast<int32_t>(mixed(place) % static_cast<uint64_t>(s.vocab));
  };
  for (int64_t q = 0; q < s.micro; ++q) {
    for (int64_t t = 0; t < s.seq; ++t) {
      batch.tokens.push_back(word(q, t));
      batch.targets.push_back(word(q, t + 1));
    }
  }
  return batch;
}

}  // namespace stepcast::measure
