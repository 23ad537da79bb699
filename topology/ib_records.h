// SPDX-License-Identifier: Apache-2.0
// Records of ibnetdiscover's output, one a switch or adapter, and the cables between their ports.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/import.h"
#include "topology/import_text.h"

namespace stepcast {

enum class IbKind : uint8_t { network_switch, adapter, router };

struct IbNode {
  IbKind kind = IbKind::adapter;
  std::string guid;         // "S-2c5eab0300100010"
  std::string description;  // "MF0;LEAF-04-04:MQM9701/U1", "host0401 mlx5_5"
  int line = 0;             // of its record; 0: only named by a peer
  bool sharp = false;       // an aggregation node of a switch that reduces
};

struct IbCable {
  uint32_t a = 0, b = 0;  // nodes
  int64_t a_port = 0, b_port = 0;
  std::string_view speed;  // "4xNDR"
  Bandwidth bandwidth{};   // one direction
  int line = 0;
};

struct IbRecords {
  std::vector<IbNode> nodes;  // in order of their records
  std::vector<IbCable> cables;
  std::vector<TopologyWarning> warnings;
};

// Each cable once, whichever ends tell of it.  Throws InputError: E320 if there is no switch, E321
// for a line that is none of the format, a record that is there twice or a port that is, E322 for
// switches that others name and the file does not describe.
IbRecords read_ib_records(const ImportText& text);

}  // namespace stepcast
