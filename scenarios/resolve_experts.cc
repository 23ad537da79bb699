// SPDX-License-Identifier: Apache-2.0
// resolve_experts: ep, etp, how tokens are dispatched and routed.
#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <string>

#include "scenarios/legal_numbers.h"
#include "scenarios/number.h"
#include "scenarios/resolve_plan.h"

namespace stepcast {
namespace {

__extension__ using Wide = __int128;

class ExpertsResolver {
 public:
  ExpertsResolver(const PlanInputs& in, Plan& plan) : in_(in), v_(in.values), plan_(plan) {}

  void resolve() {
    const bool known = in_.model != nullptr;
    const bool experts = known && in_.model->experts > 0;
    resolve_etp(experts);
    if (known && !experts) refuse_without_experts();
    if (experts) {
      check_sizes();
      read_run();
      read_routing();
    }
    plan_.grid.ep = plan_.ep;
    plan_.grid.etp = plan_.etp;
    check_grid();
  }

 private:
  void refuse(const char* code, std::string_view at, std::string message, std::string help = {}) {
    fits_ = false;
    v_.refuse(code, at, std::move(message), std::move(help));
  }

  int64_t ranks() const { return plan_.tp * plan_.cp * plan_.dp; }

  // Megatron: --expert-tensor-parallel-size is tp unless it is given.
  void resolve_etp(bool experts) {
    if (v_.has("parallel.etp")) plan_.etp = v_.whole("parallel.etp");
    if (v_.stated("parallel.etp")) return;
    const bool like_tp = experts && static_cast<Wide>(plan_.ep) * plan_.tp <= ranks() &&
                         ranks() % (plan_.ep * plan_.tp) == 0 && in_.model->moe_ffn % plan_.tp == 0;
    plan_.etp = like_tp ? plan_.tp : 1;
    v_.derive("parallel.etp", plan_.etp, std::to_string(plan_.etp),
              !experts  ? "default: no experts"
              : like_tp ? "default: as tp, as in Megatron"
                        : "default: tp * cp * dp is not a multiple of ep * tp");
  }

  void refuse_without_experts() {
    for (const char* path : {"parallel.ep", "parallel.etp"}) {
      if (v_.has(path) && v_.whole(path) > 1)
        refuse("E127", path, std::string(path) + " > 1, but the model has no experts",
               "leave it out, or name a model that has some, such as mixtral-8x7b");
    }
    if (v_.value("moe") != nullptr)
      in_.warnings.push_back("moe has no effect: the model has no experts");
    plan_.ep = plan_.etp = 1;
  }

  void check_sizes() {
    const Transformer& m = *in_.model;
    if (m.experts % plan_.ep != 0)
      refuse("E206", "parallel.ep",
             "ep = " + std::to_string(plan_.ep) +
                 " does not divide num_experts = " + std::to_string(m.experts),
             "ep can be " + divisors(m.experts, std::min<int64_t>(ranks(), 1024)));
    if (m.moe_ffn % plan_.etp != 0)
      refuse("E206", "parallel.etp",
             "etp = " + std::to_string(plan_.etp) +
                 " does not divide moe_intermediate_size = " + std::to_string(m.moe_ffn),
             "etp can be " + divisors(m.moe_ffn, 8));
    if (m.shared_ffn % plan_.tp != 0)
      refuse(
          "E210", "parallel.tp",
          "tp = " + std::to_string(plan_.tp) +
              " does not divide the width of the shared experts = " + std::to_string(m.shared_ffn),
          "tp can be " + divisors(m.shared_ffn, 8));
    if (plan_.tp > 1 && !plan_.sp && plan_.trains() && v_.has("parallel.tp"))
      refuse("E127", "parallel.sp", "layers with experts need sequence parallelism where tp > 1",
             "leave parallel.sp out: every rank would send the same tokens");
    const Wide product = static_cast<Wide>(plan_.ep) * plan_.etp;
    if (fits_ && in_.cluster != nullptr && (product > ranks() || ranks() % product != 0))
      refuse("E201", v_.value("parallel.ep") != nullptr ? "parallel.ep" : "parallel.etp",
             "ep*etp = " + std::to_string(plan_.ep) + '*' + std::to_string(plan_.etp) +
                 " does not divide tp*cp*dp = " + std::to_string(ranks()),
             "experts are spread over the ranks of a pipeline stage");
    if (!fits_) plan_.ep = plan_.etp = 1;
  }

  // The boundaries of the groups, where they lie across one another.
  void check_grid() {
    try {
      static_cast<void>(plan_.grid.digits());
    } catch (const InputError& e) {
      refuse("E201", v_.value("parallel.ep") != nullptr ? "parallel.ep" : "parallel", e.what());
      plan_.grid.ep = plan_.grid.etp = plan_.grid.replicas = 1;
    }
  }

  void read_run() {
    MoeRun& moe = plan_.moe;
    const auto flag = [&](const char* path, bool& to) {
      if (v_.has(path)) to = v_.flag(path);
    };
    if (v_.has("moe.dispatcher")) {
      const std::string& way = v_.text("moe.dispatcher");
      moe.dispatcher = way == "allgather" ? Dispatcher::all_gather
                       : way == "deepep"  ? Dispatcher::deepep
                                          : Dispatcher::all_to_all;
    }
    flag("moe.pad_to_capacity", moe.pad_to_capacity);
    flag("moe.grouped_gemm", moe.grouped_gemm);
    flag("moe.permute_fusion", moe.permute_fusion);
    flag("moe.shared_overlap", moe.shared_overlap);
    if (v_.has("moe.capacity_factor")) moe.capacity_factor = v_.real("moe.capacity_factor");
    if (moe.pad_to_capacity && moe.capacity_factor == 0)
      refuse("E127", "moe.pad_to_capacity", "moe.pad_to_capacity needs moe.capacity_factor",
             "tokens are padded to it: moe: {capacity_factor: 1, pad_to_capacity: true}");
    if (v_.has("moe.node_limit")) moe.node_limit = v_.whole("moe.node_limit");
    if (moe.dispatcher == Dispatcher::deepep && !v_.stated("moe.node_limit") &&
        in_.model->router_top_groups > 0) {
      moe.node_limit = in_.model->router_top_groups;
      v_.derive("moe.node_limit", moe.node_limit, std::to_string(moe.node_limit),
                "derived: topk_group, each group of experts on a node of its own");
    }
  }

  void refuse_kind(const std::string& word) {
    refuse("E125", "moe.routing", "'moe.routing' cannot be '" + word + '\'',
           "it is balanced, zipf(S) with S from 0 to 10, or shares");
  }

  void read_routing() {
    Routing& routing = plan_.moe.routing;
    if (v_.has("moe.routing.by_sequence")) routing.by_sequence = v_.flag("moe.routing.by_sequence");
    if (v_.has("moe.routing.shares")) return read_shares(v_.texts("moe.routing.shares"));
    if (!v_.has("moe.routing.kind")) return;
    const std::string& word = v_.text("moe.routing.kind");
    if (word == "balanced") return;
    if (!word.starts_with("zipf(") || !word.ends_with(')')) return refuse_kind(word);
    const char* end = word.data() + word.size() - 1;
    const auto [at, error] = std::from_chars(word.data() + 5, end, routing.exponent);
    if (error != std::errc{} || at != end || !(routing.exponent >= 0 && routing.exponent <= 10))
      return refuse_kind(word);
    routing.kind = Routing::Kind::zipf;
  }

  void read_shares(const std::vector<std::string>& words) {
    Routing& routing = plan_.moe.routing;
    if (static_cast<int64_t>(words.size()) != in_.model->experts)
      return refuse("E127", "moe.routing.shares",
                    "moe.routing.shares lists " +
                        std::to_string(static_cast<int64_t>(words.size())) +
                        " experts, the model has " + std::to_string(in_.model->experts),
                    "one share for each expert, in any unit: they are put in proportion");
    double sum = 0;
    std::vector<double> shares;
    for (const std::string& word : words) {
      double share = 0;
      const char* end = word.data() + word.size();
      const auto [at, error] = std::from_chars(word.data(), end, share);
      if (error != std::errc{} || at != end || !(share >= 0 && share <= 1e12))
        return refuse("E125", "moe.routing.shares", "a share cannot be '" + word + '\'',
                      "shares are numbers from 0");
      shares.push_back(share);
      sum += share;
    }
    if (!(sum > 0))
      return refuse("E127", "moe.routing.shares", "the shares of all experts are zero",
                    "moe.routing: balanced sends all of them as many tokens");
    for (double& s : shares) s /= sum;
    routing.kind = Routing::Kind::shares;
    routing.shares = std::move(shares);
  }

  const PlanInputs& in_;
  FieldValues& v_;
  Plan& plan_;
  bool fits_ = true;
};

}  // namespace

void resolve_exchange(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (in.model == nullptr || in.model->experts == 0) return;
  const auto payload = [&](const char* path, DType& to) {
    const std::string word(name_of(plan.precision.params));
    if (!v.stated(path)) v.derive(path, word, word, "derived: precision.params");
    if (v.has(path)) to = dtype_of(v.text(path));
  };
  payload("moe.dispatch_dtype", plan.moe.dispatch);
  payload("moe.combine_dtype", plan.moe.combine);
}

void resolve_experts(const PlanInputs& in, Plan& plan) {
  ExpertsResolver(in, plan).resolve();
}

}  // namespace stepcast
