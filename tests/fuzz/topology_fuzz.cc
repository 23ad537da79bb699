// SPDX-License-Identifier: Apache-2.0
// Any bytes are a topology or an InputError, to each of the importers.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/check.h"
#include "sim/diagnostic.h"
#include "topology/import_ibnetdiscover.h"
#include "topology/import_nccl_xml.h"
#include "topology/import_nvidia_smi.h"

namespace {

template <class Import>
void try_import(Import import) {
  try {
    const stepcast::ImportedTopology t = import();
    STEPCAST_CHECK(t.nccl.size() == t.graph.links().size(), "each link has NCCL's figure");
  } catch (const stepcast::InputError&) {  // the other legal outcome
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try_import([&] { return stepcast::import_nvidia_smi(text, "fuzz"); });
  try_import([&] { return stepcast::import_nccl_xml(text, "fuzz"); });
  try_import([&] { return stepcast::import_ibnetdiscover(text, "fuzz"); });
  return 0;
}
