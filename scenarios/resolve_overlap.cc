// SPDX-License-Identifier: Apache-2.0
// resolve_overlap: which communication runs beside computation.
#include <string>
#include <string_view>

#include "scenarios/resolve_plan.h"

namespace stepcast {
namespace {

void resolve_comm_sms(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (!v.has("overlap.comm_sms")) return;
  const int64_t taken = v.whole("overlap.comm_sms");
  if (taken == 0 || in.cluster == nullptr) return;
  const Gpu& gpu = in.cluster->node.gpu;
  if (taken < gpu.sms) {
    plan.overlap.comm_sms = static_cast<int>(taken);
    return;
  }
  v.refuse("E127", "overlap.comm_sms", gpu.name + " has " + std::to_string(gpu.sms) + " SMs",
           "DeepSeek-V3 used 20 of 132");
}

// Overlap that can do nothing is remarked on.
void check_overlap(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  for (const char* path : {"overlap.dp_grad", "overlap.dp_param"}) {
    if (v.value(path) == nullptr || !v.has(path) || !v.flag(path)) continue;
    if (plan.dp * plan.cp == 1) {
      in.warnings.push_back(std::string(path) + " has no effect: dp = 1");
    } else if (plan.zero == 0 && path == std::string_view("overlap.dp_param")) {
      in.warnings.push_back("overlap.dp_param has no effect without parallel.zero: 1");
    }
  }
}

}  // namespace

void resolve_overlap(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  const auto flag = [&](std::string_view path, bool& to) {
    if (v.has(path)) to = v.flag(path);
  };
  if (v.has("overlap.tp"))
    plan.overlap.tp = v.text("overlap.tp") == "none"        ? TpOverlap::none
                      : v.text("overlap.tp") == "bulk"      ? TpOverlap::bulk
                      : v.text("overlap.tp") == "pipelined" ? TpOverlap::pipelined
                                                            : TpOverlap::backward;
  flag("overlap.ep", plan.overlap.ep);
  flag("overlap.dp_grad", plan.overlap.dp_grad);
  flag("overlap.dp_param", plan.overlap.dp_param);
  if (v.has("overlap.bucket")) plan.bucket_parameters = v.whole("overlap.bucket");
  resolve_comm_sms(in, plan);
  check_overlap(in, plan);
}

}  // namespace stepcast
