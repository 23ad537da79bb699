// SPDX-License-Identifier: Apache-2.0
// Any bytes are a scenario or an InputError.
#include <cstddef>
#include <cstdint>
#include <string>

#include "scenarios/scenario.h"
#include "sim/diagnostic.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stepcast::LoadOptions options;
  options.root = "/nonexistent";  // `extends` finds nothing
  try {
    stepcast::load_scenario_text({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", options);
  } catch (const stepcast::InputError&) {  // the other legal outcome
  }
  return 0;
}
