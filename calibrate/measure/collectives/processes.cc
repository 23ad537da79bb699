// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/processes.h"

#include <unistd.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "sim/diagnostic.h"

namespace stepcast::measure {
namespace {

// Variables of a launcher: rank and number of processes.
struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
};
// Open MPI: orte/ompi environment; PMI: MPICH, Intel MPI; Slurm: srun (the step's tasks: the job's
// are also set in a batch script that srun did not start); torchrun.
constexpr std::array<Launcher, 4> kLaunchers{{
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpiexec", "PMI_RANK", "PMI_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"torchrun", "RANK", "WORLD_SIZE"},
}};

int whole(std::string_view text, std::string_view what) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    refuse(std::string(what) + " is not a number of a process: '" + std::string(text) + "'");
  }
  return value;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  refuse("not a string of hexadecimal digits");
}

}  // namespace

std::optional<ProcessPlace> place_of_launcher(
    const std::function<const char*(const char*)>& variable) {
  for (const Launcher& launcher : kLaunchers) {
    const char* rank = variable(launcher.rank);
    const char* ranks = variable(launcher.ranks);
    if (rank == nullptr || ranks == nullptr) continue;
    const ProcessPlace place{whole(rank, launcher.rank), whole(ranks, launcher.ranks)};
    if (place.rank >= place.ranks) {
      refuse(std::string(launcher.name) + " says that this is process " + rank + " of " + ranks +
             " (" + launcher.rank + ", " + launcher.ranks + ")");
    }
    return place;
  }
  return std::nullopt;
}

std::string write_record(const ProcessRecord& record) {
  std::array<char, 64> nic{};
  const auto end = std::to_chars(nic.data(), nic.data() + nic.size(), record.nic_gbs).ptr;
  return record.host + " " + std::to_string(record.devices) + " " + std::string(nic.data(), end) +
         " " + (record.token.empty() ? "-" : record.token);
}

ProcessRecord read_record(std::string_view text) {
  std::istringstream words{std::string(text)};
  ProcessRecord record;
  std::string rest;
  if (!(words >> record.host >> record.devices >> record.nic_gbs >> record.token) ||
      words >> rest || record.devices < 0 || !(record.nic_gbs >= 0)) {
    refuse("not what a process of this measurement says: '" + std::string(text) + "'");
  }
  if (record.token == "-") record.token.clear();
  return record;
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string bytes_of_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) refuse("half a byte in hexadecimal digits");
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(hex_digit(hex[i]) * 16 + hex_digit(hex[i + 1]));
  }
  return bytes;
}

std::vector<RankPlace> place_ranks(std::span<const ProcessRecord> processes, int most,
                                   int hosts_per_node) {
  std::vector<RankPlace> ranks;
  for (const ProcessRecord& p : processes) {
    if (p.devices < 1) refuse("a process on " + p.host + " sees no GPU");
  }
  if (processes.size() == 1) {
    const int devices = most > 0 ? std::min(most, processes[0].devices) : processes[0].devices;
    for (int device = 0; device < devices; ++device) ranks.push_back({0, device, 0});
    return ranks;
  }
  struct Host {
    int number;
    int processes;
  };
  std::map<std::string_view, Host> hosts;
  std::vector<std::pair<int, RankPlace>> by_host;
  for (size_t i = 0; i < processes.size(); ++i) {
    const ProcessRecord& p = processes[i];
    const auto [host, added] = hosts.try_emplace(p.host, Host{static_cast<int>(hosts.size()), 0});
    const int device = p.devices == 1 ? 0 : host->second.processes;
    if (device >= p.devices) {
      refuse("more processes on " + p.host + " than GPUs that they see (" +
             std::to_string(p.devices) + ")");
    }
    ++host->second.processes;
    const int number = host->second.number;
    by_host.push_back({number, {static_cast<int>(i), device, number / hosts_per_node}});
  }
  std::stable_sort(by_host.begin(), by_host.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [number, rank] : by_host) ranks.push_back(rank);
  return ranks;
}

double nic_share_gbs(std::span<const ProcessRecord> processes) {
  struct Host {
    int processes = 0;
    int devices = 0;
    double nic_gbs = 0;
  };
  std::map<std::string_view, Host> hosts;
  for (const ProcessRecord& p : processes) {
    Host& host = hosts[p.host];
    ++host.processes;
    host.devices = std::max(host.devices, p.devices);
    host.nic_gbs = p.nic_gbs;
  }
  double least = 0;
  for (const auto& [name, host] : hosts) {
    const int gpus = std::max({1, host.devices, host.processes});
    const double share = host.nic_gbs / gpus;
    if (name == hosts.begin()->first || share < least) least = share;
  }
  return least;
}

// The meeting at a file.  Three kinds of files beside it, each written under another name and
// renamed, so that nobody reads half of one:
//   FILE.open    the nonce of process 0 of this run
//   FILE.RANK    of every process but 0: its nonce, the nonce of FILE.open that it has seen, and
//                what it says
//   FILE.all     nonces and words of all, written once every FILE.RANK has seen this run's
//   FILE.open
// A process believes FILE.all if its own nonce is in it, and then removes its FILE.RANK; process 0
// removes the other two when all of those are gone.
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct Word {
  uint64_t nonce = 0;
  uint64_t seen = 0;  // the nonce of FILE.open
  std::string payload;
};

void publish(const std::string& path, const std::string& text) {
  // Processes of several hosts may write the same name: each has a temporary one of its own.
  const std::string temporary = path + "." + std::to_string(getpid()) + ".new";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text << std::flush;
    if (!out) {
      refuse("cannot write " + temporary +
             ": the meeting place must be a file on a file system that all "
             "processes share");
    }
  }
  std::error_code error;
  fs::rename(temporary, path, error);
  if (error) refuse("cannot write " + path + ": " + error.message());
}

std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string line_of(const Word& w) {
  return std::to_string(w.nonce) + " " + std::to_string(w.seen) + " " + w.payload + "\n";
}

std::vector<Word> words_of(const std::string& path) {
  std::istringstream lines(text_of(path));
  std::vector<Word> words;
  Word w;
  while (lines >> w.nonce >> w.seen && lines.get() == ' ' && std::getline(lines, w.payload)) {
    words.push_back(w);
  }
  return words;
}

void remove_quietly(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// Waits until `done`; false if that takes longer than `until`.
template <class Done>
bool wait(Clock::time_point until, Done done) {
  while (!done()) {
    if (Clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

std::string path_of(const Meeting& m, int rank) {
  return m.file + "." + std::to_string(rank);
}

std::vector<std::string> payloads(const std::vector<Word>& words) {
  std::vector<std::string> all;
  all.reserve(words.size());
  for (const Word& w : words) all.push_back(w.payload);
  return all;
}

std::vector<std::string> host_meeting(const Meeting& m, std::string_view payload,
                                      Clock::time_point until) {
  publish(m.file + ".open", std::to_string(m.nonce));
  std::vector<Word> words(static_cast<size_t>(m.place.ranks));
  words[0] = {m.nonce, m.nonce, std::string(payload)};
  const auto missing = [&]() -> std::string {
    std::string names;
    for (int r = 1; r < m.place.ranks; ++r) {
      Word& w = words[static_cast<size_t>(r)];
      if (w.seen == m.nonce) continue;
      const auto said = words_of(path_of(m, r));
      if (said.size() == 1) w = said[0];
      if (w.seen != m.nonce) names += (names.empty() ? "" : ", ") + std::to_string(r);
    }
    return names;
  };
  if (!wait(until, [&] { return missing().empty(); })) {
    remove_quietly(m.file + ".open");
    refuse("nobody came to " + m.file + " as process " + missing() + " of " +
           std::to_string(m.place.ranks));
  }
  std::string all;
  for (const Word& w : words) all += line_of(w);
  publish(m.file + ".all", all);
  // A process that reads slowly is not to be robbed of the files; one that died is not waited for.
  wait(until, [&] {
    for (int r = 1; r < m.place.ranks; ++r) {
      if (fs::exists(path_of(m, r))) return false;
    }
    return true;
  });
  remove_quietly(m.file + ".open");
  remove_quietly(m.file + ".all");
  return payloads(words);
}

std::vector<std::string> join_meeting(const Meeting& m, std::string_view payload,
                                      Clock::time_point until) {
  const std::string mine = path_of(m, m.place.rank);
  const auto rank = static_cast<size_t>(m.place.rank);
  uint64_t seen = 0;
  std::vector<Word> words;
  const bool met = wait(until, [&] {
    uint64_t open = 0;
    std::istringstream(text_of(m.file + ".open")) >> open;
    if (open != 0 && open != seen) {
      seen = open;
      publish(mine, line_of({m.nonce, seen, std::string(payload)}));
    }
    words = words_of(m.file + ".all");
    return words.size() == static_cast<size_t>(m.place.ranks) && words[rank].nonce == m.nonce;
  });
  remove_quietly(mine);
  if (!met) {
    refuse(seen == 0 ? "process 0 did not come to " + m.file
                     : "not all processes came to " + m.file);
  }
  return payloads(words);
}

}  // namespace

std::vector<std::string> meet(const Meeting& m, std::string_view payload) {
  if (m.place.ranks < 1 || m.place.rank < 0 || m.place.rank >= m.place.ranks) {
    refuse("process " + std::to_string(m.place.rank) + " of " + std::to_string(m.place.ranks) +
           " is none");
  }
  if (payload.find('\n') != std::string_view::npos) {
    refuse("what a process says at the meeting is one line");
  }
  if (m.place.ranks == 1) return {std::string(payload)};
  const Clock::time_point until = Clock::now() + m.patience;
  return m.place.rank == 0 ? host_meeting(m, payload, until) : join_meeting(m, payload, until);
}

}  // namespace stepcast::measure
