// SPDX-License-Identifier: Apache-2.0
// Output of the programs of NVIDIA/nccl-tests (all_reduce_perf, alltoall_perf and so on).
//
// The text in all its layouts: with and without the root column, `error` or `#wrong`, per-iteration
// columns and timestamps, prefixes of srun and mpirun on each line, other programs' lines between,
// several runs in one file.  The JSON that -J writes, versions 1 and 2 of its form (src/util.cu).
// Both become sweeps (nccl_sweep.h).  A log reads like this:
//
//     # nccl-tests version 2.13.9
//     # Rank  0 Group  0 Pid 35663 on host1 device  0 [0x1a] NVIDIA H100 80GB HBM3
//     #       size    count   type redop root   time algbw busbw #wrong   time algbw busbw #wrong
//         33554432  8388608  float   sum   -1  187.4 179.1 313.4      0  186.9 179.5 314.2      0
//
// Of each row the time out of place counts, the first of the two (some programs print one alone);
// several rows of one size give their median and spread.  Rows that are torn, that several
// processes print in turns, or that stand out from their neighbours are noted with their lines.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "calibrate/import/measurement_input.h"
#include "calibrate/import/nccl_sweep.h"
#include "calibrate/table/table_text.h"

namespace stepcast {

namespace {

constexpr int64_t kMostListed = 1 << 20;  // ranks

// What launchers put before each line, and the rest: "0: " (srun --label), "[1,0]<stdout>:" (mpirun
// --tag-output).
struct LabelledLine {
  std::string_view label, text;
};

LabelledLine without_label(std::string_view line) {
  const size_t begin = line.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {{}, line};
  const std::string_view rest = line.substr(begin);
  size_t digits = 0;
  while (digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9') ++digits;
  if (digits > 0 && digits < rest.size() && rest[digits] == ':')
    return {rest.substr(0, digits), rest.substr(digits + 1)};
  if (rest.starts_with('[')) {
    const size_t end = rest.find(">:");
    const size_t open = rest.find("]<");
    if (end != std::string_view::npos && open != std::string_view::npos && open < end)
      return {rest.substr(0, open + 1), rest.substr(end + 2)};
  }
  return {{}, line};
}

bool is_whole(std::string_view word) {
  return parse_number<int64_t>(word).has_value();
}

// ncclDataType names of nccl-tests, old and new.
bool is_type(std::string_view word) {
  static constexpr std::array<std::string_view, 16> kTypes{
      "int8",   "uint8", "int32", "uint32",   "int64",  "uint64", "half",     "float",
      "double", "char",  "int",   "bfloat16", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2"};
  return std::find(kTypes.begin(), kTypes.end(), word) != kTypes.end();
}

bool is_result(const std::vector<std::string_view>& words) {
  return words.size() >= 3 && is_whole(words[0]) && is_whole(words[1]) && is_type(words[2]);
}

// Half a unit of the last printed digit: 0.005 of "12.34", 0.5 of "16860".
double print_tolerance(std::string_view word) {
  const size_t point = word.find('.');
  if (word.find_first_of("eE") != std::string_view::npos) return 1e300;
  double unit = 1;
  if (point != std::string_view::npos)
    for (size_t i = point + 1; i < word.size(); ++i) unit /= 10;
  return unit / 2;
}

class NcclText {
 public:
  explicit NcclText(const MeasurementInput& in) : in_(in), lines_(in.text) {}

  std::vector<NcclSweep> read() {
    while (lines_.next()) {
      const LabelledLine l = without_label(lines_.line);
      label_ = l.label;
      line(l.text);
    }
    finish_sweep();
    note_torn();
    return std::move(sweeps_);
  }

 private:
  void finish_sweep() {
    if (!sweep_.results.empty() || sweep_.skipped > 0) sweeps_.push_back(std::move(sweep_));
    sweep_ = {};
    last_columns_ = false;
    sides_ = 0;
    has_errors_ = true;
  }

  // What is true of the whole log stays: the devices and versions of a second run without a header.
  void next_run() {
    if (sweep_.results.empty() && sweep_.skipped == 0) return;
    finish_sweep();
  }

  void line(std::string_view text) {
    const std::vector<std::string_view> words = split_words(text);
    if (words.empty()) return;
    if (is_result(words)) return result(words);
    if (words[0].starts_with('#')) return comment(text, words);
    if (is_torn(words)) torn_.push_back(lines_.number);
    nccl_version(text);
    nccl_says(text);
    program_in(words);
  }

  void comment(std::string_view text, const std::vector<std::string_view>& words) {
    const auto after = [&](std::string_view label) {
      const size_t at = text.find(label);
      return at == std::string_view::npos ? std::string_view()
                                          : split_first(text.substr(at + label.size()));
    };
    if (words.size() > 2 && words[1] == "Rank") return device(words);
    if (words.size() > 2 && words[1] == "nThread") {
      next_run();
      sweep_.graph = after("graph: ") != "" && after("graph: ") != "0";
      sweep_.checked = after("validation: ") != "0";
      sweep_.aggregated = parse_number<int64_t>(after("agg iters: ")).value_or(1);
      sweep_.gpus_per_thread = parse_number<int64_t>(after("nGpus "));
    } else if (text.find("# nccl-tests version ") != std::string_view::npos) {
      next_run();
      sweep_.tests_version = after("nccl-tests version ");
    } else if (!after("Collective test starting: ").empty()) {
      next_run();
      sweep_.program = after("Collective test starting: ");
    } else if (!after("Collective test concluded: ").empty()) {
      sweep_.program = after("Collective test concluded: ");
    } else if (text.find("Out of bounds values") != std::string_view::npos) {
      if (text.find("FAILED") != std::string_view::npos) wrong(words[0]);
    } else if (words.size() > 6 && (words[1] == "size" || words[0] == "#size")) {
      columns(words);
    }
    nccl_version(text);
  }

  static std::string_view split_first(std::string_view text) {
    const std::vector<std::string_view> words = split_words(text);
    return words.empty() ? std::string_view() : words[0];
  }

  // "#  Rank  0 Group  0 Pid 356631 on    host1 device  0 [0x1a] NVIDIA H100 80GB HBM3"
  void device(const std::vector<std::string_view>& words) {
    NcclRank found;
    const std::optional<int64_t> rank = parse_number<int64_t>(words[2]);
    if (!rank || *rank < 0 || *rank >= kMostListed) return;
    if (!sweep_.results.empty()) next_run();
    found.rank = *rank;
    for (size_t i = 3; i < words.size(); ++i) {
      if (words[i] == "Pid" && i + 1 < words.size())
        found.process = parse_number<int64_t>(words[i + 1]).value_or(-1);
      if (words[i] == "on" && i + 1 < words.size()) found.host = words[i + 1];
      if (words[i] == "device" && i + 1 < words.size())
        found.device =
            std::clamp<int64_t>(parse_number<int64_t>(words[i + 1]).value_or(0), 0, kMostListed);
      if (!words[i].starts_with('[')) continue;
      for (size_t j = i + 1; j < words.size(); ++j)
        found.name += (found.name.empty() ? "" : " ") + std::string(words[j]);
      break;
    }
    sweep_.devices.push_back(std::move(found));
  }

  void columns(const std::vector<std::string_view>& words) {
    next_run();
    last_columns_ = true;
    wrong_column_ = std::find(words.begin(), words.end(), "#wrong") != words.end();
    if (std::find(words.begin(), words.end(), "cputime") != words.end())
      refuse_measurements(in_, "E330", "these are times of the processor (nccl-tests -C 1)",
                          "measure without -C", place(words[0]));
    per_iteration_ = std::find(words.begin(), words.end(), "i_min") != words.end();
    sides_ = static_cast<size_t>(std::count(words.begin(), words.end(), "busbw"));
    has_errors_ = wrong_column_ || std::find(words.begin(), words.end(), "error") != words.end();
  }

  // NVIDIA/nccl src/transport/net_ib, src/transport/net_socket.cc and src/misc/param.cc;
  // aws/aws-ofi-nccl src/nccl_ofi_net.cpp; Google's plugins name themselves.
  void nccl_says(std::string_view text) {
    if (text.find("NCCL INFO") == std::string_view::npos) return;
    const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
    NcclSaid& said = sweep_.said;
    if (has("NET/IB : Using [")) {
      const bool ethernet = has("/RoCE");
      if (!said.network || *said.network == NicDriver::verbs)
        said.network = ethernet ? NicDriver::roce : NicDriver::verbs;
    }
    if (has("provider is efa") || has("Provider is efa")) said.network = NicDriver::efa;
    if (has("NET/gIB") || has("Using network gIB")) said.network = NicDriver::gib;
    if (has("NET/FasTrak") || has("Using network FasTrak")) said.network = NicDriver::tcpxo;
    if (has("NET/GPUDirectTCPX") || has("Using network GPUDirectTCPX"))
      said.network = NicDriver::tcpx;
    if (has("Using network Socket")) said.sockets = true;
    if (has("NCCL_COLLNET_ENABLE set by environment to 1")) said.sharp = true;
    if (has("NCCL_NVLS_ENABLE set by environment to 0")) said.no_nvls = true;
  }

  void nccl_version(std::string_view text) {
    static constexpr std::string_view kLabel = "NCCL version ";
    const size_t at = text.find(kLabel);
    if (at != std::string_view::npos)
      sweep_.nccl_version = split_first(text.substr(at + kLabel.size()));
  }

  // A command line that a shell printed.
  void program_in(const std::vector<std::string_view>& words) {
    for (const std::string_view word : words) {
      const size_t at = word.find("_perf");
      if (at == std::string_view::npos || at == 0) continue;
      const std::string_view rest = word.substr(at + 5);
      if (!rest.empty() && rest != "_mpi") continue;
      next_run();
      sweep_.program = std::string(word);
      return;
    }
  }

  TextPlace place(std::string_view at) const {
    TextPlace p;
    p.line = lines_.number;
    p.column = static_cast<int>(at.data() - lines_.line.data()) + 1;
    p.source_line = std::string(lines_.line);
    return p;
  }

  [[noreturn]] void wrong(std::string_view at) const {
    refuse_measurements(in_, "E335", "the collective gave wrong results",
                        "the column #wrong counts the elements that are; without them the times "
                        "mean nothing",
                        place(at));
  }

  [[noreturn]] void broken(const std::vector<std::string_view>& words,
                           const std::string& what) const {
    refuse_measurements(in_, "E333", what,
                        lines_.complete ? "size, count, type, redop, root, and time, algbw, busbw "
                                          "and #wrong out of place and in place"
                                        : "the file ends in this line: it was cut off",
                        place(words.back()));
  }

  // size count type [redop] [root] (time algbw busbw [wrong] [i_min i_max i_p99 i_cv%]) x 1 or 2
  // [date time]
  void result(const std::vector<std::string_view>& words) {
    size_t at = 3;
    const bool named = at < words.size() && !parse_number<double>(words[at]) && words[at] != "N/A";
    if (named && words[at++] != "none") sweep_.reduces = true;
    const size_t group = 3 + (has_errors_ ? 1 : 0) + (per_iteration_ ? 4 : 0);
    size_t left = words.size() - at;
    if (left >= group + 2 && words.back().find(':') != std::string_view::npos) left -= 2;
    // As many sides as the heading has, else the rows before; the first row says it itself.
    if (sides_ == 0) sides_ = left >= 2 * group ? 2 : 1;
    if (left == sides_ * group + 1) {
      const std::optional<int64_t> root = parse_number<int64_t>(words[at]);
      if (!root) broken(words, "a row whose root is no number");
      sweep_.has_root = sweep_.has_root || *root >= 0;
      ++at;
    } else if (left != sides_ * group) {
      broken(words, fmt::format("a row with {} columns", words.size()));
    }
    const auto number = [&](size_t i) {
      const std::optional<double> value = parse_number<double>(words[i]);
      if (!value || *value < 0) broken(words, "'" + std::string(words[i]) + "' is no number here");
      return *value;
    };
    NcclResult r;
    r.bytes = *parse_number<int64_t>(words[0]);
    r.us = number(at);
    r.alg_gbs = number(at + 1);
    r.bus_gbs = number(at + 2);
    r.alg_tolerance = print_tolerance(words[at + 1]);
    r.bus_tolerance = print_tolerance(words[at + 2]);
    const bool both = sides_ == 2;
    const std::string_view errors = has_errors_ ? words[at + 3] : "N/A";
    const std::string_view errors_in_place = has_errors_ && both ? words[at + group + 3] : "N/A";
    // Old programs print the largest relative error there, far below 1.
    const double too_many = wrong_column_ && last_columns_ ? 0.5 : 1;
    if (errors != "N/A" && number(at + 3) >= too_many) wrong(errors);
    if (errors_in_place != "N/A" && number(at + group + 3) >= too_many) wrong(errors_in_place);
    if (both) r.in_place_us = parse_number<double>(words[at + group]).value_or(0);
    sweep_.no_in_place =
        sweep_.no_in_place || (both && errors != "N/A" && errors_in_place == "N/A");
    if (errors == "N/A") sweep_.checked = false;
    if (r.bytes < 0) broken(words, "a row with a negative size");
    if (r.bytes == 0) {
      ++sweep_.skipped;
      return;
    }
    if (!(r.us > 0)) broken(words, "a row that took no time");
    if (sweep_.results.empty()) sweep_.place = place(words[0]);
    r.line = lines_.number;
    note_interleaved(r.bytes);
    sweep_.results.push_back(r);
  }

  // Whether other output was written into a row of results, or the row into it: sizes or a type
  // are left of it.
  bool is_torn(const std::vector<std::string_view>& words) const {
    if (sweep_.results.empty() || words[0][0] < '0' || words[0][0] > '9') return false;
    return (words.size() > 1 && is_whole(words[0]) && is_whole(words[1])) ||
           std::ranges::any_of(words, is_type);
  }

  // Without MPI each process that a launcher starts measures by itself and prints a table of its
  // own (nccl-tests' README); their rows then come in turns.
  void note_interleaved(int64_t bytes) {
    if (!label_.empty() && !row_label_.empty() && label_ != row_label_ && !noted_labels_) {
      noted_labels_ = true;
      in_.note(fmt::format(
          "line {}: a row of process {} among those of {}: each printed a table of its own, which "
          "nccl-tests does where it is built without MPI; then they are of single processes",
          lines_.number, label_, row_label_));
    }
    if (row_label_.empty()) row_label_ = label_;
    if (!sweep_.results.empty() && bytes < sweep_.results.back().bytes && !noted_order_) {
      noted_order_ = true;
      in_.note(
          fmt::format("line {}: {} bytes after {} without a heading between them: rows of several "
                      "runs in turns",
                      lines_.number, bytes, sweep_.results.back().bytes));
    }
  }

  void note_torn() const {
    if (torn_.empty()) return;
    std::string lines;
    for (size_t i = 0; i < std::min(torn_.size(), kMostNamed); ++i)
      lines += fmt::format("{}{}", i == 0 ? "" : ", ", torn_[i]);
    if (torn_.size() > kMostNamed) lines += fmt::format(" and {} more", torn_.size() - kMostNamed);
    in_.note(fmt::format("line{} {}: begin{} as a row and cannot be one: torn, not used",
                         torn_.size() == 1 ? "" : "s", lines, torn_.size() == 1 ? "s" : ""));
  }

  static constexpr size_t kMostNamed = 8;

  const MeasurementInput& in_;
  TextLines lines_;
  std::string_view label_, row_label_;
  std::vector<int> torn_;  // lines that begin as rows of results do
  bool noted_labels_ = false, noted_order_ = false;
  NcclSweep sweep_;
  std::vector<NcclSweep> sweeps_;
  bool last_columns_ = false;  // a line of column names was seen
  bool wrong_column_ = false, per_iteration_ = false;
  size_t sides_ = 0;  // out of place and in place, or one alone; 0: not known yet
  bool has_errors_ = true;
};

using nlohmann::json;

const json& member(const json& object, const char* key) {
  static const json kNone;
  if (!object.is_object()) return kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

int64_t whole(const json& value, int64_t otherwise) {
  return value.is_number_integer() ? value.get<int64_t>() : otherwise;
}

std::string text(const json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}

// 22903 -> "2.29.3"; before 2.9 with one digit less.
std::string version_name(int64_t code) {
  if (code <= 0) return {};
  const int64_t major = code >= 10000 ? code / 10000 : code / 1000;
  const int64_t rest = code >= 10000 ? code % 10000 : code % 1000;
  return fmt::format("{}.{}.{}", major, rest / 100, rest % 100);
}

class NcclJson {
 public:
  explicit NcclJson(const MeasurementInput& in) : in_(in) {}

  std::vector<NcclSweep> read() {
    const json root = parse_json(in_);
    const json& results = member(root, "results");
    if (!results.is_array())
      refuse_measurements(in_, "E330", "a JSON file without the `results` that nccl-tests writes");
    const json& args = member(root, "args");
    if (args.is_array() && !args.empty()) sweep_.program = text(args[0]);
    sweep_.nccl_version = version_name(whole(member(root, "nccl_version"), 0));
    config(member(root, "config"));
    if (whole(member(member(root, "out_of_bounds"), "count"), 0) > 0) wrong("out_of_bounds");
    for (size_t i = 0; i < results.size(); ++i) result(results[i], i);
    return {sweep_};
  }

 private:
  [[noreturn]] void wrong(const std::string& where) const {
    refuse_measurements(in_, "E335", "the collective gave wrong results (" + where + ")",
                        "without them the times mean nothing");
  }

  [[noreturn]] void broken(size_t row, const std::string& what) const {
    refuse_measurements(in_, "E333", fmt::format("results[{}] {}", row, what));
  }

  void config(const json& c) {
    sweep_.ranks_per_device_line = std::max<int64_t>(1, whole(member(c, "nthreads"), 1)) *
                                   std::max<int64_t>(1, whole(member(c, "ngpus"), 1));
    sweep_.checked = whole(member(c, "validation"), 1) != 0;
    sweep_.graph = whole(member(c, "graph"), 0) != 0;
    sweep_.aggregated = whole(member(c, "aggregated_iterations"), 1);
    if (const int64_t gpus = whole(member(c, "ngpus"), 0); gpus > 0) sweep_.gpus_per_thread = gpus;
    const json& devices = member(c, "devices");
    if (!devices.is_array()) return;
    for (const json& d : devices) {
      NcclRank rank;
      rank.rank = whole(member(d, "rank"), 0);
      rank.device = whole(member(d, "device"), 0);
      rank.host = text(member(d, "hostname"));
      rank.name = text(member(d, "device_info"));
      if (rank.rank < 0 || rank.rank > (1 << 20) || rank.device < 0) continue;
      sweep_.devices.push_back(std::move(rank));
    }
  }

  double number(const json& value, size_t row, const char* what) const {
    if (!value.is_number() || value.get<double>() < 0)
      broken(row, std::string("has no ") + what + " that is a number");
    return value.get<double>();
  }

  void result(const json& r, size_t row) {
    const json& measured = member(r, "out_of_place");
    if (measured.is_null()) {
      ++sweep_.skipped;  // traces are replayed in place only
      return;
    }
    if (member(measured, "cpu_time").is_number())
      refuse_measurements(in_, "E330", "these are times of the processor (nccl-tests -C 1)",
                          "measure without -C");
    NcclResult out;
    out.bytes = whole(member(r, "size"), -1);
    if (out.bytes < 0) broken(row, "has no size");
    if (out.bytes == 0) {
      ++sweep_.skipped;
      return;
    }
    out.us = number(member(measured, "time"), row, "time");
    if (!(out.us > 0)) broken(row, "took no time");
    out.alg_gbs = number(member(measured, "alg_bw"), row, "alg_bw");
    out.bus_gbs = number(member(measured, "bus_bw"), row, "bus_bw");
    out.alg_tolerance = out.bus_tolerance = 0.5e-6;  // six places are written
    const json& in_place = member(member(r, "in_place"), "time");
    if (in_place.is_number()) out.in_place_us = in_place.get<double>();
    const json& errors = member(measured, "nwrong");
    if (errors.is_number() && errors.get<double>() > 0) wrong(fmt::format("results[{}]", row));
    const bool in_place_checked = member(member(r, "in_place"), "nwrong").is_number();
    sweep_.no_in_place = sweep_.no_in_place || (errors.is_number() && !in_place_checked);
    if (!errors.is_number()) sweep_.checked = false;
    const std::string op = text(member(r, "redop"));
    sweep_.reduces = sweep_.reduces || (!op.empty() && op != "none");
    const std::string root = text(member(r, "root"));  // padded with blanks
    const std::vector<std::string_view> words = split_words(root);
    sweep_.has_root =
        sweep_.has_root || (!words.empty() && parse_number<int64_t>(words[0]).value_or(-1) >= 0);
    sweep_.results.push_back(out);
  }

  const MeasurementInput& in_;
  NcclSweep sweep_;
};

}  // namespace

bool is_nccl_tests_text(std::string_view text) {
  TextLines lines(text);
  while (lines.next()) {
    const std::vector<std::string_view> words = split_words(without_label(lines.line).text);
    if (words.size() >= 7 && is_result(words)) return true;
    if (words.size() > 6 && words[0] == "#" && words[1] == "size" && words[2] == "count")
      return true;
  }
  return false;
}

TableText import_nccl_tests_text(const MeasurementInput& in) {
  return nccl_rows(in, NcclText(in).read());
}

bool is_nccl_tests_json(std::string_view text) {
  // The head of what it writes: version, start_time, args, env, nccl_version.
  const std::string_view head = text.substr(0, 4096);
  return head.starts_with('{') && head.find("\"start_time\"") != std::string_view::npos &&
         head.find("\"args\"") != std::string_view::npos &&
         text.find("\"nccl_version\"") != std::string_view::npos;
}

TableText import_nccl_tests_json(const MeasurementInput& in) {
  return nccl_rows(in, NcclJson(in).read());
}

}  // namespace stepcast
