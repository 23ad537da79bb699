// SPDX-License-Identifier: Apache-2.0
// Tables of a few columns: those compiled in, which nobody but a developer breaks, say so by
// std::invalid_argument.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "scenarios/observed_errors.h"
#include "scenarios/scenario.h"
#include "sim/diagnostic.h"
#include "tests/fuzz/readers.h"
#include "topology/collective_time.h"

namespace stepcast::fuzz {
namespace {

template <class Read>
void attempt(Read read) {
  try {
    read();
  } catch (const InputError& e) {
    check_refusal(e);
  } catch (const std::invalid_argument&) {
  }
}

// A folder that is gone when the program ends.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "stepcast-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void read_routing_trace(std::string_view text) {
  static const Folder folder;
  std::ofstream(folder.path() + "/trace.csv", std::ios::binary) << text;
  LoadOptions options;
  options.root = folder.path();
  load_scenario_text(
      "model: mixtral-8x7b\ncluster: dgx-h100 x 1\nparallel: {ep: 8}\n"
      "batch: {global: 8, micro: 1, seq: 4096}\nmoe: {routing: {trace: trace.csv}}\n",
      folder.path() + "/fuzz.yaml", options);
}

}  // namespace

void small_tables(std::string_view text) {
  attempt([&] { read_routing_trace(text); });
  attempt([&] { parse_observed_errors(text); });
  attempt([&] { Corrections::parse(text); });
}

}  // namespace stepcast::fuzz
