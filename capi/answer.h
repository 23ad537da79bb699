// SPDX-License-Identifier: Apache-2.0
// What a call gives back, and how calls are made: what is thrown becomes an answer too.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/request.h"
#include "capi/stepcast_c.h"
#include "sim/diagnostic.h"

namespace stepcast::capi {

// Another form of an answer.  Called by any thread; keeps what it needs.
using Render = std::function<std::string(Request& request)>;

}  // namespace stepcast::capi

struct stepcast_answer {
  int status = 0;
  std::string bytes;
  std::vector<std::pair<std::string_view, stepcast::capi::Render>> forms;
};

namespace stepcast::capi {

// Status of a call that its progress function ended, as of a command that Ctrl-C ends.
constexpr int kStatusStopped = 130;
constexpr int kStatusInternal = 1;

// Thrown where the progress function ends a call.
struct Stopped : std::exception {};

// Calls the caller's function ten times a second at most.
class Reporter {
 public:
  Reporter(stepcast_progress function, void* context) : function_(function), context_(context) {}

  // True once the caller wants an end.
  bool stops(int64_t done, int64_t total);
  bool stops() { return stops(done_, total_); }
  // The same, thrown: Stopped.
  void show(int64_t done, int64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  stepcast_progress function_;
  void* context_;
  int64_t done_ = 0, total_ = 0;
  bool stopped_ = false;
  Clock::time_point last_ = Clock::now();
};

stepcast_answer load(Request& request);
stepcast_answer run(Request& request, Reporter& reporter);
stepcast_answer compare(Request& request, Reporter& reporter);
stepcast_answer search(Request& request, Reporter& reporter);
stepcast_answer train(Request& request);
stepcast_answer size(Request& request);
stepcast_answer presets(Request& request);
stepcast_answer import_run_file(Request& request);

}  // namespace stepcast::capi
