// SPDX-License-Identifier: Apache-2.0
// search.
#include "scenarios/search/search.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "capi/answer.h"
#include "report/html/page.h"
#include "report/text/search.h"
#include "scenarios/frameworks/megatron/export.h"
#include "scenarios/search/store_folder.h"
#include "stepcast/build.h"
#include "stepcast/page_facts.h"
#include "topology/cluster/cluster.h"

namespace stepcast::capi {
namespace {

// Doubled from the first to the second.
void read_gpus(Request& request, SearchOptions& options) {
  options.fewest_gpus = request.count("fewest_gpus", 1);
  options.most_gpus = request.count("most_gpus", 1);
  if (options.most_gpus && !options.fewest_gpus)
    request_error("E003", "'most_gpus' of the request goes with 'fewest_gpus'");
  if (!options.most_gpus) options.most_gpus = options.fewest_gpus;
  if (options.most_gpus && *options.most_gpus > kMostGpus)
    request_error("E004", "'most_gpus' of the request is too large",
                  "at most " + std::to_string(kMostGpus));
  if (options.most_gpus && *options.most_gpus < options.fewest_gpus.value_or(1))
    request_error("E004", "'most_gpus' of the request is less than 'fewest_gpus'");
}

size_t index_in(Request& request, size_t count) {
  const auto index = static_cast<size_t>(request.count("index", 0).value_or(0));
  request.check_all_read();
  if (index >= count)
    request_error("E004", "there is no layout " + std::to_string(index) + " among the best",
                  std::to_string(count) + " were found");
  return index;
}

std::string search_page(const SearchAnswer& found) {
  PageFacts facts;
  facts.version = STEPCAST_VERSION;
  if (!found.documents.empty()) {
    const Scenario best = found.documents.front().resolve();
    facts.settings = setting_lines_of(best);
    facts.model = model_facts_of({&best, 1});
  }
  facts.settings_of = " of the best layout";
  std::string bytes;
  write_search_page(found.result, found.points, facts,
                    [&](std::string_view piece) { bytes += piece; });
  return bytes;
}

// Files are named by whole paths: the text stands in no file.
std::string scenario_of(ScenarioDocument document) {
  document.rename_files([](const std::string& absolute) { return absolute; });
  std::string text;
  for (const Member& m : document.tree().members)
    text += to_flow(scalar_value(m.key)) + ": " + to_flow(m.value) + '\n';
  return text;
}

template <class Make>
Render whole(const std::shared_ptr<const SearchAnswer>& found, Make make) {
  return [found, make](Request& r) {
    r.check_all_read();
    return make(found->result);
  };
}

}  // namespace

stepcast_answer search(Request& request, Reporter& reporter) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ScenarioDocument document = read_scenario(request);
  SearchOptions options;
  options.given = request.pairs("set");
  options.where = request.texts("where");
  LoadOptions more;
  for (auto& [key, value] : request.pairs("search")) more.set.emplace_back("search." + key, value);
  document.set(more);
  read_gpus(request, options);
  SearchRun run;
  run.points = true;  // for a report
  run.next = request.count("next", 1).value_or(0);
  run.jobs = jobs_of(request);
  const std::string folder = request.text("store"), file = request.text("file");
  request.check_all_read();
  std::optional<StoreFolder> store;
  if (!folder.empty()) {
    const SearchSpace checked(document, options);  // before there is a file
    store.emplace(folder,
                  store_file_name(file.empty() ? request.text("name") : file, "search", run.shard),
                  std::string(build()));
    run.remember = store->remember();
    run.remember_energy = store->remember_energy();
  }
  run.progress = [&](int64_t done, int64_t total) { reporter.stops(done, total); };
  run.stop = [&](std::optional<Time> budget) {
    if (reporter.stops()) return true;
    return budget &&
           std::chrono::duration<double>(Clock::now() - begin).count() > to_seconds(*budget);
  };
  SearchAnswer answered = search_layouts(document, options, run);
  if (store) store->close();
  answered.result.run_words = {file.empty() ? "-" : file};  // what is in memory goes through a pipe
  answered.points.keep_first(kMostPagePoints);
  const auto found = std::make_shared<const SearchAnswer>(std::move(answered));
  stepcast_answer answer;
  answer.bytes = search_json(found->result, STEPCAST_VERSION);
  answer.forms.emplace_back("text",
                            whole(found, [](const SearchResult& r) { return search_text(r); }));
  answer.forms.emplace_back("csv",
                            whole(found, [](const SearchResult& r) { return search_csv(r); }));
  answer.forms.emplace_back("html", [found](Request& r) {
    r.check_all_read();
    return search_page(*found);
  });
  answer.forms.emplace_back("scenario", [found](Request& r) {
    return scenario_of(found->documents[index_in(r, found->documents.size())]);
  });
  answer.forms.emplace_back("megatron_args", [found](Request& r) {
    return export_megatron(found->documents[index_in(r, found->documents.size())].resolve()).text;
  });
  return answer;
}

}  // namespace stepcast::capi
