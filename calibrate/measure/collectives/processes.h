// SPDX-License-Identifier: Apache-2.0
// The processes that measure collectives together: how they find each other and which GPU each
// takes.  Nothing here needs CUDA or MPI (processes_mpi.h does).
//
// What the user can get wrong (a wrong rank, a meeting place that cannot be written, processes that
// never come) is InputError with a sentence.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast::measure {

// Which of how many processes this one is; alone by default.
struct ProcessPlace {
  int rank = 0;
  int ranks = 1;
};

// What the launcher says in its environment: Open MPI's mpirun, MPICH's and Intel's (PMI), srun,
// torchrun, in this order.  `variable` is std::getenv or a test's own.  Nothing if no launcher
// started this process; throws if its numbers make no sense.
std::optional<ProcessPlace> place_of_launcher(
    const std::function<const char*(const char*)>& variable);

// What each process tells the others.
struct ProcessRecord {
  std::string host;    // one word
  int devices = 0;     // GPUs it can see
  double nic_gbs = 0;  // of all NICs of its host, one direction, GB/s; 0: not known
  std::string token;   // one word; of process 0: NCCL's unique id
};
std::string write_record(const ProcessRecord& record);
// REQUIRES: what write_record wrote, else InputError.
ProcessRecord read_record(std::string_view text);

// Bytes as one word, and back (InputError if they are none).
std::string hex_of(std::string_view bytes);
std::string bytes_of_hex(std::string_view hex);

// A rank of a collective: a GPU.
struct RankPlace {
  int process = 0;  // index into the records
  int device = 0;   // as that process counts its GPUs
  int node = 0;     // hosts, or as many of them as make a node, in the order of their first process
};

// The ranks, host by host and within a host by process, whatever order the launcher counted in.
// One process alone drives all GPUs that it sees, `most` at most (0: all).  Of several processes
// each drives one: the i-th on a host takes its i-th GPU, or the only one that it sees (launchers
// may show each process its own).  A node is what NVLink connects: `hosts_per_node` hosts in the
// launcher's order (18 of GB200 NVL72).  Throws if a process sees no GPU, or fewer than there are
// processes on its host.
std::vector<RankPlace> place_ranks(std::span<const ProcessRecord> processes, int most = 0,
                                   int hosts_per_node = 1);

// A GPU's share of the NICs, GB/s of one direction: of the host where it is least.  NICs serve all
// GPUs of a host, those that a process sees or the processes there if they are more; 0: not known.
double nic_share_gbs(std::span<const ProcessRecord> processes);

// A meeting of `ranks` processes at a file that all of them can reach (a shared file system).
struct Meeting {
  std::string file;
  ProcessPlace place;
  uint64_t nonce = 0;  // different in every process of every run: time and process id
  std::chrono::milliseconds patience{std::chrono::minutes(5)};
};

// Gives each process what all of them said, in order of rank.  Files of an earlier run that broke
// off are no danger: nobody believes a file that does not carry his own nonce, or that of process 0
// of this run.  Leaves nothing behind unless a process breaks off.  Throws after `patience`, naming
// who did not come.
std::vector<std::string> meet(const Meeting& meeting, std::string_view payload);

}  // namespace stepcast::measure
