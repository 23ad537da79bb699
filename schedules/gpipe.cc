// SPDX-License-Identifier: Apache-2.0
// GPipe: all forwards, then all backwards, both in ascending order (Huang et al. 2019; the backward
// order is that of torch.distributed.pipelining).
#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "gpipe";
constexpr std::string_view kAliases[] = {"schedulegpipe",
                                         "g-pipe",
                                         "afab",
                                         "f-then-b",
                                         "fthenb",
                                         "all-forward-all-backward",
                                         "allforwardallbackwardpipelineengine"};

Schedule generate(const ScheduleParams& params) {
  require_one_chunk(kName, params, "looped-bfs");
  return one_chunk_schedule(kName, params, [&](int64_t) { return params.microbatches; });
}

}  // namespace

ScheduleFamily gpipe() {
  return {kName,
          kAliases,
          "all forwards, then all backwards; bubble (p-1)(tF+tB), holds m microbatches; vpp = 1",
          "Huang et al. 2019 (arXiv:1811.06965); torch.distributed.pipelining ScheduleGPipe",
          generate,
          {},
          P2pStyle::megatron};
}

}  // namespace stepcast
