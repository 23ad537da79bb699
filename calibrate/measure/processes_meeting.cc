// SPDX-License-Identifier: Apache-2.0
// The meeting at a file.  Three kinds of files beside it, each written under another name and
// renamed, so that nobody reads half of one:
//   FILE.open    the nonce of process 0 of this run
//   FILE.RANK    of every process but 0: its nonce, the nonce of FILE.open that it has seen, and
//                what it says
//   FILE.all     nonces and words of all, written once every FILE.RANK has seen this run's
//   FILE.open
// A process believes FILE.all if its own nonce is in it, and then removes its FILE.RANK; process 0
// removes the other two when all of those are gone.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "calibrate/measure/processes.h"

#include "sim/diagnostic.h"

namespace stepcast::measure {
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
