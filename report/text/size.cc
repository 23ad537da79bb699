// SPDX-License-Identifier: Apache-2.0
#include "report/text/size.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "report/json/writer.h"
#include "report/text/roles.h"
#include "report/text/run.h"
#include "sim/check.h"
#include "sim/units.h"

namespace stepcast {

namespace {

constexpr int kNameWidth = 18;

// Four digits.
std::string digits(double value) {
  return fixed(value, value < 9.9995 ? 3 : value < 99.995 ? 2 : value < 999.95 ? 1 : 0);
}

std::string line(std::string_view name, const std::string& text) {
  return "  " + pad_right(name, kNameWidth) + text + '\n';
}

std::string gpus_text(int64_t n) {
  return grouped(n) + (n == 1 ? " GPU" : " GPUs");
}

std::string headline(const ModelSize& s, const TextStyle& style) {
  std::string text = paint(escape_text(s.model), Tone::strong, style) + "   " +
                     grouped(s.parameters) + " parameters, on " + escape_text(s.gpu) + ": " +
                     metric(real(s.gpu_memory.value), "B");
  if (s.gpu_peak > 0) text += ", " + metric(s.gpu_peak, "FLOP/s");
  return text + '\n';
}

std::string model_lines(const ModelSize& s) {
  const double n = real(s.parameters);
  std::string of = "of which " + metric(real(s.embedding_parameters), "") + " embeddings and head";
  if (s.active_parameters != s.parameters)
    of += "; a token meets " + metric(real(s.active_parameters), "");
  std::string weights;
  for (const auto& [bytes, name] : std::array<std::pair<double, const char*>, 4>{
           {{4, "4 bytes"}, {2, "2"}, {1, "1"}, {0.5, "0.5"}}})
    weights += (weights.empty() ? "" : ", ") + std::string(name) + ": " + metric(n * bytes, "B");
  std::string predictions;
  if (s.mtp_layers > 0)
    predictions =
        line("beside them",
             pad_right(metric(real(s.mtp_parameters), ""), 10) + "of " +
                 fmt::to_string(s.mtp_layers) + (s.mtp_layers == 1 ? " module" : " modules") +
                 " of multi-token prediction (MTP), trained too: a step has their work");
  return line("parameters", pad_right(metric(n, ""), 10) + of) + predictions +
         line("weights", weights) +
         line("KV cache", metric(s.cache_bytes_per_token, "B") + " a token of context (2 bytes)");
}

std::string step_lines(const ModelSize& s) {
  const double tokens = real(s.global_batch) * real(s.seq);
  return line("a step", grouped(s.global_batch) + " x " + grouped(s.seq) +
                            " tokens: " + metric(s.flops, "FLOP")) +
         line("", "causal attention " + metric(s.causal_flops, "FLOP") + ", 6 N T " +
                      metric(6 * real(s.active_parameters) * tokens, "FLOP")) +
         line("", "with full recomputation " + metric(s.recomputed_flops, "FLOP"));
}

// Thousands are said whole.
std::string count_text(double n) {
  return n < 1000 ? digits(n) : grouped(static_cast<int64_t>(n + 0.5));
}

// Of the whole training, at a share of the GPU's rate.
std::string days_line(const ModelSize& s, double total, double mfu, const std::string& where) {
  return line("", "at MFU " + percent(mfu) + ' ' + where + ": " +
                      count_text(gpu_days(total, mfu, s.gpu_peak)) + " GPU-days");
}

std::string training_lines(const ModelSize& s) {
  if (s.tokens <= 0) return {};
  const double per_token = 1 / (real(s.global_batch) * real(s.seq));
  const double steps = s.tokens * per_token;
  const double total = s.flops * steps;
  std::string text = line(metric(s.tokens, "") + " tokens",
                          count_text(steps) + " steps: " + metric(total, "FLOP") +
                              "; full recomputation " + metric(s.recomputed_flops * steps, "FLOP"));
  if (s.gpu_peak <= 0) return text;
  if (s.mfu) text += days_line(s, total, *s.mfu, "(stated)");
  if (s.training && s.training->result.utilization.mfu_full_attention > 0)
    text +=
        days_line(s, total, s.training->result.utilization.mfu_full_attention, "(predicted below)");
  return text;
}

// A rule: its name, bytes a parameter, all together, and GPUs.
std::string rule_line(const ModelSize& s, std::string_view name, const std::string& each,
                      double bytes) {
  return "  " + pad_right(name, kNameWidth) + pad_right(each, 28) +
         pad_left(metric(bytes, "B"), 10) +
         pad_left(gpus_text(gpus_for(bytes, real(s.gpu_memory.value))), 14) + '\n';
}

std::string rule_lines(const ModelSize& s) {
  const double n = real(s.parameters);
  const double x = s.parameter_bytes, y = s.gradient_bytes;
  const std::string sum = digits(x).substr(0, 1) + " + " + digits(y).substr(0, 1) +
                          " + 12 = " + fixed(x + y + 12, 0) + " bytes each";
  std::string text = "  " + pad_right("to train", kNameWidth) + pad_right("rule of thumb", 28) +
                     pad_left("together", 10) + pad_left("at least", 14) + '\n';
  text += rule_line(s, "(x + y + 12) N", sum, state_bytes(n, x, y));
  text += rule_line(s, "18 N", "states alone", 18 * n);
  text += rule_line(s, "18 N x 1.25", "a quarter for the rest", training_bytes(n));
  return text;
}

std::string predicted_lines(const ModelSize& s, const TextStyle& style) {
  if (!s.training) {
    if (s.layouts_tried == 0) return {};
    return line("predicted", paint("nothing fits", Tone::bad, style) + " on up to " +
                                 gpus_text(s.most_gpus_tried) + " (" + grouped(s.layouts_tried) +
                                 " layouts tried)");
  }
  const SizedLayout& l = *s.training;
  return line("predicted", pad_right(gpus_text(l.gpus), 10) + "the smallest of " +
                               grouped(s.layouts_tried) + " layouts tried that fits") +
         line("", l.set) +
         line("", "step " + format_time(l.result.step_time) + ", MFU " +
                      percent(l.result.utilization.mfu_full_attention)) +
         line("", gib(l.result.memory_reserved) + " GiB of " + gib(l.result.memory_usable) +
                      " usable on " + role_name(l.result, l.result.reserved_role)) +
         line("", paint(memory_verdict(l.result), tone_of(fit_of(l.result)), style));
}

struct Share {
  std::string_view name;
  double rule = 0, predicted = 0;
};

double of_peak(const RoleMemory& m, MemoryCategory category) {
  return real(m.at_peak[static_cast<size_t>(category)].value);
}

// What fills the fullest GPU, and what the rule gives each.
std::vector<Share> shares_of(const ModelSize& s, const SizedLayout& l) {
  const RoleMemory& m = l.result.memory[l.result.reserved_role].memory;
  const double each = real(s.parameters) / real(l.gpus);
  const double states = of_peak(m, MemoryCategory::parameters) +
                        of_peak(m, MemoryCategory::gradients) +
                        of_peak(m, MemoryCategory::optimizer_state);
  return {{"states", 18 * each, states},
          {"activations, buffers", 4.5 * each, real(m.peak.value) - states},
          {"gaps of the allocator", 0, real((l.result.memory_reserved - m.peak).value)},
          {"CUDA, NCCL", 0, real((s.gpu_memory - l.result.memory_usable).value)}};
}

// Why the fullest GPU holds more than the rule of thumb says.
std::string reasons(const ModelSize& s, const SizedLayout& l) {
  std::string text;
  const double even = real(s.parameters) / real(l.tp * l.pp);
  const double more = real(l.parameters) / even - 1;
  constexpr double kWorthSaying = 0.02;
  if (more > kWorthSaying)
    text += "The fullest rank holds " + percent(more) +
            " more parameters than an even share (embedding, head, vocabulary padding, what tp "
            "does not divide). ";
  if (l.dp > 1 && l.zero == 1)
    text += "Each of " + grouped(l.dp) +
            " replicas holds parameters and gradients; ZeRO-1 spreads the optimizer alone. ";
  if (l.recompute != "none")
    text += "Activations are recomputed (" + l.recompute + "), which the rule does not know. ";
  text +=
      "The rule's quarter depends neither on the sequence nor on the layout; a layout needs tp "
      "that "
      "divides the heads and pp that divides the layers.";
  return text;
}

std::string difference_lines(const ModelSize& s, const TextStyle& style) {
  if (!s.training || s.training->result.memory.empty()) return {};
  const SizedLayout& l = *s.training;
  std::string text = "\n  " + pad_right("of one GPU", 24) + pad_left("18 N x 1.25", 14) +
                     pad_left("predicted", 14) + '\n';
  double rule = 0, predicted = 0;
  const auto row = [&](std::string_view name, double a, double b) {
    text += "  " + pad_right(name, 24) + pad_left(a > 0 ? metric(a, "B") : "-", 14) +
            pad_left(metric(b, "B"), 14) + '\n';
  };
  for (const Share& share : shares_of(s, l)) {
    row(share.name, share.rule, share.predicted);
    rule += share.rule;
    predicted += share.predicted;
  }
  row("together", rule, predicted);
  return text + wrap(reasons(s, l), "  ", style.width);
}

std::string inference_lines(const ModelSize& s) {
  const double n = real(s.parameters);
  std::string text = "\n  " + pad_right("to infer", kNameWidth) + pad_right("rule of thumb", 28) +
                     pad_left("together", 10) + pad_left("at least", 14) + '\n';
  for (const auto& [bytes, name] : std::array<std::pair<double, const char*>, 3>{
           {{2, "2 bytes each"}, {1, "1 byte each"}, {0.5, "0.5 bytes each"}}})
    text += rule_line(s, "weights x 1.2", name, inference_bytes(n, bytes));
  std::string_view name = "predicted";
  if (s.inference.empty() && s.most_gpus_tried > 0)
    text += line(name, "not modelled: the model is no decoder alone");
  for (const SizedInference& i : s.inference) {
    const std::string found = i.layout ? pad_right(gpus_text(i.layout->gpus), 10) +
                                             pad_right(i.weights, 6) +
                                             format_time(i.layout->result.step_time) +
                                             " a token after " + grouped(s.seq) + " of one sequence"
                                       : "no layout fits with weights in " + i.weights;
    text += line(std::exchange(name, ""), found);
  }
  return text;
}

void write_training(JsonWriter& json, const ModelSize& s) {
  json.optional_object("training", s.tokens > 0 ? &s : nullptr, [&](const ModelSize&) {
    const double steps = s.tokens / (real(s.global_batch) * real(s.seq));
    json.member("tokens", s.tokens);
    json.member("steps", steps);
    json.member("flops", s.flops * steps);
    json.member("flops_with_full_recomputation", s.recomputed_flops * steps);
    if (s.mfu && s.gpu_peak > 0) {
      json.member("mfu_stated", *s.mfu);
      json.member("gpu_days_stated", gpu_days(s.flops * steps, *s.mfu, s.gpu_peak));
    }
    const double mfu = s.training ? s.training->result.utilization.mfu_full_attention : 0;
    if (mfu > 0 && s.gpu_peak > 0) {
      json.member("mfu_predicted", mfu);
      json.member("gpu_days_predicted", gpu_days(s.flops * steps, mfu, s.gpu_peak));
    }
  });
}

void write_rules(JsonWriter& json, const ModelSize& s) {
  const double n = real(s.parameters);
  const auto rule = [&](std::string_view name, double bytes) {
    json.object(name, [&] {
      json.member("bytes", bytes);
      json.member("gpus", gpus_for(bytes, real(s.gpu_memory.value)));
    });
  };
  json.object("rules_of_thumb", [&] {
    rule("states", state_bytes(n, s.parameter_bytes, s.gradient_bytes));
    rule("states_18", 18 * n);
    rule("training", training_bytes(n));
    rule("inference_2_bytes", inference_bytes(n, 2));
    rule("inference_1_byte", inference_bytes(n, 1));
    rule("inference_half_byte", inference_bytes(n, 0.5));
  });
}

void write_layouts(JsonWriter& json, const ModelSize& s) {
  json.optional_object("smallest_layout", s.training, [&](const SizedLayout& l) {
    json.member("gpus", l.gpus);
    json.member("tp", l.tp);
    json.member("pp", l.pp);
    json.member("dp", l.dp);
    json.member("ep", l.ep);
    json.member("zero", l.zero);
    json.member("recompute", l.recompute);
    json.member("set", l.set);
    json.member_time("step_time", l.result.step_time);
    json.member("mfu", l.result.utilization.mfu_full_attention);
    json.member("reserved_bytes", l.result.memory_reserved.value);
    json.member("usable_bytes", l.result.memory_usable.value);
    json.member("fits_share", l.result.fits_share);
  });
  json.member("layouts_tried", s.layouts_tried);
  json.objects("smallest_inference", s.inference, [&](const SizedInference& i) {
    json.member("weights", i.weights);
    json.optional_object("layout", i.layout, [&](const SizedLayout& l) {
      json.member("gpus", l.gpus);
      json.member("set", l.set);
      json.member_time("time_per_token", l.result.step_time);
      json.member("reserved_bytes", l.result.memory_reserved.value);
    });
  });
}

}  // namespace

std::string metric(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 9> kPrefixes{"", "k", "M", "G", "T", "P", "E", "Z", "Y"};
  // A count of parameters or tokens is said in billions.
  constexpr std::array<std::string_view, 9> kCounts{"", "k", "M", "B", "T", "P", "E", "Z", "Y"};
  size_t i = 0;
  while (value >= 999.95 && i + 1 < kPrefixes.size()) {
    value /= 1000;
    ++i;
  }
  const std::string number = i == 0 && value == static_cast<double>(static_cast<int64_t>(value))
                                 ? fixed(value, 0)
                                 : digits(value);
  const std::string_view prefix = unit.empty() ? kCounts[i] : kPrefixes[i];
  std::string text = number;
  if (!prefix.empty() || !unit.empty()) text += ' ';
  text += prefix;
  return text += unit;
}

std::string size_text(const ModelSize& size, const TextStyle& style) {
  std::string text = headline(size, style) + '\n' + model_lines(size) + '\n' + step_lines(size) +
                     training_lines(size) + '\n' + rule_lines(size);
  text += predicted_lines(size, style) + difference_lines(size, style) + inference_lines(size);
  return text;
}

std::string size_json(const ModelSize& s, std::string_view version) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
    json.member("model", s.model);
    json.object("gpu", [&] {
      json.member("name", s.gpu);
      json.member("memory_bytes", s.gpu_memory.value);
      json.member("usable_bytes", s.gpu_usable.value);
      json.member("peak_flops", s.gpu_peak);
    });
    json.member("parameters", s.parameters);
    json.member("active_parameters", s.active_parameters);
    json.member("embedding_parameters", s.embedding_parameters);
    json.member("mtp_layers", s.mtp_layers);
    json.member("mtp_parameters", s.mtp_parameters);
    json.member("kv_cache_bytes_per_token", s.cache_bytes_per_token);
    json.object("step", [&] {
      json.member("sequences", s.global_batch);
      json.member("seq", s.seq);
      json.member("flops", s.flops);
      json.member("flops_causal", s.causal_flops);
      json.member("flops_with_full_recomputation", s.recomputed_flops);
    });
    write_training(json, s);
    write_rules(json, s);
    write_layouts(json, s);
    json.member("version", version);
  });
}

int64_t gpus_for(double bytes, double gpu_bytes) {
  STEPCAST_CHECK(gpu_bytes > 0 && bytes >= 0, "no GPU memory");
  return static_cast<int64_t>(std::ceil(bytes / gpu_bytes));
}

}  // namespace stepcast
