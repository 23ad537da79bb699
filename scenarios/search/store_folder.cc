// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/store_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "sim/check.h"
#include "sim/system_error.h"
#include "sim/text.h"

namespace stepcast {

namespace fs = std::filesystem;

std::string store_stem(const std::string& file) {
  std::string stem = file == "-" ? "stdin" : std::filesystem::path(file).stem().string();
  for (char& c : stem)
    if (!is_digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && c != '-' && c != '_')
      c = '_';
  return stem.empty() ? "scenario" : stem.substr(0, 100);
}

std::string store_file_name(const std::string& file, const std::string& command,
                            const SearchShard& shard) {
  return fmt::format("{}.{}.{}-of-{}.db", store_stem(file), command, shard.index + 1, shard.count);
}

StoreFolder::StoreFolder(const std::string& folder, const std::string& name, std::string build,
                         std::function<void()> check)
    : build_(std::move(build)), check_(std::move(check)) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder))
    throw file_error("E502",
                     "cannot make the folder '" + folder + "'" +
                         (error ? ": " + system_error_text(error.value()) : ""),
                     folder, "--store DIR names another");
  const fs::path own = fs::path(folder) / name;
  // The own one first: whoever opens it may wait for those that read it, and those for nobody.
  store_.emplace(own.string());
  store_->read([&](const StepRow& row) { take_up(row, true); });
  for (const std::string& other : store_files(folder)) {
    if (other == own.string()) continue;
    try {
      // Parts that are at work have theirs open till they end: there is little to wait for.
      read_steps(
          other, [&](const StepRow& row) { take_up(row, false); }, std::chrono::milliseconds(50));
    } catch (const InputError& e) {
      // Another part of the same work has it open.
      if (e.diagnostics.front().code != "E510") throw;
    }
  }
  committer_ = std::jthread([this](const std::stop_token& stop) { commit_each_second(stop); });
}

void StoreFolder::take_up(const StepRow& row, bool own) {
  using Outcome = Evaluator::Trial::Outcome;
  Evaluator::Trial trial{Outcome::impossible, {}, Bytes{row.peak_bytes}, {}};
  if (row.step_time_ps && row.reserved_bytes)
    trial = {Outcome::fits, Time{*row.step_time_ps}, Bytes{row.peak_bytes},
             Bytes{*row.reserved_bytes}};
  Known& known = known_.try_emplace(row.step(), Known{trial, {}}).first->second;
  if (!known.joules_per_token) known.joules_per_token = row.joules_per_token;
  if (own) return;
  bool& says_energy = others_[row.key];
  says_energy = says_energy || row.joules_per_token;
}

// REQUIRES: mutex_ is held.
void StoreFolder::keep(StepRow row) {
  // What others keep is theirs.
  const auto other = others_.find(row.key);
  if (other != others_.end() && (other->second || !row.joules_per_token)) return;
  // A file that was there may say other settings.  Of what stands twice in this work the same
  // stays, whichever thread comes first.
  const bool first = said_.insert(row.key).second;
  if (first ? store_->keep(row) : store_->unite(row)) committed_ = false;
}

RememberedTrial StoreFolder::remember() {
  return [this](const Scenario& scenario,
                const std::vector<std::pair<std::string, std::string>>& settings,
                const JobFacts& job, const std::function<Evaluator::Trial()>& simulate) {
    if (check_) check_();
    const Hash128 step = step_key(scenario, build_);
    std::optional<Evaluator::Trial> found;
    {
      const std::lock_guard lock(mutex_);
      if (failed_) std::rethrow_exception(failed_);
      if (const auto known = known_.find(step); known != known_.end()) found = known->second.trial;
    }
    const Evaluator::Trial trial = found ? *found : simulate();
    const StepRow row = step_row(scenario, step, settings_text(settings), trial, job);
    const std::lock_guard lock(mutex_);
    if (failed_) std::rethrow_exception(failed_);
    known_.try_emplace(step, Known{trial, {}});
    keep(row);
    return trial;
  };
}

RememberedEnergy StoreFolder::remember_energy() {
  return [this](const Scenario& scenario,
                const std::vector<std::pair<std::string, std::string>>& settings,
                const JobFacts& job, const std::function<double()>& forecast) {
    if (check_) check_();
    const Hash128 step = step_key(scenario, build_);
    Known known;
    {
      const std::lock_guard lock(mutex_);
      if (failed_) std::rethrow_exception(failed_);
      const auto found = known_.find(step);
      STEPCAST_CHECK(found != known_.end(), "the step comes before what it draws");
      known = found->second;
    }
    const double joules = known.joules_per_token ? *known.joules_per_token : forecast();
    StepRow row = step_row(scenario, step, settings_text(settings), known.trial, job);
    row.joules_per_token = joules;
    const std::lock_guard lock(mutex_);
    if (failed_) std::rethrow_exception(failed_);
    known_.at(step).joules_per_token = joules;
    keep(std::move(row));
    return joules;
  };
}

void StoreFolder::commit_each_second(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, stop, std::chrono::seconds(1),
                          [&] { return stop.stop_requested(); })) {
    if (committed_) continue;
    try {
      store_->commit();
      committed_ = true;
    } catch (...) {
      failed_ = std::current_exception();
      return;
    }
  }
}

void StoreFolder::close() {
  committer_.request_stop();
  committer_.join();
  if (failed_) std::rethrow_exception(failed_);
  store_->close();
}

}  // namespace stepcast
