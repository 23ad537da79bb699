// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/import_cluster.h"

#include "scenarios/cluster_section.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

void draft_cluster(const ImportCluster& cluster, int64_t gpus, const std::string& why,
                   ScenarioDraft& draft) {
  const Node node = preset_node(cluster.preset, cluster.gpu);
  const std::string preset = yaml_text(cluster.preset);
  if (cluster.assumed)
    draft.assume("cluster.preset", preset, "the file names no hardware; --preset chooses it");
  else
    draft.set("cluster.preset", preset, "--preset");
  const int64_t per_node = node.gpus;
  draft.set("cluster.nodes", (gpus + per_node - 1) / per_node,
            std::to_string(gpus) + (gpus == 1 ? " GPU: " : " GPUs: ") + why);
  if (!cluster.gpu.empty()) draft.set("cluster.node.gpu", yaml_text(cluster.gpu), "--gpu");
  if (gpus < per_node) draft.set("cluster.node.gpus", gpus, why);
}

}  // namespace stepcast
