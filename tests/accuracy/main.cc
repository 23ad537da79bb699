// SPDX-License-Identifier: Apache-2.0
// accuracy_collectives FOLDER [--report FILE] [--corrections FILE]
//
// Compares the collective model with the logs of a folder (logs.h says how it looks), each log
// predicted with factors fitted to the others.  Prints the report, or puts it between the marks of
// FILE (docs/accuracy.md); --corrections writes the factors fitted to all logs, which the library
// compiles in (topology/nccl/collective_corrections.csv).
#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tests/accuracy/report.h"
#include "tests/accuracy/text_file.h"

namespace stepcast::accuracy {
namespace {

int run(const std::vector<std::string>& arguments) {
  std::string folder, report_path, corrections_path;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool more = i + 1 < arguments.size();
    if (arguments[i] == "--report" && more) {
      report_path = arguments[++i];
    } else if (arguments[i] == "--corrections" && more) {
      corrections_path = arguments[++i];
    } else if (folder.empty() && arguments[i].rfind("--", 0) != 0) {
      folder = arguments[i];
    } else {
      fmt::print(stderr, "unexpected argument {}\n", arguments[i]);
      return 2;
    }
  }
  if (folder.empty()) {
    fmt::print(stderr, "accuracy_collectives FOLDER [--report FILE] [--corrections FILE]\n");
    return 2;
  }
  const std::vector<Log> logs = read_logs(folder);
  if (!corrections_path.empty()) {
    write_text_file(corrections_path,
                    corrections_file(fit(observe(logs), logs, logs.size()), logs));
  }
  const std::string text = report(study(logs), logs);
  if (report_path.empty()) {
    fmt::print("{}", text);
  } else {
    put_between_marks(report_path, "collectives", text);
  }
  return 0;
}

}  // namespace
}  // namespace stepcast::accuracy

int main(int argc, char** argv) {
  try {
    return stepcast::accuracy::run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
