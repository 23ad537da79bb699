// SPDX-License-Identifier: Apache-2.0
// Output of mamf-finder.py (stas00/ml-engineering compute/accelerator/benchmarks), versions 1 to 4.
//
// It searches for the shape at which a GPU multiplies matrices fastest, in a loop over the same
// operands in the layout tn: what its best shapes reach is an upper bound of what a run sees, and
// the sources of the rows say so.
#include <array>
#include <map>
#include <optional>

#include "calibrate/import/measurement_input.h"
#include "calibrate/table/table_text.h"
#include "sim/graph/work.h"

namespace stepcast {

namespace {

using Shape = std::array<int64_t, 3>;  // m, n, k
constexpr int64_t kLongest = int64_t{1} << 24;

// "1024x10240x5120"
std::optional<Shape> shape_of(std::string_view word) {
  Shape shape{};
  for (size_t i = 0; i < shape.size(); ++i) {
    const size_t end = i + 1 < shape.size() ? word.find('x') : word.size();
    if (end == std::string_view::npos) return std::nullopt;
    const std::optional<int64_t> side = parse_number<int64_t>(word.substr(0, end));
    if (!side || *side < 1 || *side > kLongest) return std::nullopt;
    shape[i] = *side;
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return shape;
}

// The rates of one shape, by what they are.  In the order of preference.
enum Statistic { kMedian, kMean, kSustained, kFastest };
constexpr size_t kStatistics = 4;

class MamfOutput {
 public:
  explicit MamfOutput(const MeasurementInput& in) : in_(in), lines_(in.text) {}

  TableText read() {
    while (lines_.next()) line();
    if (rates_.empty())
      refuse_measurements(in_, "E330", "no rates of mamf-finder.py",
                          "a run that was stopped before its results has none");
    return table();
  }

 private:
  void line() {
    const std::vector<std::string_view> words = split_words(lines_.line);
    if (words.size() < 2) {
      if (words.size() == 1 && words[0].starts_with("torch="))
        software_ = std::string(words[0].substr(6));
      return;
    }
    if (words[0] == "**" && words[1] == "Dtype:" && words.size() > 2) dtype_ = words[2];
    if (words[0].starts_with("torch=")) software_ = std::string(words[0].substr(6));
    device();
    if (headline(words)) return;
    if (words.size() > 6 && words[1] == "|") return scanned_shape(words);
    if (words.size() > 5 && parse_number<int64_t>(words[0]) && shape_of(words[1])) table_row(words);
  }

  void device() {
    static constexpr std::string_view kLabel = "_CudaDeviceProperties(name='";
    const size_t at = lines_.line.find(kLabel);
    if (at == std::string_view::npos) return;
    const std::string_view rest = lines_.line.substr(at + kLabel.size());
    device_ = std::string(rest.substr(0, rest.find('\'')));
  }

  [[noreturn]] void broken(std::string_view at, const std::string& what) const {
    TextPlace p;
    p.line = lines_.number;
    p.column = static_cast<int>(at.data() - lines_.line.data()) + 1;
    p.source_line = std::string(lines_.line);
    refuse_measurements(in_, "E333", what, "TFLOPS @ MxNxK", p);
  }

  void add(const Shape& shape, Statistic which, std::string_view rate) {
    const std::optional<double> tflops = parse_number<double>(rate);
    if (!tflops || !(*tflops > 0) || *tflops > 1e6)
      broken(rate, "'" + std::string(rate) + "' is no rate");
    rates_[shape][which].push_back(*tflops);
  }

  // "median: 271.0 TFLOPS @ 1024x10240x5120 (MxNxK)", "MSMF (max sustainable, ...): 722 TFLOPS @
  // ...", and of version 1 "The best outcome was 271.2TFLOPS @ ...".
  bool headline(const std::vector<std::string_view>& words) {
    size_t at = 0;
    while (at < words.size() && words[at] != "@") ++at;
    if (at + 2 >= words.size() || at < 1 || words[at + 2] != "(MxNxK)") return false;
    static constexpr std::string_view kUnit = "TFLOPS";
    std::string_view rate = words[at - 1];
    if (rate == kUnit && at >= 2) {
      rate = words[at - 2];
    } else if (rate.ends_with(kUnit)) {
      rate.remove_suffix(kUnit.size());
    } else {
      return false;
    }
    const std::optional<Shape> shape = shape_of(words[at + 1]);
    if (!shape) broken(words[at + 1], "'" + std::string(words[at + 1]) + "' is no shape");
    const Statistic which = words[0] == "median:"          ? kMedian
                            : words[0] == "mean:"          ? kMean
                            : words[0].starts_with("MSMF") ? kSustained
                                                           : kFastest;
    add(*shape, which, rate);
    return true;
  }

  // "18 |  791.5(mean)  792.0(median)  794.5(max) @ 1024x2048x4096  | best: ..."
  void scanned_shape(const std::vector<std::string_view>& words) {
    std::string_view rate;
    std::optional<Shape> shape;
    for (size_t i = 2; i < words.size() && words[i] != "|"; ++i) {
      static constexpr std::string_view kMark = "(median)";
      if (words[i].ends_with(kMark)) rate = words[i].substr(0, words[i].size() - kMark.size());
      if (words[i] == "@" && i + 1 < words.size()) shape = shape_of(words[i + 1]);
    }
    if (!rate.empty() && shape) add(*shape, kMedian, rate);
  }

  // "18  3072x2816x20480  828.4  828.6  831.6  828.4  506  1980": number, shape, mean, median, max,
  // best so far, watts, MHz.  Other tables of versions 3 and 4 have fewer columns.
  void table_row(const std::vector<std::string_view>& words) {
    for (size_t i = 2; i < 6; ++i)
      if (!parse_number<double>(words[i])) return;
    add(*shape_of(words[1]), kMedian, words[3]);
  }

  DType dtype() const {
    const std::string_view name = in_.options.dtype.empty() ? dtype_ : in_.options.dtype;
    const std::optional<DType> found = foreign_dtype(name);
    if (found) return *found;
    refuse_measurements(in_, "E334",
                        name.empty() ? std::string("the file does not say the number type")
                                     : "'" + std::string(name) + "' is no number type of tables",
                        "state it: --dtype bf16");
  }

  TableText table() const {
    TableText t;
    t.gpu = measured_gpu(in_, device_);
    if (!software_.empty()) t.software = "PyTorch " + software_;
    const std::string what =
        "mamf-finder.py, best shapes of a search, one product in a loop: an "
        "upper bound of what other shapes reach: ";
    t.sources.push_back({"mamf", false, what + base_name_of(in_.file)});
    t.sources.push_back({"mamf-fastest", true,
                         "mamf-finder.py, fastest iterations of the best shape, which no run "
                         "sustains: " +
                             base_name_of(in_.file)});
    bool measured = false, fastest = false;
    for (const auto& [shape, by_statistic] : rates_) {
      size_t which = 0;
      while (by_statistic[which].empty()) ++which;
      (which == kFastest ? fastest : measured) = true;
      t.gemms.push_back(row(shape, by_statistic[which], which == kFastest));
    }
    if (!fastest) t.sources.pop_back();
    if (!measured) {
      t.sources.erase(t.sources.begin());
      for (GemmRow& r : t.gemms) r.source = 0;
    }
    return t;
  }

  GemmRow row(const Shape& shape, const std::vector<double>& rates, bool fastest) const {
    std::vector<double> times;
    const double flops = 2.0 * static_cast<double>(shape[0]) * static_cast<double>(shape[1]) *
                         static_cast<double>(shape[2]);
    for (const double tflops : rates) times.push_back(flops / tflops * 1e-6);
    const SampleSummary s = summarize_samples(times);
    GemmRow r;
    r.dtype = dtype();
    r.layout = GemmLayout::tn;
    r.m = shape[0];
    r.n = shape[1];
    r.k = shape[2];
    r.us = rounded(s.median, 5);
    r.spread = rounded(s.spread, 5);
    r.source = fastest ? 1 : 0;
    return r;
  }

  const MeasurementInput& in_;
  TextLines lines_;
  std::map<Shape, std::array<std::vector<double>, kStatistics>> rates_;
  std::string dtype_, device_, software_;
};

}  // namespace

// A text about the tool is none of its output: what only a run prints is asked for.
bool is_mamf_output(std::string_view text) {
  const bool names_it = text.find("mamf-finder") != std::string_view::npos;
  if (text.starts_with('{') || (!names_it && text.find("MxNxK") == std::string_view::npos))
    return false;
  TextLines lines(text);
  while (lines.next()) {
    const std::vector<std::string_view> words = split_words(lines.line);
    if (words.size() < 2) continue;
    if (names_it && words[0] == "**" && words[1] == "Command") return true;
    if (words[0] == "#" && words[1] == "MxNxK") return true;
    for (size_t i = 1; i + 2 < words.size(); ++i)
      if (words[i] == "@" && words[i + 2] == "(MxNxK)" && words[i - 1].ends_with("TFLOPS"))
        return true;
  }
  return false;
}

// Rows of each shape that the output states a rate of: the median of the iterations, else the rate
// that is sustained (MSMF); where only the fastest iterations are stated (max, MAMF) a row that is
// derived.
TableText import_mamf(const MeasurementInput& in) {
  return MamfOutput(in).read();
}

}  // namespace stepcast
