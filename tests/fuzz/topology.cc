// SPDX-License-Identifier: Apache-2.0
// To each importer of topologies: each link has NCCL's figure, and the section of a scenario that
// is written from it is read.
#include <string>

#include "scenarios/cluster_section.h"
#include "scenarios/scenario.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "tests/fuzz/readers.h"
#include "topology/import/imported_topology.h"

namespace stepcast::fuzz {
namespace {

template <class Import>
void attempt(const std::string& kind, Import import) {
  takes([&] {
    const ImportedTopology found = import();
    STEPCAST_CHECK(found.nccl.size() == found.graph.links().size(), "each link has NCCL's figure");
    const std::string section = cluster_section(found, {"fuzz", kind, "dgx-h100", ""});
    load_scenario_text("model: llama3-8b\nbatch: {global: 1024, micro: 1, seq: 512}\n" + section,
                       "section.yaml");
  });
}

}  // namespace

void topology(std::string_view text) {
  topology_format_of(text);
  attempt("nvidia-smi", [&] { return import_nvidia_smi(text, "fuzz"); });
  attempt("nccl-xml", [&] { return import_nccl_xml(text, "fuzz"); });
  attempt("ibnetdiscover", [&] { return import_ibnetdiscover(text, "fuzz"); });
}

}  // namespace stepcast::fuzz
