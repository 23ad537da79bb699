// SPDX-License-Identifier: Apache-2.0
// Cost tables: measured times of kernels and collectives on one hardware, and the lookup.
//
// A table is a CSV file with a '#' header (docs/costs.md has the format).  Lookup, best first: the
// exact row; interpolation between rows; rows of nearby shapes scaled by the smooth roofline;
// nothing.  cost_table.cc says which rows a work is answered by; products and attention, whose
// neighbours have to be found, go on in gemm_prices.cc and attention_prices.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/table/curve.h"
#include "calibrate/table/table_price.h"
#include "calibrate/table/table_text.h"
#include "sim/contention/contention.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// Time over bytes of a collective on one group; `nic_gbs` as in CollectiveRow.
struct CollectiveCurve {
  Wires wires;
  double nic_gbs = 0;
  Curve curve;
};

class CostTable {
 public:
  // Throws InputError (E3xx) with line and column.
  static CostTable parse(std::string_view text, const std::string& file_name);
  static CostTable of(const TableText& table);

  CostTable(CostTable&&) noexcept;
  CostTable& operator=(CostTable&&) noexcept;
  ~CostTable();

  const std::string& name() const;  // "a100-sxm-80g"
  uint64_t text_hash() const;       // hash_text() of the text that it was parsed from; 0: of none
  // Takes over the families of rows that the table's '# share:' line names, all of which then count
  // as extrapolated.  Interference and launches of its own stay.  `share_from` is empty if there
  // are none.
  const std::string& share_from() const;
  void take_over(const CostTable& other);

  // The fit by which a product or attention that has no row of its own is answered; nullptr where
  // there is none, and for all other works: those go by rows alone.
  const FitRow* fit_of(const Work& work) const;

  // Time of a compute work (any kind but communication), or nothing if the table says nothing about
  // such works.  A copy between host and device takes as long as the slower direction of those
  // measured: works do not say theirs.
  // `gpu` is the one that the rows were measured on; `parts` takes how the time is made, if given.
  std::optional<Price> compute(const Work& work, const Gpu& gpu, PriceParts* parts = nullptr) const;
  // The same without the text that says where the time comes from, for callers that ask often.
  std::optional<TablePrice> lookup(const Work& work, const Gpu& gpu,
                                   PriceParts* parts = nullptr) const;
  // The measured curves of a collective on so many ranks, one for each of the wires and NICs that
  // it was measured on; calibrate/price/collective_price.h says which of them answers.
  std::span<const CollectiveCurve> collectives(WorkKind kind, int64_t ranks, int64_t nodes,
                                               int64_t ranks_per_node) const;
  // The NVLink of a GPU that they were measured with (0: not stated), and whether the NVSwitches
  // reduced.
  double nvlink_gbs() const;
  bool in_network_reduction() const;
  // The power limit that the rows were measured with; 0: the rating of the GPU.
  Power power() const;
  // Host time of launching one kernel, if measured.
  std::optional<Time> launch() const;
  // Host time of replaying one CUDA graph, if measured.
  std::optional<Time> graph_launch() const;
  // How much compute and communication beside each other slow each other down, if measured.
  std::optional<Interference> interference() const;

 private:
  struct Rows;
  explicit CostTable(std::unique_ptr<Rows> rows);
  std::unique_ptr<Rows> rows_;
};

// The tables that ship with Stepcast, compiled into the library: table of a GPU, nullptr if there
// is none.  Parsed at first use and kept; safe to call from several threads.
const CostTable* shipped_table(std::string_view gpu_name);

// Its text, as `stepcast calibrate show` prints it; empty if there is none.
std::string_view shipped_table_text(std::string_view gpu_name);

}  // namespace stepcast
