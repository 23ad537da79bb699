// SPDX-License-Identifier: Apache-2.0
// stepcast-measure: measures kernels, copies and collectives of the GPU at hand into a cost table.
//
// Exit status: 0; 1 the GPU failed; 2 wrong arguments, a plan or table with mistakes, no GPU; 7 a
// file cannot be read or written; 130 interrupted (what was measured is in the table).
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "calibrate/import/device_names.h"
#include "calibrate/measure/collectives/command.h"
#include "calibrate/measure/collectives/plan.h"
#include "calibrate/measure/collectives/processes.h"
#include "calibrate/measure/layer_loop.h"
#include "calibrate/measure/measure_options.h"
#include "calibrate/measure/measure_point.h"
#include "calibrate/measure/sweep_progress.h"
#include "calibrate/measure/table_output.h"
#include "sim/diagnostic.h"

namespace stepcast::measure {
namespace {

constexpr int kExitFailed = 1, kExitUsage = 2, kExitInterrupted = 130;

volatile std::sig_atomic_t interrupted = 0;  // a handler can set nothing else

// The second one ends the program at once; rows that were measured are on disk.
void on_interrupt(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

double monotonic_seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02} UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min);
}

std::string text_of(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || in.bad()) {
    Diagnostic d;
    d.code = "E101";
    d.message = "cannot be read";
    d.file = path;
    throw InputError(d);
  }
  return text;
}

int visible_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Collectives of the grid and of the plan over `gpus` local GPUs; what the plan needs besides is
// told in `left_out`.
std::vector<SweepPoint> local_collectives(const MeasureOptions& options, const PlanText* plan,
                                          int gpus, std::vector<std::string>& left_out) {
  std::vector<SweepPoint> points;
  if (gpus < 2) {
    const auto planned =
        plan == nullptr ? 0
                        : std::count_if(plan->rows.begin(), plan->rows.end(), [](const PlanRow& r) {
                            return is_communication(r.work.kind);
                          });
    if (planned > 0) {
      left_out.push_back(
          fmt::format("collective: {} rows of the plan need more GPUs than are here", planned));
    }
    return points;
  }
  if (options.grid != Grid::none) points = collective_points(gpus, options.grid == Grid::full);
  if (plan == nullptr) return points;
  const std::vector<ProcessRecord> alone{{"", gpus, 0, ""}};
  for (SweepPoint& p : planned_collectives(*plan, place_ranks(alone), 0, left_out)) {
    points.push_back(std::move(p));
  }
  return points;
}

// On a terminal a bar that is drawn anew after each point, else a line every half minute.
class Progress {
 public:
  explicit Progress(double budget_s) : budget_s_(budget_s), bar_(isatty(STDERR_FILENO) != 0) {}

  void show(int64_t done, int64_t total, double seconds) {
    constexpr double kPeriod = 30;
    if (!bar_ && seconds < next_) return;
    next_ = seconds + kPeriod;
    const std::string text = sweep_bar(done, total, seconds, budget_s_);
    if (bar_) {
      std::fprintf(stderr, "\r%s\x1b[K", done < total ? text.c_str() : "");
    } else {
      std::fprintf(stderr, "%s\n", text.c_str());
    }
  }

 private:
  double budget_s_;
  bool bar_;
  double next_ = 30;
};

TableText header_of(const MeasureOptions& options, const Device& device,
                    const PointMeasurer& measurer) {
  TableText head;
  head.gpu = options.gpu.empty() ? std::string(gpu_of_device(device.name)) : options.gpu;
  if (head.gpu.empty()) {
    refuse("'" + device.name + "' is the GPU of no preset: name the table's with --gpu NAME");
  }
  head.about = device.name;
  head.software = measurer.software();
  const CollectiveFacts& facts = measurer.collective_facts();
  head.nvlink_gbs = facts.nvlink_gbs;
  head.in_network_reduction = facts.in_network_reduction;
  head.conditions = facts.conditions;
  head.conditions.push_back("begun " + today());
  head.sources = {{"here", false, "stepcast-measure on " + device.name, facts.wires},
                  {"here-copies", true,
                   "stepcast-measure on " + device.name + ", copies in place of collectives"}};
  return head;
}

std::string failure_text(const std::string& row, const char* what, const std::string& output) {
  const std::string text = row + ": " + what;
  return output == "-" ? text : text + "; rows measured before are in " + output + ".partial";
}

int measure(const MeasureOptions& options, const PlanText* plan) {
  const Device device = open_device(options.device);
  const int gpus = visible_gpus();
  PointMeasurer measurer(device, gpus);
  TableOutput output(options.output, header_of(options, device, measurer));
  std::vector<std::string> left_out;
  std::vector<SweepPoint> points =
      asked_points(options, plan, local_collectives(options, plan, gpus, left_out));
  std::erase_if(points, [&](const SweepPoint& p) { return output.has(p.key); });
  if (output.rows() > 0) std::fprintf(stderr, "%ld rows are there already\n", output.rows());

  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  Progress progress(options.budget_s);
  SweepHooks hooks;
  hooks.measure = [&](const SweepPoint& p) {
    try {
      return measurer.measure(p);
    } catch (const DeviceError& e) {
      throw DeviceError(failure_text(p.key, e.what(), options.output));
    }
  };
  hooks.finished = [&](const SweepPoint& p, const PointResult& m) {
    const bool derived = p.key == "interference" && measurer.interference_is_derived();
    output.append(p, m, derived ? "here-copies" : "here");
  };
  hooks.seconds = monotonic_seconds;
  hooks.interrupted = [] { return interrupted != 0; };
  hooks.progress = [&](int64_t done, int64_t total, double s) { progress.show(done, total, s); };
  SweepReport report = run_sweep(points, options.budget_s, hooks);
  for (const std::string& line : measurer.conditions()) output.add_condition(line);
  const std::string table = output.finish();
  if (std::fwrite(table.data(), 1, table.size(), stdout) != table.size()) return 7;
  report.skipped.insert(report.skipped.begin(), left_out.begin(), left_out.end());
  std::fputs(
      sweep_summary(report, options.output, "stepcast-measure ... -o " + options.output).c_str(),
      stderr);
  return report.interrupted ? kExitInterrupted : 0;
}

int run(std::span<const std::string> arguments) {
  if (!arguments.empty() && arguments[0] == "layer") return layer_command(arguments.subspan(1));
  if (!arguments.empty() && arguments[0] == "collectives") {
    return collectives_command(arguments.subspan(1));
  }
  const MeasureOptions options = read_measure_options(arguments);
  if (options.help) {
    std::fputs(std::string(measure_usage()).c_str(), stdout);
    return 0;
  }
  std::optional<PlanText> plan;
  if (!options.plan.empty()) plan = parse_plan_text(text_of(options.plan), options.plan);
  const PlanText* const planned = plan ? &*plan : nullptr;
  if (!options.list) return measure(options, planned);
  std::vector<std::string> left_out;
  const std::vector<SweepPoint> points =
      asked_points(options, planned, local_collectives(options, planned, visible_gpus(), left_out));
  std::fputs(list_text(points, options.budget_s).c_str(), stdout);
  for (const std::string& line : left_out) std::fprintf(stderr, "left out: %s\n", line.c_str());
  return 0;
}

}  // namespace
}  // namespace stepcast::measure

int main(int argc, char** argv) {
  using namespace stepcast::measure;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto complain = [](const char* what) {
    std::fprintf(stderr, "stepcast-measure: %s\n", what);
  };
  try {
    return run(arguments);
  } catch (const stepcast::InputError& e) {
    for (const stepcast::Diagnostic& d : e.diagnostics) {
      std::string place = d.line > 0 ? fmt::format("{}:{}: ", d.file, d.line) : "";
      if (place.empty() && !d.file.empty()) place = d.file + ": ";
      complain((place + (d.code.empty() ? "" : d.code + ' ') + d.message).c_str());
      if (!d.help.empty()) std::fprintf(stderr, "  help: %s\n", d.help.c_str());
    }
    return stepcast::exit_status_of(e.diagnostics);
  } catch (const NoDevice& e) {
    complain(e.what());
    return kExitUsage;
  } catch (const std::exception& e) {
    complain(e.what());
    return kExitFailed;
  }
}
