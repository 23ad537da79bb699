// SPDX-License-Identifier: Apache-2.0
// stepcast calibrate plan and run: what scenarios need measured, and measuring it.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "report/json/writer.h"
#include "scenarios/forecast/calibration_plan.h"
#include "tools/calibrate.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

constexpr size_t kHeaviest = 10;  // shapes of the summary
constexpr const char* kProgram = "stepcast-measure";

CalibrationPlan plan_of(const Arguments& args) {
  std::vector<Scenario> scenarios;
  for (const std::string& file : args.files) scenarios.push_back(load(file, args));
  return calibration_plan(scenarios);
}

std::string as_json(const CalibrationPlan& plan) {
  return json_document([&](JsonWriter& json) {
    json.member("gpu", plan.text.gpu);
    json.values("scenarios", plan.text.scenarios);
    json.objects("rows", plan.text.rows, [&](const PlanRow& r) {
      json.member("row", plan_key(r));
      json.member("weight", r.weight);
      json.member("origin", name_of(r.origin));
    });
    json.objects("left_out", plan.left_out, [&](const auto& l) {
      json.member("what", l.first);
      json.member("weight", l.second);
    });
  });
}

std::string summary(const CalibrationPlan& plan, const TextStyle& style) {
  const std::vector<PlanRow>& rows = plan.text.rows;
  // Shares of all the scenarios' time.
  const auto share = [&](double weight) {
    return percent(weight / static_cast<double>(plan.text.scenarios.size()));
  };
  const size_t count = plan.text.scenarios.size();
  std::string s = grouped(static_cast<int64_t>(rows.size())) + " shapes of " +
                  std::to_string(count) + (count == 1 ? " scenario" : " scenarios") + " on " +
                  escape_text(plan.text.gpu) + "\n\n";
  std::vector<std::vector<std::string>> table = {{"priced now", "shapes", "of the time"}};
  for (int o = 0; o < kOrigins; ++o) {
    int64_t shapes = 0;
    double weight = 0;
    for (const PlanRow& r : rows) {
      if (r.origin != static_cast<Origin>(o)) continue;
      ++shapes;
      weight += r.weight;
    }
    if (shapes > 0)
      table.push_back(
          {std::string(name_of(static_cast<Origin>(o))), grouped(shapes), share(weight)});
  }
  for (const auto& [what, weight] : plan.left_out)
    table.push_back({"no table: " + what, "", share(weight)});
  s += titled_table(table, "<>>", style) + '\n';
  table = {{"heaviest", "of the time", "priced now"}};
  for (size_t i = 0; i < std::min(kHeaviest, rows.size()); ++i)
    table.push_back(
        {plan_key(rows[i]), share(rows[i].weight), std::string(name_of(rows[i].origin))});
  return s + titled_table(table, "<><", style);
}

[[noreturn]] void measuring_error(std::string message) {
  usage_error("E342", std::move(message),
              "it is built with Stepcast where the CUDA toolkit (nvcc) is found: configure with "
              "-DSTEPCAST_CUDA=ON, build the target stepcast-measure, and put the program beside "
              "stepcast or on PATH");
}

bool is_program(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

// Beside this command, else on PATH.
std::string find_program() {
  std::array<char, PATH_MAX> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
  if (length > 0) {
    const std::string path(self.data(), static_cast<size_t>(length));
    const std::string beside = path.substr(0, path.rfind('/') + 1) + kProgram;
    if (is_program(beside)) return beside;
  }
  const char* folders = std::getenv("PATH");
  std::string_view rest = folders != nullptr ? folders : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string path = std::string(rest.substr(0, end)) + '/' + kProgram;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_program(path)) return path;
  }
  measuring_error(std::string(kProgram) + " is neither beside this command nor on PATH");
}

// A file without a name that the program started from here can read: nothing is left behind.
std::string pass_on(const std::string& text) {
  const int fd = ::memfd_create("plan", 0);
  if (fd < 0) measuring_error(std::string("cannot pass the plan on: ") + std::strerror(errno));
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) measuring_error(std::string("cannot pass the plan on: ") + std::strerror(errno));
    rest.remove_prefix(static_cast<size_t>(n));
  }
  ::lseek(fd, 0, SEEK_SET);
  return "/proc/self/fd/" + std::to_string(fd);
}

}  // namespace

int calibrate_plan_command(const Arguments& args, const Terminal& terminal) {
  const std::string& output = args.output;
  const CalibrationPlan plan = plan_of(args);
  const bool to_file = !output.empty() && output != "-";
  if (to_file) deliver(write_plan(plan.text), output, args.force);
  write_stdout(args.json ? as_json(plan)
               : to_file ? summary(plan, terminal.out)
                         : write_plan(plan.text));
  return 0;
}

int calibrate_run_command(const Arguments& args, const Terminal&) {
  const CalibrateArguments& a = args.calibrate;
  if (!a.plan.empty() && !args.files.empty())
    usage_error("E004", "--plan and scenarios both say what to measure", "leave one of them out");
  if (args.output.empty() && !a.list)
    usage_error("E003", "-o TABLE is missing: where the measurements go");
  // Its own mistakes first: the program may be missing on the machine where a plan is tried out.
  std::string plan = a.plan;
  std::string text;
  if (!args.files.empty()) text = write_plan(plan_of(args).text);
  if (!plan.empty()) parse_plan_text(read_whole_file(plan), plan);
  const std::string program = find_program();
  if (!text.empty()) plan = pass_on(text);
  std::vector<std::string> words{kProgram};
  const auto add = [&](const char* option, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(option);
    words.push_back(value);
  };
  add("--plan", plan);
  add("--budget", a.budget);
  add("--grid", a.grid);
  add("--families", a.families);
  add("--gpu", args.gpu);
  add("--device", a.device);
  add("-o", args.output);
  if (a.list) words.emplace_back("--list");
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  measuring_error("cannot start " + program + ": " + std::strerror(errno));
}

}  // namespace stepcast::cli
