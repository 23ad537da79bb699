// SPDX-License-Identifier: Apache-2.0
// Mixture of experts: ep, etp, how tokens are dispatched and which experts they choose.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/document/number.h"
#include "sim/csv.h"
#include "sim/text.h"

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
  void refuse(const char* code, Key at, std::string message, std::string help = {}) {
    fits_ = false;
    v_.refuse(code, at, std::move(message), std::move(help));
  }

  int64_t ranks() const { return plan_.tp * plan_.cp * plan_.dp; }

  // Not where a size could not be read, or the sizes do not make up the GPUs: that has been said,
  // and what follows from it would be said of values that are right.
  bool ranks_known() const {
    return in_.cluster != nullptr && v_.has("parallel.tp") && v_.has("parallel.cp") &&
           v_.has("parallel.pp") && v_.has("parallel.dp") && v_.has("parallel.ep") &&
           static_cast<Wide>(ranks()) * plan_.pp == in_.gpus;
  }

  // Megatron: --expert-tensor-parallel-size is tp unless it is given.
  void resolve_etp(bool experts) {
    v_.read("parallel.etp", plan_.etp);
    if (v_.stated("parallel.etp")) return;
    const bool like_tp = experts && static_cast<Wide>(plan_.ep) * plan_.tp <= ranks() &&
                         ranks() % (plan_.ep * plan_.tp) == 0 && in_.model->moe_ffn % plan_.tp == 0;
    plan_.etp = like_tp ? plan_.tp : 1;
    v_.derive<int64_t>("parallel.etp", plan_.etp,
                       !experts  ? "default: no experts"
                       : like_tp ? "default: as tp, as in Megatron"
                                 : "default: tp * cp * dp is not a multiple of ep * tp");
  }

  void refuse_without_experts() {
    for (const KeyOf<int64_t> key : {KeyOf<int64_t>("parallel.ep"), KeyOf<int64_t>("parallel.etp")})
      if (v_.has(key) && v_.whole(key) > 1)
        refuse("E127", key, key.path() + " > 1, but the model has no experts",
               "leave it out, or name a model that has some, such as mixtral-8x7b");
    if (v_.value("moe") != nullptr)
      in_.warnings.push_back("moe has no effect: the model has no experts");
    plan_.ep = plan_.etp = 1;
  }

  void check_sizes() {
    const Transformer& m = *in_.model;
    if (m.experts % plan_.ep != 0)
      refuse("E206", "parallel.ep",
             fmt::format("ep = {} does not divide num_experts = {}", plan_.ep, m.experts),
             "ep can be " + divisors(m.experts, std::min<int64_t>(ranks(), 1024)));
    if (m.moe_ffn % plan_.etp != 0)
      refuse(
          "E206", "parallel.etp",
          fmt::format("etp = {} does not divide moe_intermediate_size = {}", plan_.etp, m.moe_ffn),
          "etp can be " + divisors(m.moe_ffn, 8));
    if (m.shared_ffn % plan_.tp != 0)
      refuse("E210", "parallel.tp",
             fmt::format("tp = {} does not divide the width of the shared experts = {}", plan_.tp,
                         m.shared_ffn),
             "tp can be " + divisors(m.shared_ffn, 8));
    if (plan_.tp > 1 && !plan_.sp && plan_.trains() && v_.has("parallel.tp"))
      refuse("E127", "parallel.sp", "layers with experts need sequence parallelism where tp > 1",
             "leave parallel.sp out: every rank would send the same tokens");
    const Wide product = static_cast<Wide>(plan_.ep) * plan_.etp;
    if (fits_ && ranks_known() && (product > ranks() || ranks() % product != 0))
      refuse(
          "E201", v_.value("parallel.ep") != nullptr ? Key("parallel.ep") : Key("parallel.etp"),
          fmt::format("ep*etp = {}*{} does not divide tp*cp*dp = {}", plan_.ep, plan_.etp, ranks()),
          "experts are spread over the ranks of a pipeline stage" + remark_on_one_node(in_));
    if (!fits_ || !ranks_known()) plan_.ep = plan_.etp = 1;
  }

  // The boundaries of the groups, where they lie across one another.
  void check_grid() {
    try {
      static_cast<void>(plan_.grid.digits());
    } catch (const InputError& e) {
      refuse("E201", v_.value("parallel.ep") != nullptr ? Key("parallel.ep") : Key("parallel"),
             e.what());
      plan_.grid.ep = plan_.grid.etp = plan_.grid.replicas = 1;
    }
  }

  void read_run() {
    MoeRun& moe = plan_.moe;
    v_.read("moe.dispatcher", moe.dispatcher);
    v_.read("moe.pad_to_capacity", moe.pad_to_capacity);
    v_.read("moe.grouped_gemm", moe.grouped_gemm);
    v_.read("moe.permute_fusion", moe.permute_fusion);
    v_.read("moe.router_fusion", moe.router_fusion);
    v_.read("moe.shared_overlap", moe.shared_overlap);
    v_.read("moe.activation_input", moe.activation_input);
    v_.read("moe.capacity_factor", moe.capacity_factor);
    if (moe.pad_to_capacity && moe.capacity_factor == 0)
      refuse("E127", "moe.pad_to_capacity", "moe.pad_to_capacity needs moe.capacity_factor",
             "tokens are padded to it: moe: {capacity_factor: 1, pad_to_capacity: true}");
    v_.read("moe.node_limit", moe.node_limit);
    if (moe.dispatcher == Dispatcher::deepep && !v_.stated("moe.node_limit") &&
        in_.model->router_top_groups > 0) {
      moe.node_limit = in_.model->router_top_groups;
      v_.derive<int64_t>("moe.node_limit", moe.node_limit,
                         "derived: topk_group, each group of experts on a node of its own");
    }
  }

  void refuse_kind(const std::string& word) {
    refuse("E125", "moe.routing", "'moe.routing' cannot be '" + word + '\'',
           "it is balanced, zipf(S) with S from 0 to 10, or shares");
  }

  void read_routing() {
    Routing& routing = plan_.moe.routing;
    v_.read("moe.routing.by_sequence", routing.by_sequence);
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
                    fmt::format("moe.routing.shares lists {} experts, the model has {}",
                                static_cast<int64_t>(words.size()), in_.model->experts),
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
  const auto payload = [&](KeyOf<DType> key, DType& to) {
    if (!v.stated(key)) v.derive<DType>(key, plan.precision.params, "derived: precision.params");
    v.read(key, to);
  };
  payload("moe.dispatch_dtype", plan.moe.dispatch);
  payload("moe.combine_dtype", plan.moe.combine);
}

void resolve_experts(const PlanInputs& in, Plan& plan) {
  ExpertsResolver(in, plan).resolve();
}

// ------------------------------------------------------------------------------- moe.routing.trace

namespace {

// The counts of a line, with commas or blanks between them.  E125 at the first word that is none.
std::optional<std::vector<double>> read_counts(std::string_view row, const Mark& line,
                                               Problems& problems) {
  constexpr double kMostTokens = 1e15;
  std::vector<double> counts;
  CsvPlace place;
  row = row.substr(0, row.find('#'));
  while (const std::optional<CsvField> cell = next_field(row, place))
    for (const std::string_view word : split_words(cell->text)) {
      const std::optional<double> count = parse_number<double>(word);
      if (count && *count >= 0 && *count <= kMostTokens) {
        counts.push_back(*count);
        continue;
      }
      Mark mark = line;
      mark.column = static_cast<int>(word.data() - row.data()) + 1;
      problems.add("E125", fmt::format("a count of tokens cannot be '{}'", word.substr(0, 40)),
                   mark, static_cast<int>(word.size()), {}, "counts are numbers from 0");
      return {};
    }
  return counts;
}

// Calls `line` with the counts of each line that has any, and its place, until it returns false.
// False if it did, or at a word that is no count.
template <class Line>
bool for_lines(const SourceRef& source, Problems& problems, Line&& line) {
  std::string_view text = source->text;
  Mark mark{source, 1, 1};
  for (; !text.empty(); ++mark.line) {
    const std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(row.size() + 1, text.size()));
    const std::optional<std::vector<double>> counts = read_counts(row, mark, problems);
    if (!counts || (!counts->empty() && !line(*counts, mark))) return false;
  }
  return true;
}

}  // namespace

void resolve_routing_trace(const PlanInputs& in, ScenarioFiles& files, Plan& plan) {
  const FieldValues& v = in.values;
  constexpr KeyOf<std::string> kTrace = "moe.routing.trace";
  if (!v.has(kTrace) || in.model == nullptr || in.model->experts == 0) return;
  const auto refuse = [&](std::string message, const Mark& mark, std::string help) {
    in.problems.add("E127", std::move(message), mark, 1, {}, std::move(help));
  };
  for (const Key other : Keys{"moe.routing.kind", "moe.routing.shares"})
    if (v.value(other) != nullptr)
      return refuse(fmt::format("{} and {} both say where tokens go", kTrace.path(), other.path()),
                    v.mark(other), "leave one of them out");
  const SourceRef source = files.open(v.text(kTrace), v.mark(kTrace));
  if (source == nullptr) return;
  const auto experts = static_cast<size_t>(in.model->experts);
  // The file is gone through twice and not kept: a trace may have a line for each step and layer.
  // One count a line, and as many lines as experts: a line is an expert.
  size_t lines = 0, first = 0;
  const bool legal = for_lines(source, in.problems, [&](const std::vector<double>& counts, Mark) {
    if (lines++ == 0) first = counts.size();
    return true;
  });
  if (!legal) return;
  const bool column = lines == experts && first == 1;
  std::vector<double> sums(experts);
  double all = 0;
  size_t row = 0;
  const auto add = [&](const std::vector<double>& counts, const Mark& mark) {
    if (counts.size() != (column ? 1 : experts)) {
      refuse(fmt::format("a line of {} counts, for {} experts", counts.size(), experts), mark,
             "one column an expert, or one line an expert");
      return false;
    }
    for (size_t c = 0; c < counts.size(); ++c) {
      sums[column ? row : c] += counts[c];
      all += counts[c];
    }
    ++row;
    return true;
  };
  if (!for_lines(source, in.problems, add)) return;
  if (!(all > 0))
    return refuse("the trace counts no tokens", {source, 1, 1},
                  "moe.routing: balanced sends every expert as many");
  for (double& s : sums) s /= all;
  plan.moe.routing.kind = Routing::Kind::shares;
  plan.moe.routing.shares = std::move(sums);
}

}  // namespace stepcast
