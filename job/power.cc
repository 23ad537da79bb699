// SPDX-License-Identifier: Apache-2.0
#include "job/power.h"

#include <embedded/power_files.h>
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "job/figures.h"
#include "sim/csv.h"

namespace stepcast {

namespace {

constexpr std::array<std::string_view, kDraws> kDrawNames{"compute", "memory", "communication",
                                                          "idle"};

}  // namespace

Draw draw_of(Spend spend) {
  switch (spend) {
    case Spend::matmul:
    case Spend::attention:
    case Spend::recompute:
    case Spend::contention: return Draw::compute;
    case Spend::norm:
    case Spend::elementwise:
    case Spend::embedding_loss:
    case Spend::gradient_buffers:
    case Spend::optimizer: return Draw::memory;
    case Spend::exposed_tp:
    case Spend::exposed_cp:
    case Spend::exposed_ep:
    case Spend::exposed_pp:
    case Spend::exposed_dp:
    case Spend::exposed_other: return Draw::communication;
    case Spend::fill:
    case Spend::imbalance:
    case Spend::drain:
    case Spend::blocked:
    case Spend::straggler:
    case Spend::expert_imbalance:
    case Spend::launch:
    case Spend::idle_end: return Draw::idle;
  }
  return Draw::idle;
}

PowerTable parse_power(std::string_view text) {
  PowerTable table;
  for (const CsvRow& row : csv_rows(text, "what,architecture,value,known")) {
    const std::string_view what = row.cells[0], arch = row.cells[1];
    const double value = row.number(2);
    const bool assumed = assumed_figure(row.cells[3]);
    const auto draw = std::ranges::find(kDrawNames, what);
    if (draw != kDrawNames.end()) {
      if (!(value > 0 && value <= 1)) refuse(std::string(what) + " is a share of the rating");
      const auto i = static_cast<size_t>(draw - kDrawNames.begin());
      table.share[i] = value;
      table.share_assumed[i] = assumed;
    } else if (what == "host_drawn" && value > 0 && value <= 1) {
      table.host_drawn = value;
    } else if (what == "host_rated" && value > 0) {
      const auto known = std::ranges::find(kGpuArchitectures, arch, &GpuArchitecture::name);
      if (known == kGpuArchitectures.end())
        refuse("there is no architecture '" + std::string(arch) + '\'');
      const auto i = static_cast<size_t>(known - kGpuArchitectures.begin());
      table.host_rated[i] = value;
      table.host_assumed[i] = assumed;
    } else {
      refuse("'" + std::string(what) + "' is nothing that draws power");
    }
  }
  if (table.host_drawn == 0 || std::ranges::count(table.share, 0.0) > 0)
    refuse("a line of the powers is missing");
  return table;
}

const PowerTable& power_table() {
  static const PowerTable table = parse_power(power_files()[0].second);
  return table;
}

std::optional<double> gpu_watts(const Gpu& gpu, Draw draw) {
  if (gpu.power.value <= 0) return {};
  const double watts = gpu.power.value * power_table().share[static_cast<size_t>(draw)];
  return gpu.power_limit.value > 0 ? std::min(watts, gpu.power_limit.value) : watts;
}

std::optional<double> step_gpu_watts(const Gpu& gpu, const Account& account) {
  if (gpu.power.value <= 0) return {};
  double joules = 0, seconds = 0;
  for (const SpendTable& role : account.by_role) {
    for (int i = 0; i < kSpends; ++i) {
      const double time = to_seconds(role[static_cast<size_t>(i)]);
      joules += time * *gpu_watts(gpu, draw_of(static_cast<Spend>(i)));
      seconds += time;
    }
  }
  if (seconds <= 0) return {};
  return joules / seconds;
}

std::optional<double> host_watts(const Gpu& gpu) {
  const double rated = power_table().host_rated[static_cast<size_t>(gpu.arch)];
  if (rated <= 0) return {};
  return rated * power_table().host_drawn;
}

std::optional<Diagnostic> check_power(const Gpu& gpu) {
  Diagnostic d;
  if (gpu.power.value <= 0) {
    d.message = "the power of this GPU is not known, so neither is the energy";
    d.help = "cluster.node.gpu.power: its rating, for example 700W";
    return d;
  }
  if (host_watts(gpu)) return {};
  std::string known;
  for (size_t i = 0; i < kGpuArchitectures.size(); ++i)
    if (power_table().host_rated[i] > 0)
      known += (known.empty() ? "" : ", ") + std::string(kGpuArchitectures[i].name);
  d.message = fmt::format(
      "there is no host rating for architecture '{}', so the energy of a node is not known",
      name_of(gpu.arch));
  d.help = fmt::format("rated hosts are those of {}", known);
  return d;
}

std::string host_words() {
  return fmt::format("hosts at {:.0f} % of their rating", power_table().host_drawn * 100);
}

std::string assumed_power(const Gpu& gpu) {
  const PowerTable& table = power_table();
  constexpr std::array<std::string_view, kDraws> kWords{
      "products and attention", "memory-bound kernels", "exposed communication", "idle GPUs"};
  std::string words;
  for (size_t i = 0; i < kDraws; ++i)
    if (table.share_assumed[i])
      words += fmt::format("{}{} at {:.0f} % of the rating", words.empty() ? "" : "; ", kWords[i],
                           table.share[i] * 100);
  const auto arch = static_cast<size_t>(gpu.arch);
  if (table.host_assumed[arch])
    words += fmt::format("{}hosts rated at {:.4g} W a GPU", words.empty() ? "" : "; ",
                         table.host_rated[arch]);
  return words;
}

std::optional<StepEnergy> step_energy(const Gpu& gpu, const Result& result) {
  const auto watts = step_gpu_watts(gpu, result.account), host = host_watts(gpu);
  if (!watts || !host) return {};
  StepEnergy e;
  e.gpu_watts = *watts;
  e.host_watts = *host;
  e.assumed = assumed_power(gpu);
  e.joules =
      (*watts + *host) * static_cast<double>(result.scenario.gpus) * to_seconds(result.step_time);
  if (result.tokens_per_step > 0) e.joules_per_token = e.joules / result.tokens_per_step;
  return e;
}

}  // namespace stepcast
