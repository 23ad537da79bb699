// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import/import_measurements.h"

#include <array>

#include "calibrate/import/measurement_input.h"

namespace stepcast {
namespace {

struct Importer {
  std::string_view kind;
  bool (*recognises)(std::string_view text);
  TableText (*import)(const MeasurementInput& in);
};
// Two forms of one tool have two lines.
constexpr std::array<Importer, 4> kImporters{{
    {"kineto", is_kineto_trace, import_kineto},
    {"nccl-tests", is_nccl_tests_json, import_nccl_tests_json},
    {"mamf", is_mamf_output, import_mamf},
    {"nccl-tests", is_nccl_tests_text, import_nccl_tests_text},
}};

// What a reader of tables would refuse: a number of another unit, or an overflow.
void check_range(const MeasurementInput& in, const TableText& table) {
  const auto time = [&](double us) {
    if (!(us > kLeastTime && us <= kMostNumber))
      refuse_measurements(in, "E333", "a time that is out of range",
                          "above 1e-6 and up to 1e15 microseconds");
  };
  const auto size = [&](int64_t value) {
    if (value < 1 || value > kMostSize)
      refuse_measurements(in, "E333", "a size that is out of range", "from 1 to 2^50");
  };
  for (const GemmRow& r : table.gemms) {
    time(r.us);
    for (const int64_t side : {r.m, r.n, r.k, r.batch}) size(side);
  }
  for (const AttentionRow& r : table.attentions) {
    time(r.us);
    for (const int64_t side : {r.m, r.n, r.k, r.batch, r.heads, r.kv_heads}) size(side);
  }
  for (const MemoryRow& r : table.memories) time(r.us);
  for (const CopyRow& r : table.copies) time(r.us);
  for (const CollectiveRow& r : table.collectives) {
    time(r.us);
    size(r.bytes);
  }
}

}  // namespace

std::span<const std::string_view> measurement_kinds() {
  static constexpr std::array<std::string_view, 3> kKinds{"nccl-tests", "mamf", "kineto"};
  return kKinds;
}

std::string_view recognise_measurements(std::string_view text) {
  for (const Importer& i : kImporters)
    if (i.recognises(text)) return i.kind;
  return {};
}

TableText import_measurements(std::string_view text, const std::string& file,
                              const MeasurementOptions& options, std::vector<std::string>* notes) {
  const MeasurementInput in{text, file, options, notes};
  if (text.starts_with("\x1f\x8b"))
    refuse_measurements(in, "E330", "this file is compressed (gzip)", "unpack it first: gunzip");
  for (const Importer& i : kImporters) {
    if ((!options.kind.empty() && options.kind != i.kind) || !i.recognises(text)) continue;
    TableText table = i.import(in);
    check_range(in, table);
    return table;
  }
  if (options.kind.empty()) {
    std::string kinds;
    for (const std::string_view k : measurement_kinds())
      kinds += (kinds.empty() ? "" : ", ") + std::string(k);
    refuse_measurements(in, "E330", "not a file of measurements that is known", kinds);
  }
  refuse_measurements(in, "E330", "not a file of " + options.kind,
                      "docs/calibration_imports.md says what is read");
}

}  // namespace stepcast
