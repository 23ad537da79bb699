// SPDX-License-Identifier: Apache-2.0
#include "calibrate/import_measurements.h"

#include <array>

#include "calibrate/import_calculon.h"
#include "calibrate/import_kineto.h"
#include "calibrate/import_mamf.h"
#include "calibrate/import_nccl_tests.h"
#include "calibrate/import_simumax.h"
#include "calibrate/measurement_input.h"

namespace stepcast {
namespace {

struct Importer {
  std::string_view kind;
  bool (*recognises)(std::string_view text);
  TableText (*import)(const MeasurementInput& in);
};
// Two forms of one tool have two lines.
constexpr std::array<Importer, 6> kImporters{{
    {"kineto", is_kineto_trace, import_kineto},
    {"simumax", is_simumax_system, import_simumax},
    {"calculon", is_calculon_system, import_calculon},
    {"nccl-tests", is_nccl_tests_json, import_nccl_tests_json},
    {"mamf", is_mamf_output, import_mamf},
    {"nccl-tests", is_nccl_tests_text, import_nccl_tests_text},
}};

}  // namespace

std::span<const std::string_view> measurement_kinds() {
  static constexpr std::array<std::string_view, 5> kKinds{"nccl-tests", "mamf", "kineto", "simumax",
                                                          "calculon"};
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
  for (const Importer& i : kImporters)
    if ((options.kind.empty() || options.kind == i.kind) && i.recognises(text)) return i.import(in);
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
