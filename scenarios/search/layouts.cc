// SPDX-License-Identifier: Apache-2.0
// From the axes of a space to its layouts.
//
// Take a model of 4 heads and 8 layers on 8 GPUs.  tp can be 1, 2 and 4, pp what is left of 8 GPUs:
// with tp 2 that is 1, 2 or 4, and dp 4, 2 or 1.  Of each of these there are microbatches, chunks,
// recomputation and so on.  Axes are nested in one order, and what is illegal at one level is
// counted with all that it would have had below it, so that the counts add up to the product of the
// axes.  Two combinations that would be one scenario (chunks without a pipeline, ZeRO without
// replicas) are one layout: the first.
#include <algorithm>
#include <map>
#include <numeric>
#include <span>
#include <tuple>

#include <fmt/format.h>

#include "model/plan.h"
#include "model/stages.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/search/space.h"
#include "schedules/families/families.h"

namespace stepcast {
namespace {

std::vector<int64_t> divisors_up_to(int64_t n, int64_t most) {
  std::vector<int64_t> all;
  for (int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) all.push_back(d);
  return all;
}

std::vector<int64_t> powers_up_to(int64_t most) {
  std::vector<int64_t> all;
  for (int64_t p = 1; p <= most; p *= 2) all.push_back(p);
  return all;
}

std::vector<int64_t> from_one_to(int64_t most) {
  std::vector<int64_t> all(static_cast<size_t>(std::max<int64_t>(0, most)));
  std::iota(all.begin(), all.end(), int64_t{1});
  return all;
}

std::vector<int64_t> indices_of(size_t count) {
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

// Embedding and head count as a layer each, as with Megatron's
// --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split, for any
// number of layers.  What does not divide goes to the stages behind the first.
std::vector<int64_t> counted_layers(int64_t layers, int64_t stages) {
  if (stages < 2 || layers + 2 < stages) return {};
  std::vector<int64_t> out(static_cast<size_t>(stages), (layers + 2) / stages);
  int64_t left = (layers + 2) % stages;
  for (size_t s = 1; s + 1 < out.size() && left > 0; ++s, --left) ++out[s];
  if (left > 0) ++out.front();
  --out.front();
  --out.back();
  for (size_t s = 1; s + 1 < out.size(); ++s)
    if (out[s] == 0) return {};
  return out;
}

// The work of what a stage with the head has beside its layers, in layers: by the products of a
// token, as stages_by_products counts them, with those of prediction modules.
double ends_in_layers(const Transformer& model) {
  double layers = 0;
  for (int64_t i = 0; i < model.layers; ++i)
    layers += static_cast<double>(layer_products(model, i));
  const double layer = layers / static_cast<double>(model.layers),
               head = static_cast<double>(model.vocab * model.hidden),
               prediction = static_cast<double>(layer_products(model, model.layers - 1) +
                                                2 * model.hidden * model.hidden) +
                            head;
  return (head + static_cast<double>(model.mtp_layers) * prediction) / layer;
}

// Gives each layer to the rank that has least, then within a rank to the stage that has least.
// Stages go round the ranks.  Take 10 layers on 2 ranks of 2 chunks, and a head that weighs 2.5
// layers.  The ranks get 6 and 4: 4 and the head are 6.5.  Rank 0 has 3 in each chunk, and rank 1
// of its 4 layers 3 in the first and 1 in the last, beside the head.  The last stage may have none.
std::vector<int64_t> balanced_layers(const Transformer& model, int64_t pp, int64_t vpp) {
  const int64_t stages = pp * vpp, fewest = stages - 1;
  if (stages < 2 || model.layers < fewest) return {};
  const double ends = ends_in_layers(model);
  std::vector<int64_t> out(static_cast<size_t>(stages), 1);
  out.back() = 0;
  const auto rank_of = [&](size_t stage) { return stage % static_cast<size_t>(pp); };
  std::vector<double> of_rank(static_cast<size_t>(pp), static_cast<double>(vpp));
  of_rank.back() += ends - 1;
  const auto load = [&](size_t stage) {
    return static_cast<double>(out[stage]) + (stage + 1 == out.size() ? ends : 0);
  };
  for (int64_t left = model.layers - fewest; left > 0; --left) {
    // Of equals the last: a rank at the end holds fewer microbatches.
    size_t least = 0;
    for (size_t s = 1; s < out.size(); ++s)
      if (std::pair(of_rank[rank_of(s)], load(s)) <=
          std::pair(of_rank[rank_of(least)], load(least)))
        least = s;
    ++out[least];
    ++of_rank[rank_of(least)];
  }
  return out;
}

std::vector<int64_t> layers_of(std::span<const StageContent> stages) {
  std::vector<int64_t> out;
  for (size_t s = 0; s < stages.size(); ++s) {
    if (stages[s].layers == 0) return {};
    out.push_back(stages[s].layers);
  }
  return out;
}

std::vector<int64_t> split_layers(const Transformer& model, int64_t pp, int64_t vpp,
                                  StageSplit split) {
  const int64_t stages = pp * vpp;
  if (stages > model.layers + 2) return {};
  switch (split) {
    case StageSplit::even:
      if (model.layers % stages != 0) return {};
      return std::vector<int64_t>(static_cast<size_t>(stages), model.layers / stages);
    case StageSplit::counted: return counted_layers(model.layers, stages);
    case StageSplit::products:
      return stages > model.layers ? std::vector<int64_t>{}
                                   : layers_of(stages_by_products(model, stages));
    case StageSplit::balanced: return balanced_layers(model, pp, vpp);
    case StageSplit::last:
      return stages > model.layers ? std::vector<int64_t>{}
                                   : layers_of(last_stages_fullest(model.layers, stages));
    case StageSplit::modules:
      return stages > model.layers ? std::vector<int64_t>{}
                                   : layers_of(stages_by_modules(model.layers, stages));
  }
  return {};
}

// Why a combination is no layout, in the order in which it is asked.
enum class Illegal : uint8_t {
  gpus,
  model,
  sequence,
  context,
  batch,
  stages,
  experts,
  schedule,
  same,
  other,
  graphs,
  fast,
  where
};
constexpr std::array<std::pair<const char*, const char*>, 13> kIllegal{
    {{"gpus", "tp * cp * pp does not divide the GPUs"},
     {"model", "tp does not divide heads, MLP or width"},
     {"sequence", "the sequence does not divide"},
     {"context", "cp beside recurrent layers, sparse or windowed attention, or an encoder"},
     {"batch", "the batch is no multiple of micro * dp"},
     {"stages", "the layers cannot be spread over the stages"},
     {"experts", "the experts cannot be spread"},
     {"schedule", "the schedule does not run with these chunks and microbatches"},
     {"same", "the same as another layout"},
     {"zero", "ZeRO-2 and 3 beside a pipeline, ZeRO-0 without one: only where they are listed"},
     {"graphs", "ZeRO-2 and 3 beside CUDA graphs of layers"},
     {"fast",
      "left out by rules of thumb (prune: fast): tp * cp beyond a node, ZeRO-0 beside replicas, "
      "microbatches of 4 and more"},
     {"where", "left out by where"}}};

}  // namespace

class SearchSpace::Enumeration {
 public:
  Enumeration(const SearchSpace& space, const std::function<bool()>& stop)
      : space_(space), stop_(stop) {}

  // Whether there is any: ends at the first.
  bool any() {
    any_only_ = true;
    for (size_t p = 0; p < space_.places_.size() && !found_; ++p) {
      begin(p);
      descend(kTp);
    }
    return found_;
  }

  Layouts all() {
    for (size_t p = 0; p < space_.places_.size(); ++p) {
      begin(p);
      descend(kTp);
    }
    for (size_t i = 0; i < kIllegal.size(); ++i)
      if (counts_[i] > 0)
        out_.rules.push_back({kIllegal[i].first, kIllegal[i].second,
                              static_cast<int64_t>(counts_[i]),
                              static_cast<Illegal>(i) == Illegal::where ? SearchRule::Kind::where
                                                                        : SearchRule::Kind::drops});
    return std::move(out_);
  }

 private:
  // The axes, outermost first.
  enum Level : uint8_t {
    kTp,
    kCp,
    kPp,
    kMicro,
    kVpp,
    kEp,
    kEtp,
    kSchedule,
    kSplit,
    kZero,
    kRecompute,
    kLevels
  };

  void begin(size_t p) {
    index_of_place_ = p;
    place_ = &space_.places_[p];
    const Transformer& m = model();
    const int64_t node = place_->scenario->cluster.node.gpus, seq = plan().seq;
    const std::vector<int64_t> one{1};
    const auto pick = [](const Axis& axis, std::vector<int64_t> automatic) {
      return axis.automatic ? std::move(automatic) : axis.values;
    };
    const bool alone = space_.replicas_alone_;
    constexpr int64_t kFewestTokens = 1024;  // of a context-parallel rank
    values_[kTp] = pick(space_.tp_, alone ? one : divisors_up_to(m.heads, node));
    values_[kCp] = pick(space_.cp_, space_.context_parallel_
                                        ? powers_up_to(std::max<int64_t>(1, seq / kFewestTokens))
                                        : one);
    values_[kPp] = pick(
        space_.pp_, alone ? one : from_one_to(std::min({m.layers, place_->gpus, int64_t{4096}})));
    values_[kMicro] = pick(space_.micro_, {1, 2, 4, 8});
    values_[kVpp] = pick(space_.vpp_, from_one_to(8));
    values_[kEp] =
        pick(space_.ep_, m.experts > 0 && !alone ? divisors_up_to(m.experts, place_->gpus) : one);
    values_[kEtp] = pick(space_.etp_, m.experts > 0 ? std::vector<int64_t>{1, kAsTp} : one);
    values_[kSchedule] = indices_of(space_.schedules_.size());
    values_[kSplit] = indices_of(space_.splits_.size());
    values_[kZero] = pick(space_.zero_, space_.automatic_zeros_);
    values_[kRecompute] = indices_of(space_.recompute_.size());
    double count = 1;
    for (size_t level = kLevels; level-- > 0;) {
      below_[level] = count;
      count *= static_cast<double>(values_[level].size());
    }
    out_.points += count;
    if (out_.points > 1e12)
      refuse(
          fmt::format("the space has {:.3g} points: at most 10^12 are gone through", out_.points),
          "shorter lists in search.space, or auto, whose axes are those that models are trained "
          "with");

    const bool ring = place_->cp_comm == CpComm::p2p || place_->cp_comm == CpComm::hierarchical;
    bool windows = m.sliding_window > 0 && m.sliding_window < seq;
    for (const int64_t w : m.windows) windows = windows || (w > 0 && w < seq);
    whole_sequences_ = m.encoder_layers > 0 || has_recurrent_layers(m) || m.index_topk > 0 ||
                       !m.compressions.empty() || (ring && windows);
    spreads_.clear();
  }

  void descend(size_t level) {
    if (level == kLevels) return add();
    // Asked where there is work below; what is dropped above takes no time.
    if (level == kVpp && (!out_.all_seen || (stop_ && stop_()))) {
      out_.all_seen = false;
      return;
    }
    for (index_[level] = 0; index_[level] < values_[level].size() && !found_; ++index_[level]) {
      at_[level] = values_[level][index_[level]];
      if (at_[level] == kAsTp) at_[level] = at_[kTp];
      if (const std::optional<Illegal> why = illegal(static_cast<Level>(level)))
        drop(*why, below_[level]);
      else
        descend(level + 1);
    }
  }

  // Why nothing below this level is a layout, by its value and those above it.
  std::optional<Illegal> illegal(Level level) {
    const Transformer& m = model();
    const int64_t seq = plan().seq, tp = at_[kTp], cp = at_[kCp], pp = at_[kPp];
    switch (level) {
      case kTp:
        if (place_->gpus % tp != 0) return Illegal::gpus;
        if (!divides(m, tp) || (m.shared_ffn > 0 && m.shared_ffn % tp != 0)) return Illegal::model;
        return {};
      case kCp:
        if (place_->gpus % (tp * cp) != 0) return Illegal::gpus;
        if ((tp > 1 && seq % tp != 0) || (cp > 1 && seq % (2 * cp) != 0) ||
            (cp > 1 && tp > 1 && seq / cp % tp != 0))
          return Illegal::sequence;
        if (cp > 1 && whole_sequences_) return Illegal::context;
        return {};
      case kPp:
        if (place_->gpus % (tp * cp * pp) != 0) return Illegal::gpus;
        return {};
      case kMicro:
        if (place_->global_batch % (at_[kMicro] * dp()) != 0) return Illegal::batch;
        return {};
      case kVpp:
        if (pp == 1 && at_[kVpp] > 1) return Illegal::same;
        if (pp * at_[kVpp] > m.layers + 2) return Illegal::stages;
        return {};
      case kEp: return {};  // with etp
      case kEtp: return illegal_experts();
      case kSchedule:
        if (pp == 1 && at_[kSchedule] > 0) return Illegal::same;
        if (!schedule_runs()) return Illegal::schedule;
        return {};
      case kSplit: return illegal_split();
      case kZero: return illegal_zero();
      case kRecompute: return {};
      case kLevels: break;
    }
    return {};
  }

  std::optional<Illegal> illegal_experts() const {
    const Transformer& m = model();
    const int64_t tp = at_[kTp], ep = at_[kEp], etp = at_[kEtp];
    if (values_[kEtp][index_[kEtp]] == kAsTp && tp == 1) return Illegal::same;
    const bool fits = m.experts == 0 ? ep == 1 && etp == 1
                                     : m.experts % ep == 0 && m.moe_ffn % etp == 0 &&
                                           tp * at_[kCp] * dp() % (ep * etp) == 0;
    if (!fits) return Illegal::experts;
    return {};
  }

  bool schedule_runs() {
    const int64_t pp = at_[kPp], vpp = at_[kVpp];
    const auto [known, fresh] = runs_.try_emplace({at_[kSchedule], pp, vpp, microbatches()}, true);
    if (fresh && pp > 1) {
      const std::string& name = space_.schedules_[index_[kSchedule]];
      const ScheduleParams params{pp, vpp, microbatches(), 0, {}};
      // Megatron's interleaved order with one chunk is 1F1B.
      known->second = !check_params(*find_schedule_family(name), params) &&
                      !(name == "interleaved-1f1b" && vpp == 1);
    }
    return known->second;
  }

  std::optional<Illegal> illegal_split() {
    const std::vector<int64_t>& layers = spread(index_[kSplit]);
    if (layers.empty()) return Illegal::stages;
    for (size_t before = 0; before < index_[kSplit]; ++before)
      if (spread(before) == layers) return Illegal::same;
    return {};
  }

  std::optional<Illegal> illegal_zero() const {
    const int64_t zero = at_[kZero];
    const bool automatic = space_.zero_.automatic;
    if (dp() * at_[kCp] == 1) {
      if (index_[kZero] > 0) return Illegal::same;
    } else if (automatic && (at_[kPp] > 1 ? zero > 1 && !space_.shards_beside_pipeline_
                                          : zero == 0 && values_[kZero].size() > 1)) {
      return Illegal::other;
    }
    if (automatic && zero > 1 && plan().kernels.cuda_graph == CudaGraph::layer)
      return Illegal::graphs;
    return {};
  }

  void add() {
    const auto u16 = [&](Level level) { return static_cast<uint16_t>(at_[level]); };
    const auto u8 = [&](Level level) { return static_cast<uint8_t>(at_[level]); };
    const Layout layout{static_cast<uint16_t>(index_of_place_),
                        u16(kTp),
                        u16(kCp),
                        u16(kPp),
                        u16(kVpp),
                        u16(kEp),
                        u16(kEtp),
                        u16(kMicro),
                        u8(kZero),
                        u8(kRecompute),
                        u8(kSchedule),
                        space_.splits_[index_[kSplit]]};
    const bool rare = at_[kTp] * at_[kCp] > place_->scenario->cluster.node.gpus ||
                      (at_[kZero] == 0 && dp() * at_[kCp] > 1) || at_[kMicro] > 2;
    if (space_.settings_.fast && rare) return drop(Illegal::fast, 1);
    if (!any_only_ && ++looked_at_ > 10 * kMostLayouts)
      refuse(fmt::format("more than {} combinations are legal", 10 * kMostLayouts),
             "shorter lists in search.space");
    if (!space_.where_.empty()) {
      const std::vector<double> values = space_.values_of(kAsksOfLayouts, layout);
      if (!std::ranges::all_of(space_.where_, [&](const Expression& e) { return e.holds(values); }))
        return drop(Illegal::where, 1);
    }
    found_ = any_only_;
    if (any_only_) return;
    if (out_.all.size() == kMostLayouts)
      refuse(fmt::format("the space has more than {} layouts", kMostLayouts),
             "search.where leaves out what is not wanted");
    out_.all.push_back(layout);
  }

  void drop(Illegal why, double count) { counts_[static_cast<size_t>(why)] += count; }

  [[noreturn]] void refuse(std::string message, std::string help) const {
    Diagnostic d = space_.section_;
    d.code = "E123";
    d.message = std::move(message);
    d.help = std::move(help);
    throw InputError(std::move(d));
  }

  // Of the stages where it is.
  const std::vector<int64_t>& spread(size_t split) {
    const auto [it, fresh] = spreads_.try_emplace({at_[kPp], at_[kVpp], split});
    if (fresh) it->second = split_layers(model(), at_[kPp], at_[kVpp], space_.splits_[split]);
    return it->second;
  }

  const Transformer& model() const { return place_->scenario->model; }
  const Plan& plan() const { return place_->scenario->plan; }
  int64_t dp() const { return place_->gpus / (at_[kTp] * at_[kCp] * at_[kPp]); }
  int64_t microbatches() const { return place_->global_batch / (at_[kMicro] * dp()); }

  static constexpr int64_t kAsTp = -1;  // of etp: what tp is

  const SearchSpace& space_;
  const std::function<bool()>& stop_;
  Layouts out_;
  std::array<double, kIllegal.size()> counts_{};
  size_t looked_at_ = 0;
  bool any_only_ = false, found_ = false;
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t>, bool> runs_;  // schedule, pp, vpp, m

  // Of the place:
  size_t index_of_place_ = 0;
  const SearchPlace* place_ = nullptr;
  bool whole_sequences_ = false;  // a rank needs what stands before its part of the sequence
  std::map<std::tuple<int64_t, int64_t, size_t>, std::vector<int64_t>> spreads_;  // pp, vpp, split
  std::array<std::vector<int64_t>, kLevels> values_;  // of each level; or indices of its words
  std::array<double, kLevels> below_{};               // combinations of all levels below it
  // Where it is.
  std::array<size_t, kLevels> index_{};
  std::array<int64_t, kLevels> at_{};
};

SearchSpace::Layouts SearchSpace::layouts(const std::function<bool()>& stop) const {
  return Enumeration(*this, stop).all();
}

bool SearchSpace::any_layout(const std::function<bool()>& stop) const {
  return Enumeration(*this, stop).any();
}

std::vector<int64_t> SearchSpace::layers_of_stages(const Layout& l) const {
  return split_layers(places_[l.place].scenario->model, l.pp, l.vpp, l.split);
}

}  // namespace stepcast
