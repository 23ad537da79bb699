// SPDX-License-Identifier: Apache-2.0
// Tables of a few columns: those a scenario names, and those compiled in.
#include <string>

#include "scenarios/memory_errors.h"
#include "scenarios/observed_errors.h"
#include "scenarios/scenario.h"
#include "tests/fuzz/readers.h"
#include "tests/temporary_folder.h"
#include "topology/nccl/collective_time.h"

namespace stepcast::fuzz {
namespace {

void read_routing_trace(std::string_view text) {
  static const testing::TemporaryFolder folder;
  folder.write("trace.csv", text);
  LoadOptions options;
  options.root = folder.path().string();
  load_scenario_text(
      "model: mixtral-8x7b\ncluster: dgx-h100 x 1\nparallel: {ep: 8}\n"
      "batch: {global: 8, micro: 1, seq: 4096}\nmoe: {routing: {trace: trace.csv}}\n",
      (folder.path() / "fuzz.yaml").string(), options);
}

}  // namespace

void small_tables(std::string_view text) {
  takes([&] { read_routing_trace(text); });
  takes([&] { parse_observed_errors(text); });
  takes([&] { parse_memory_errors(text); });
  takes([&] { Corrections::parse(text); });
}

}  // namespace stepcast::fuzz
