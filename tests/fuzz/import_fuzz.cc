// SPDX-License-Identifier: Apache-2.0
// Any bytes are a scenario or an InputError, to each importer of runs; what is written is YAML.
#include <cstddef>
#include <cstdint>
#include <string>

#include "frameworks/import_run.h"
#include "sim/check.h"
#include "sim/diagnostic.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepcast;
  ImportRequest request;
  request.file = "fuzz";
  request.text.assign(reinterpret_cast<const char*>(data), size);
  request.model_file = "config.json";
  request.model_text = "{\"model_type\": \"llama\"}";
  for (const std::string_view kind : import_kinds()) {
    request.kind = kind;
    try {
      const ImportedRun run = import_run(request);
      Problems problems;
      parse_yaml(problems, problems.add_source({"written", run.scenario, false}));
      try {
        problems.throw_if_any();
      } catch (const InputError& e) {
        STEPCAST_CHECK(false, std::string(e.what()) + "\nwritten from " + std::string(kind) +
                                  ":\n" + run.scenario);
      }
    } catch (const InputError&) {  // the other legal outcome
    }
  }
  return 0;
}
