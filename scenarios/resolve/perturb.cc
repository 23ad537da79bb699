// SPDX-License-Identifier: Apache-2.0
// `perturb`: GPUs and links that are slower than the others.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/document/number.h"
#include "scenarios/schema/tree.h"
#include "sim/text.h"

namespace stepcast {

namespace {

using Place = Perturbation::Place;
using Links = Perturbation::Links;

constexpr size_t kMostPerturbations = 1000;
constexpr Time kMostLatencies = std::chrono::seconds(2);
constexpr double kLeastFactor = 0.001, kMostSpeed = 1000;
constexpr const char* kPlaces =
    "all, rank 12, ranks 8-15, gpu 12, node 3, stage 2; with links: node 3 nic 1, node 3 nvlink";

struct PlaceWord {
  std::string_view one, many;
  Place place;
};
constexpr std::array<PlaceWord, 4> kWords{{{"rank", "ranks", Place::ranks},
                                           {"gpu", "gpus", Place::gpus},
                                           {"node", "nodes", Place::nodes},
                                           {"stage", "stages", Place::stages}}};

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    if (space != 0) words.push_back(text.substr(0, space));
    text = space == std::string_view::npos ? std::string_view{} : text.substr(space + 1);
  }
  return words;
}

// One item of the list while it is read.
class PerturbItem {
 public:
  PerturbItem(const PlanInputs& in, const FieldValues& values) : in_(in), v_(values) {}

  // False if the place cannot be made out.
  bool read_place(Perturbation& p);
  void read_compute(Perturbation& p);
  void read_links(Perturbation& p);
  void read_window(Perturbation& p);
  void check_place(const Perturbation& p, const Plan& plan);

  bool given(Key key) const { return v_.value(key) != nullptr; }
  void add(const char* code, std::string message, Key key, std::string help = {}) {
    v_.refuse(code, key, std::move(message), std::move(help));
  }

 private:
  bool refuse_place(std::string why) {
    add("E125", std::move(why), "perturb[].where", fmt::format("places are: {}", kPlaces));
    return false;
  }
  bool read_range(std::string_view text, Perturbation& p);
  bool read_links_of_place(std::span<const std::string_view> words, Perturbation& p);
  // A factor of this name between the limits; nothing if it is not given or wrong.
  std::optional<double> factor(KeyOf<double> key, std::string_view name, double least, double most);

  const PlanInputs& in_;
  const FieldValues& v_;
};

bool PerturbItem::read_range(std::string_view text, Perturbation& p) {
  const std::optional<IndexRange> range = parse_range(text);
  if (!range)
    return refuse_place('\'' + std::string(text) + "' is no number and no range such as 8-15");
  if (range->last < range->first)
    return refuse_place("the range " + std::string(text) + " ends before it begins");
  p.first = range->first;
  p.last = range->last;
  return true;
}

// What follows the place: "nic 3", "nvlink".
bool PerturbItem::read_links_of_place(std::span<const std::string_view> words, Perturbation& p) {
  if (words.empty()) return true;
  if (words[0] == "nvlink" && words.size() == 1) {
    p.links = Links::nvlink;
    return true;
  }
  if (words[0] != "nic") return refuse_place("'" + std::string(words[0]) + "' is not known here");
  const std::optional<int64_t> nic = words.size() == 2 ? parse_index(words[1]) : std::nullopt;
  if (!nic) return refuse_place("'nic' needs the number of one NIC of the node");
  if (p.place != Place::nodes) return refuse_place("only a node has numbered NICs");
  p.links = Links::nic;
  p.nic = *nic;
  return true;
}

bool PerturbItem::read_place(Perturbation& p) {
  const std::string text = v_.text("perturb[].where");
  const std::vector<std::string_view> words = words_of(text);
  if (words.empty()) return refuse_place("'where' is empty");
  const std::span<const std::string_view> all(words);
  if (words[0] == "all") return read_links_of_place(all.subspan(1), p);
  std::vector<std::string_view> known{"all"};
  for (const PlaceWord& w : kWords) {
    known.push_back(w.one);
    if (words[0] != w.one && words[0] != w.many) continue;
    p.place = w.place;
    if (words.size() < 2) return refuse_place('\'' + text + "' needs a number");
    return read_range(words[1], p) && read_links_of_place(all.subspan(2), p);
  }
  const std::string near = did_you_mean(words[0], known);
  return refuse_place("there is no place '" + text + '\'' + (near.empty() ? "" : "; " + near));
}

std::optional<double> PerturbItem::factor(KeyOf<double> key, std::string_view name, double least,
                                          double most) {
  if (!given(key) || !v_.has(key)) return {};
  const double x = v_.real(key);
  if (x <= 0) {
    add("E121", fmt::format("'{}' must be above 0", name), key);
  } else if (x < least) {
    add("E123", fmt::format("'{}' is below 0.001, less than anything that still works", name), key);
  } else if (x > most) {
    add("E123", fmt::format("'{}' is above {}", name, most), key);
  } else {
    return x;
  }
  return {};
}

void PerturbItem::read_compute(Perturbation& p) {
  if (given("perturb[].compute.factor")) {
    p.speed = factor("perturb[].compute.factor", "compute", kLeastFactor, kMostSpeed).value_or(1);
    if (given("perturb[].compute.lognormal"))
      add("E127", "'factor' and 'lognormal' are two perturbations", "perturb[].compute.lognormal",
          "write an item of the list for each");
  } else if (given("perturb[].compute.lognormal")) {
    if (!given("perturb[].compute.lognormal.sigma")) {
      add("E126", "'sigma' is missing", "perturb[].compute.lognormal",
          "compute: {lognormal: {sigma: 0.02}}");
      return;
    }
    v_.read("perturb[].compute.lognormal.sigma", p.sigma);
    if (p.sigma > 1) {
      add("E123", "'sigma' is above 1: no kernel varies that much",
          "perturb[].compute.lognormal.sigma");
      p.sigma = 0;
    }
    v_.read("perturb[].compute.lognormal.per", p.each_op);
    if (p.each_op && p.place != Place::all)
      add("E127", "times of ops are drawn for all ranks together", "perturb[].where",
          "where: all, or {lognormal: {sigma: ..., per: rank}}");
  } else if (v_.value("perturb[].compute")->is_mapping()) {
    add("E126", "'compute' is empty", "perturb[].compute",
        "compute: 0.8, or {lognormal: {sigma: 0.02}}");
  }
  if (p.links != Links::nics)
    add("E127", "links do not compute", "perturb[].compute", "an item of its own slows the GPUs");
}

void PerturbItem::read_links(Perturbation& p) {
  p.bandwidth = factor("perturb[].bw", "bw", kLeastFactor, 1).value_or(1);
  v_.read("perturb[].latency", p.latency);
}

void PerturbItem::read_window(Perturbation& p) {
  v_.read("perturb[].from", p.from);
  v_.read("perturb[].until", p.until);
  if (p.until <= p.from)
    add("E127", "'until' is not after 'from'",
        given("perturb[].until") ? Key("perturb[].until") : Key("perturb[].from"));
  if (p.sigma > 0 && p.each_op && !p.always())
    add("E127", "times of ops are drawn for the whole step",
        given("perturb[].until") ? Key("perturb[].until") : Key("perturb[].from"),
        "leave from and until out");
}

void PerturbItem::check_place(const Perturbation& p, const Plan& plan) {
  const Cluster& cluster = *in_.cluster;
  const auto check = [&](int64_t count, const std::string& what, const std::string& whose) {
    if (p.last < count) return;
    const int64_t wrong = p.first < count ? p.last : p.first;
    add("E240",
        fmt::format("there is no {} {}: {} has {}{}", what, wrong, whose, count,
                    count == 1 ? "" : fmt::format(", 0 to {}", count - 1)),
        "perturb[].where", fmt::format("the nearest is {} {}", what, count - 1));
  };
  switch (p.place) {
    case Place::all: break;
    case Place::ranks: check(plan.grid.world(), "rank", "the job"); break;
    case Place::gpus: check(cluster.gpus(), "gpu", "the cluster"); break;
    case Place::nodes: check(cluster.nodes, "node", "the cluster"); break;
    case Place::stages: check(plan.pp, "stage", "the pipeline"); break;
  }
  if (p.links == Links::nic && p.nic >= cluster.node.nics)
    add("E240",
        fmt::format("there is no nic {}: a node has {}{}", p.nic, cluster.node.nics,
                    cluster.node.nics == 1 ? "" : fmt::format(", 0 to {}", cluster.node.nics - 1)),
        "perturb[].where", fmt::format("the nearest is nic {}", cluster.node.nics - 1));
}

// Sections inside a list are not written out with the others.
Value with_sections(Value item) {
  if (Value* compute = item.find("compute"); compute != nullptr)
    expand_shorthand(*compute, *find_field("perturb[].compute"));
  return item;
}

}  // namespace

std::vector<Perturbation> resolve_perturb(const PlanInputs& in, const Plan& plan, bool complete) {
  std::vector<Perturbation> all;
  const Value* list = in.values.value("perturb");
  if (list == nullptr) return all;
  if (list->kind != Value::Kind::sequence || list->items.size() > kMostPerturbations) {
    in.problems.add("E107", "'perturb' must be a list of at most 1000 items", list->mark, 1, {},
                    "perturb: [{where: rank 3, compute: 0.8}]");
    return all;
  }
  bool drawn = false;
  Time latencies{};
  for (const Value& written : list->items) {
    const FieldValues v(with_sections(written), "perturb[]", in.problems);
    if (!written.is_mapping()) continue;
    PerturbItem item(in, v);
    Perturbation p;
    if (!item.given("perturb[].where")) {
      in.problems.add("E126", "'where' is missing", written.mark, 1, {},
                      fmt::format("places are: {}", kPlaces));
      continue;
    }
    if (!v.has("perturb[].where") || !item.read_place(p)) continue;
    if (item.given("perturb[].compute")) item.read_compute(p);
    item.read_links(p);
    item.read_window(p);
    // The limit holds for all items together, whomever they concern, so that the times of a rank
    // stay far below what can be counted.
    latencies += p.latency;
    if (latencies > kMostLatencies && latencies - p.latency <= kMostLatencies)
      item.add("E123", "the latencies of the list are above 2 s together", "perturb[].latency");
    if (!item.given("perturb[].compute") && !item.given("perturb[].bw") &&
        !item.given("perturb[].latency"))
      item.add("E126", "nothing is slower here", "perturb[].where", "state compute, bw or latency");
    if (drawn && p.sigma > 0 && p.each_op)
      item.add("E127", "times of ops are drawn twice", "perturb[].compute.lognormal",
               "one of them is enough");
    drawn = drawn || (p.sigma > 0 && p.each_op);
    if (complete && in.cluster != nullptr) item.check_place(p, plan);
    all.push_back(p);
  }
  return all;
}

}  // namespace stepcast
