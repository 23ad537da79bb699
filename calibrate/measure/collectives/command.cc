// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/command.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <utility>

#include "calibrate/import/device_names.h"
#include "calibrate/measure/collectives/collectives.h"
#include "calibrate/measure/collectives/network.h"
#include "calibrate/measure/collectives/options.h"
#include "calibrate/measure/collectives/processes_mpi.h"
#include "calibrate/measure/device.h"
#include "calibrate/measure/measure_options.h"
#include "calibrate/measure/sweep_progress.h"
#include "calibrate/measure/table_output.h"
#include "sim/diagnostic.h"

namespace stepcast::measure {
namespace {

using Clock = std::chrono::steady_clock;

const char* variable(const char* name) {
  return std::getenv(name);
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.is_open() || in.bad()) refuse("cannot read " + path);
  return text;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "localhost";
  return name.data();
}

// Different in every process of every run.
uint64_t nonce() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ticks = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
  return static_cast<uint64_t>(ticks) * 0x9E3779B97F4A7C15U + static_cast<uint64_t>(getpid()) + 1;
}

int devices_here() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

// The processes of this run, met, and what they have.
struct Assembly {
  Gathering gathering;
  std::unique_ptr<MpiSession> mpi;
  std::vector<ProcessRecord> records;
  std::vector<RankPlace> ranks;
  double nic_gbs = 0;
  std::optional<NicDriver> network;  // nothing: not known

  bool leads() const { return gathering.place.rank == 0; }
};

Assembly assemble(const CollectiveOptions& options) {
  Assembly a;
  a.gathering = gathering(options, variable, has_mpi());
  if (a.gathering.meet == Meet::alone) open_device(0);  // says why there is none
  ProcessRecord mine;
  mine.host = host_name();
  mine.devices = devices_here();
  const char* adapters = std::getenv("NCCL_IB_HCA");
  const std::vector<NetworkPort> ports = read_network_ports();
  mine.nic_gbs = nic_total_gbs(ports, adapters == nullptr ? "" : adapters);
  a.network =
      options.network ? options.network : driver_of(ports, adapters == nullptr ? "" : adapters);
  if (a.leads() && mine.devices > 0) mine.token = new_collective_id();
  std::vector<std::string> said{write_record(mine)};
  if (a.gathering.meet == Meet::file) {
    const auto patience = std::chrono::milliseconds(static_cast<int64_t>(options.patience_s * 1e3));
    said = meet({options.meeting, a.gathering.place, nonce(), patience}, said[0]);
  } else if (a.gathering.meet == Meet::mpi) {
    a.mpi = std::make_unique<MpiSession>();
    a.gathering.place = a.mpi->place();
    said = a.mpi->meet(said[0]);
  }
  for (const std::string& text : said) a.records.push_back(read_record(text));
  a.ranks = place_ranks(a.records, options.gpus, options.hosts_per_node);
  a.nic_gbs = options.nic_gbs > 0 ? options.nic_gbs : nic_share_gbs(a.records);
  return a;
}

std::string describe(const Assembly& a, const CollectiveOptions& options) {
  const int nodes = a.ranks.back().node + 1;
  std::string text = "collectives over " + std::to_string(a.ranks.size()) + " GPUs on " +
                     std::to_string(nodes) + (nodes == 1 ? " node, " : " nodes, ") +
                     (a.records.size() == 1 ? "one process" : "one process a GPU");
  if (nodes > 1) {
    text += options.nic_gbs > 0 ? "; share of the NICs as stated"
                                : "; share of the NICs from /sys/class/infiniband";
  }
  return text;
}

// The head of the table: conditions and one source, no rows.
TableText head_of(const Assembly& a, const CollectiveOptions& options, const Device& device) {
  const CollectiveFacts facts = collective_facts(variable);
  TableText head;
  head.gpu = options.gpu.empty() ? std::string(gpu_of_device(device.name)) : options.gpu;
  if (head.gpu.empty()) {
    refuse("'" + device.name + "' is the GPU of no preset: name one (--gpu NAME)");
  }
  head.about = device.name;
  head.software = device.software + ", " + facts.software;
  head.nvlink_gbs = options.nvlink_gbs > 0 ? options.nvlink_gbs : facts.nvlink_gbs;
  head.in_network_reduction = options.in_network_reduction.value_or(facts.in_network_reduction);
  head.conditions = facts.conditions;
  head.conditions.push_back(describe(a, options));
  if (options.in_network_reduction) {
    head.conditions.push_back("reduction in NVSwitches: as stated by the user");
  }
  Wires wires = facts.wires;
  if (a.ranks.back().node > 0) wires.network = a.network;
  head.sources = {{"collectives", false, "stepcast-measure collectives on " + device.name, wires}};
  return head;
}

// On a terminal one line that is written over, else a line every half minute.
class Progress {
 public:
  explicit Progress(double budget_s) : budget_s_(budget_s) {}

  void show(int64_t done, int64_t total, double seconds) {
    constexpr double kPeriod = 30;
    const bool terminal = isatty(STDERR_FILENO) == 1;
    if (!terminal && seconds < next_ && done != total) return;
    next_ = seconds + kPeriod;
    const std::string text = sweep_bar(done, total, seconds, budget_s_);
    std::fprintf(stderr, terminal ? "\r%s\x1b[K%s" : "%s%s", text.c_str(),
                 terminal && done != total ? "" : "\n");
  }

 private:
  double budget_s_;
  double next_ = 0;  // second at which a line is due
};

// Process 0: measures all points, and writes the table.
int lead(const Assembly& a, const CollectiveOptions& options, const Device& device,
         Collectives& collectives) {
  std::vector<std::string> left_out;
  const std::string plan = options.plan.empty() ? "" : text_of(options.plan);
  std::vector<SweepPoint> points = chosen_points(options, plan, a.ranks, a.nic_gbs, left_out);
  TableOutput output(options.output, head_of(a, options, device));
  std::erase_if(points, [&](const SweepPoint& p) { return output.has(p.key); });
  const Clock::time_point begin = Clock::now();
  SweepHooks hooks;
  hooks.measure = [&](const SweepPoint& p) { return collectives.measure(p); };
  hooks.finished = [&](const SweepPoint& p, const PointResult& m) { output.append(p, m); };
  hooks.seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  hooks.interrupted = [] { return false; };
  Progress progress(options.budget_s);
  hooks.progress = [&](int64_t done, int64_t total, double seconds) {
    progress.show(done, total, seconds);
  };
  SweepReport report = run_sweep(points, options.budget_s, hooks);
  report.skipped.insert(report.skipped.begin(), left_out.begin(), left_out.end());
  std::fputs(
      sweep_summary(report, options.output, "stepcast-measure collectives ... -o " + options.output)
          .c_str(),
      stderr);
  std::fputs(output.finish().c_str(), stdout);
  return 0;
}

int list_points(const CollectiveOptions& options) {
  std::vector<ProcessRecord> records;
  const int gpus = options.gpus > 0 ? options.gpus : 8;
  for (int node = 0; node < options.nodes; ++node) {
    for (int gpu = 0; gpu < gpus; ++gpu) {
      records.push_back({"node" + std::to_string(node), gpus, 0, ""});
    }
  }
  std::vector<std::string> left_out;
  const std::string plan = options.plan.empty() ? "" : text_of(options.plan);
  const auto points = chosen_points(options, plan, place_ranks(records, 0, options.hosts_per_node),
                                    options.nic_gbs, left_out);
  std::fputs(list_text(points, options.budget_s).c_str(), stdout);
  for (const std::string& line : left_out) std::fprintf(stderr, "left out: %s\n", line.c_str());
  return 0;
}

// The device of this process, or the first of them.
int own_device(const Assembly& a) {
  for (const RankPlace& r : a.ranks) {
    if (r.process == a.gathering.place.rank) return r.device;
  }
  refuse("this process has no GPU to measure");
}

int measure_all(const CollectiveOptions& options) {
  const Assembly a = assemble(options);
  const std::string nothing = why_no_collectives(static_cast<int>(a.ranks.size()));
  if (!nothing.empty()) refuse(nothing);
  if (a.ranks.back().node > 0 && !a.network)
    refuse(
        "groups span nodes and what drives the NICs is not known: state it (--network NAME, one "
        "of " +
        nic_driver_words() + ")");
  // All processes refuse this alike, before any waits for the others.
  std::vector<std::string> left_out;
  static_cast<void>(chosen_points(options, "", a.ranks, a.nic_gbs, left_out));
  const auto fail = [&](const std::string& what) {
    std::fprintf(stderr, "stepcast-measure: %s%s%s\n", what.c_str(),
                 options.output == "-" ? "" : "; rows measured before are in ",
                 options.output == "-" ? "" : (options.output + ".partial").c_str());
    if (a.mpi) a.mpi->abort();
    std::_Exit(1);
  };
  Device device;
  try {
    device = open_device(own_device(a));
  } catch (const std::exception& e) {
    fail(e.what());  // the others would wait for this process
  }
  Collectives collectives(a.ranks, a.gathering.place.rank, a.records[0].token, fail);
  if (a.leads()) return lead(a, options, device, collectives);
  collectives.follow();
  return 0;
}

}  // namespace

int collectives_command(std::span<const std::string> arguments) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::fputs(std::string(collective_usage()).c_str(), stdout);
    return 0;
  }
  const CollectiveOptions options = read_collective_options(arguments);
  return options.list ? list_points(options) : measure_all(options);
}

}  // namespace stepcast::measure
