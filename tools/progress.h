// SPDX-License-Identifier: Apache-2.0
// How far a long command is, on standard error.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace stepcast::cli {

// auto: a bar that is drawn anew ten times a second if standard error is a terminal, else a line
// every 30 seconds; plain: always such lines; none: nothing.
class ProgressLine {
 public:
  // `what` names what is counted: "replicas".  Throws InputError E004 for another `style`.
  ProgressLine(const std::string& style, std::string what);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();  // wipes the bar

  void show(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  bool silent_ = false, bar_ = false, drawn_ = false;
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

}  // namespace stepcast::cli
