// SPDX-License-Identifier: Apache-2.0
// Rows of several tables in one.
//
// Where two inputs answer the same question a measured row beats a derived one, then the earlier
// input wins.  The result depends on the inputs and their order alone.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "calibrate/table/table_text.h"

namespace stepcast {

struct United {
  TableText table;              // rows sorted (write_table.h), sources without rows left out
  std::vector<size_t> dropped;  // by input: its rows that another one answers
  // One line each: rows that became derived, shared ones that were left out.
  std::vector<std::string> remarks;
};

// `gpu`: that of the result; rows of another one become derived.  Empty: the inputs are of one.
//
// Sources of one key with different texts: the later one's gets a suffix, "vidur-2".  `about` is
// the first that is not empty; `software` and `conditions` are all different ones in order; the
// fabric's conditions are those of the inputs with collectives.  Families that the result has rows
// of and an input shares from another table are not shared any more: the rows of the shipped table
// are united with them, as derived ones.  What fit_table (fit_table.h) computed from the rows of
// one input is left out: call it on the result.
//
// Throws InputError E310: different GPUs; collectives of different NVLinks, of ones that are stated
// and not, or with and without in-network reduction; different tables that families are shared
// from, or one that is not shipped; rows that check_rows refuses.  REQUIRES: at least one input.
United unite(std::span<const TableText> inputs, const std::string& gpu = {});

}  // namespace stepcast
