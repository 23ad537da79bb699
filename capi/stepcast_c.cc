// SPDX-License-Identifier: Apache-2.0
#include "capi/stepcast_c.h"

#include <algorithm>
#include <memory>
#include <new>

#include "capi/answer.h"
#include "report/diagnostics.h"
#include "sim/text.h"

namespace stepcast::capi {
namespace {

// What is left to say where there is no memory to say it in.
stepcast_answer& out_of_memory() {
  static stepcast_answer answer{
      kStatusInternal,
      "{\"error\": {\"code\": \"internal\", \"message\": \"not enough memory\"}, "
      "\"errors\": [{\"code\": \"internal\", \"message\": \"not enough memory\"}]}\n",
      {}};
  return answer;
}

stepcast_answer problem(int status, std::vector<Diagnostic> all) {
  stepcast_answer answer{status, diagnostics_json(all), {}};
  answer.forms.emplace_back(
      "text", [all = std::move(all)](Request&) { return render_diagnostics(all, {}, ""); });
  return answer;
}

stepcast_answer internal_problem(std::string message) {
  Diagnostic d;
  d.code = "internal";
  d.message = std::move(message);
  return problem(kStatusInternal, {d});
}

// Runs `make()`; nothing that it throws passes.
template <class Make>
stepcast_answer* guarded(Make make) noexcept {
  // Made before anything can run out of memory: it is returned where that happens.
  stepcast_answer& last_words = out_of_memory();
  try {
    auto answer = std::make_unique<stepcast_answer>();
    try {
      *answer = make();
    } catch (const InputError& e) {
      *answer = problem(exit_status_of(e.diagnostics), e.diagnostics);
    } catch (const Stopped&) {
      *answer = internal_problem("stopped by the caller");
      answer->status = kStatusStopped;
    } catch (const std::bad_alloc&) {
      *answer = internal_problem("this machine has not enough memory for the scenario");
    } catch (const std::exception& e) {
      *answer = internal_problem("internal error, a bug in Stepcast " STEPCAST_VERSION ": " +
                                 escape_text(e.what()));
    } catch (...) {
      *answer = internal_problem("internal error, a bug in Stepcast " STEPCAST_VERSION);
    }
    return answer.release();
  } catch (...) {
    return &last_words;
  }
}

template <class Answer, class... Arguments>
stepcast_answer* call(const char* text, Answer make, Arguments&... arguments) noexcept {
  return guarded([&] {
    Request request(text);
    return make(request, arguments...);
  });
}

stepcast_answer render(const stepcast_answer& answer, Request& request) {
  const std::string form = request.text("form");
  std::vector<std::string_view> names;
  for (const auto& [name, make] : answer.forms) {
    names.push_back(name);
    if (name != form) continue;
    std::string bytes = make(request);
    return {0, std::move(bytes), {}};
  }
  request_error("E004", "this answer has no form '" + form + "'",
                names.empty() ? "" : "legal: " + join(names));
}

}  // namespace

bool Reporter::stops(int64_t done, int64_t total) {
  done_ = done;
  total_ = total;
  if (function_ == nullptr || stopped_) return stopped_;
  const Clock::time_point now = Clock::now();
  if (now - last_ < std::chrono::milliseconds(100)) return false;
  last_ = now;
  stopped_ = function_(context_, done, total) != 0;
  return stopped_;
}

void Reporter::show(int64_t done, int64_t total) {
  if (stops(done, total)) throw Stopped{};
}

}  // namespace stepcast::capi

using stepcast::capi::Reporter;

int stepcast_api_version(void) {
  return STEPCAST_API_VERSION;
}

const char* stepcast_version(void) {
  return STEPCAST_VERSION;
}

stepcast_answer* stepcast_load(const char* request) {
  return stepcast::capi::call(request, stepcast::capi::load);
}

stepcast_answer* stepcast_run(const char* request, stepcast_progress progress, void* context) {
  Reporter reporter(progress, context);
  return stepcast::capi::call(request, stepcast::capi::run, reporter);
}

stepcast_answer* stepcast_compare(const char* request, stepcast_progress progress, void* context) {
  Reporter reporter(progress, context);
  return stepcast::capi::call(request, stepcast::capi::compare, reporter);
}

stepcast_answer* stepcast_search(const char* request, stepcast_progress progress, void* context) {
  Reporter reporter(progress, context);
  return stepcast::capi::call(request, stepcast::capi::search, reporter);
}

stepcast_answer* stepcast_train(const char* request) {
  return stepcast::capi::call(request, stepcast::capi::train);
}

stepcast_answer* stepcast_size(const char* request) {
  return stepcast::capi::call(request, stepcast::capi::size);
}

stepcast_answer* stepcast_presets(const char* request) {
  return stepcast::capi::call(request, stepcast::capi::presets);
}

stepcast_answer* stepcast_import(const char* request) {
  return stepcast::capi::call(request, stepcast::capi::import_run_file);
}

stepcast_answer* stepcast_render(const stepcast_answer* answer, const char* request) {
  return stepcast::capi::call(
      request, [&](stepcast::capi::Request& r) { return stepcast::capi::render(*answer, r); });
}

int stepcast_status(const stepcast_answer* answer) {
  return answer->status;
}

const char* stepcast_bytes(const stepcast_answer* answer, size_t* length) {
  if (length != nullptr) *length = answer->bytes.size();
  return answer->bytes.c_str();
}

void stepcast_free(stepcast_answer* answer) {
  if (answer != &stepcast::capi::out_of_memory()) delete answer;
}
