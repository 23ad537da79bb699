// SPDX-License-Identifier: Apache-2.0
// Fused attention of other versions than the one that a cost table measured.
#pragma once

#include <string_view>

#include "calibrate/attention_prices.h"
#include "sim/graph/work.h"

namespace stepcast {

// Rows of `kernel` on a GPU (calibrate/attention/KERNEL.GPU.csv), nullptr if there are none.  Read
// at first use and kept; safe to call from several threads.
const AttentionPrices* shipped_attention(AttentionKernel kernel, std::string_view gpu_name);

}  // namespace stepcast
