// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry to the reader that STEPCAST_READER names.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stepcast::fuzz::STEPCAST_READER({reinterpret_cast<const char*>(data), size});
  return 0;
}
