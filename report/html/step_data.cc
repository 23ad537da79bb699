// SPDX-License-Identifier: Apache-2.0
#include "report/html/step_data.h"

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "report/html/varints.h"
#include "report/json/writer.h"
#include "report/text/roles.h"
#include "sim/check.h"
#include "sim/graph/spend.h"
#include "sim/text.h"

namespace stepcast {
namespace {

Time price_of(const Result& r, WorkId work) {
  return r.prices->by_work[static_cast<size_t>(work)].time;
}

void write_works(JsonWriter& json, const Result& r) {
  size_t i = 0;
  json.objects("works", r.graph->works, [&](const Work& work) {
    const Price& price = r.prices->by_work[i++];
    json.member("what", escape_text(describe(work)));
    json.member("ps", int64_t{price.time.count()});
    json.member("origin", static_cast<int>(price.origin));
    json.member("basis", escape_text(price.basis));
    json.member("axis", is_communication(work.kind) ? name_of(work.axis) : "");
    json.member("sends", work.kind == WorkKind::send_recv ? 1 : 0);
  });
}

// Memory keys: what is told apart of what is alive, by category and label.
class MemoryKeys {
 public:
  int64_t of(MemoryCategory category, LabelId label) {
    const auto [at, fresh] = ids_.try_emplace({category, label}, static_cast<int64_t>(ids_.size()));
    if (fresh) keys_.emplace_back(category, label);
    return at->second;
  }
  const std::vector<std::pair<MemoryCategory, LabelId>>& all() const { return keys_; }

 private:
  std::map<std::pair<MemoryCategory, LabelId>, int64_t> ids_;
  std::vector<std::pair<MemoryCategory, LabelId>> keys_;
};

void write_passes(JsonWriter& json, const OpGraph& graph, MemoryKeys& keys) {
  json.objects("passes", graph.passes, [&](const Pass& pass) {
    json.member("name", escape_text(pass.name));
    // Flat rows: of an op its work, stream, phase, label, layer + 1 and item of the account.
    json.key("ops");
    json.begin_array();
    for (const Op& op : pass.ops) {
      json.value(static_cast<int64_t>(op.work));
      json.value(static_cast<int>(op.stream));
      json.value(static_cast<int>(op.phase));
      json.value(static_cast<int>(op.label));
      json.value(op.layer + 1);
      json.value(static_cast<int>(spend_of(graph.works[static_cast<size_t>(op.work)], op.phase)));
    }
    json.end_array();
    // Of an event its op, key, bytes (negative: freed).
    json.key("memory");
    json.begin_array();
    for (const MemoryEvent& e : pass.memory) {
      const Tensor& t = graph.tensor(pass, e);
      if (t.bytes.value == 0) continue;
      json.value(int64_t{e.op});
      json.value(keys.of(t.category, t.label));
      json.value(e.allocate ? t.bytes.value : -t.bytes.value);
    }
    json.end_array();
  });
}

struct Shown {
  const Timeline* times = nullptr;
  std::vector<std::pair<uint32_t, std::string>> ranks;  // role, name
};

std::vector<Shown> shown_lanes(const Result& r) {
  std::vector<Shown> lanes;
  for (const TracedLane& lane : r.traced) {
    Shown& shown = lanes.emplace_back(Shown{&lane.timeline, {}});
    for (size_t i = 0; i < lane.roles.size(); ++i)
      shown.ranks.emplace_back(lane.roles[i], lane.names[i]);
  }
  if (lanes.empty()) {
    Shown& shown = lanes.emplace_back(Shown{&r.timeline, {}});
    for (uint32_t role = 0; role < r.graph->roles.size(); ++role)
      shown.ranks.emplace_back(role, role_name(r, role));
  }
  return lanes;
}

// Whether the rank that is drawn of each role stands for all of them.
bool ranks_are_equal(const Result& r) {
  if (r.traced.size() > 1) return false;
  if (!r.disturbance) return true;
  const Disturbance& d = *r.disturbance;
  return d.slow_ranks == 0 && d.fast_ranks == 0 && d.slow_links == 0 && !d.jitter &&
         !d.shared_links;
}

template <class Names>
void write_names(JsonWriter& json, std::string_view key, int count, Names name) {
  json.key(key);
  json.begin_array();
  for (int i = 0; i < count; ++i) json.value(name(i));
  json.end_array();
}

std::string step_header(const Result& r, const std::vector<Shown>& lanes) {
  const OpGraph& graph = *r.graph;
  JsonWriter json(0);
  MemoryKeys keys;
  json.begin_object();
  json.member("makespan", int64_t{r.timeline.makespan.count()});
  json.member("usable", r.memory_usable.value);
  json.member("folded", ranks_are_equal(r));
  json.member("critical", r.account.critical_role);
  json.member("fullest", r.reserved_role);
  json.key("labels");
  json.begin_array();
  for (const std::string& label : graph.labels) json.value(escape_text(label));
  json.end_array();
  write_names(json, "spends", kSpends, [](int i) { return name_of(static_cast<Spend>(i)); });
  write_names(json, "spend_titles", kSpends, [](int i) { return title_of(static_cast<Spend>(i)); });
  write_names(json, "streams", kStreams, [](int i) { return name_of(static_cast<Stream>(i)); });
  write_names(json, "phases", 6, [](int i) { return name_of(static_cast<Phase>(i)); });
  write_names(json, "origins", kOrigins, [](int i) { return name_of(static_cast<Origin>(i)); });
  write_names(json, "categories", kMemoryCategories,
              [](int i) { return name_of(static_cast<MemoryCategory>(i)); });
  write_names(json, "kinds", kActionKinds,
              [](int i) { return std::string(1, letter_of(static_cast<ActionKind>(i))); });
  write_works(json, r);
  write_passes(json, graph, keys);
  json.key("memory_keys");  // category, label
  json.begin_array();
  for (const auto& [category, label] : keys.all()) {
    json.value(static_cast<int>(category));
    json.value(static_cast<int>(label));
  }
  json.end_array();
  uint32_t number = 0;
  json.objects("roles", graph.roles, [&](const RoleOps& role) {
    json.member("name", role_name(r, number));
    json.member("ranks", role.ranks);
    json.key("memory");  // category, bytes
    json.begin_array();
    for (const StaticMemory& m : role.memory) {
      json.value(static_cast<int>(m.category));
      json.value(m.bytes.value);
    }
    json.end_array();
    const bool known = number < r.memory.size();
    json.member("peak", known ? r.memory[number].memory.peak.value : 0);
    json.member("reserved", known ? r.memory[number].reserved.value : 0);
    ++number;
  });
  json.objects("lanes", lanes, [&](const Shown& lane) {
    json.objects("ranks", lane.ranks, [&](const auto& rank) {
      json.member("role", rank.first);
      json.member("name", escape_text(rank.second));
    });
  });
  json.member("rendezvous", static_cast<int64_t>(graph.rendezvous.size()));
  json.objects("path", r.critical_path, [&](const PathSegment& segment) {
    json.member("transfer", segment.kind == PathSegment::Kind::rendezvous ? 1 : 0);
    json.member("role", segment.role);
    json.member("id", static_cast<int64_t>(segment.rendezvous));
    json.member("begin", int64_t{segment.begin.count()});
    json.member("end", int64_t{segment.end.count()});
  });
  json.end_object();
  return json.text();
}

void add_action(Varints& out, const Action& action, int64_t& last_microbatch) {
  out.add(static_cast<uint64_t>(action.kind));
  out.add(action.stage);
  out.add_signed(int64_t{action.microbatch} - last_microbatch);
  last_microbatch = action.microbatch;
}

void add_programs(Varints& out, const OpGraph& graph) {
  for (const RoleOps& role : graph.roles) {
    uint64_t passes = 0;
    for (const Item& item : role.items) passes += item.kind == ItemKind::pass ? 1 : 0;
    out.add(passes);
    int64_t first = 0, second = 0;
    for (const Item& item : role.items) {
      if (item.kind != ItemKind::pass) continue;
      out.add(static_cast<uint64_t>(item.pass));
      out.add((item.has_action ? 1U : 0U) | (item.has_second ? 2U : 0U));
      if (item.has_action) add_action(out, item.action, first);
      if (item.has_second) add_action(out, item.second, second);
    }
  }
}

// Which roles a rendezvous is drawn on: of a transfer its sender and its receiver, of others who
// posts.
void add_rendezvous(Varints& out, const OpGraph& graph) {
  std::vector<std::vector<uint32_t>> drawn(graph.rendezvous.size());
  std::map<uint32_t, uint32_t> role_of;  // pipeline rank -> role
  for (uint32_t role = 0; role < graph.roles.size(); ++role) {
    role_of.try_emplace(graph.roles[role].pipeline_rank, role);
    for (const Item& item : graph.roles[role].items)
      if (item.kind == ItemKind::post) drawn[static_cast<size_t>(item.rendezvous)].push_back(role);
  }
  for (size_t i = 0; i < graph.rendezvous.size(); ++i) {
    const Rendezvous& rendezvous = graph.rendezvous[i];
    const Work& work = graph.works[static_cast<size_t>(rendezvous.work)];
    const auto from = role_of.find(work.from), to = role_of.find(work.to);
    if (work.kind == WorkKind::send_recv && from != role_of.end() && to != role_of.end())
      drawn[i] = {from->second, to->second};
    out.add(static_cast<uint64_t>(rendezvous.work));
    out.add(static_cast<uint64_t>(rendezvous.label));
    out.add(drawn[i].size());
    for (const uint32_t role : drawn[i]) out.add(role);
  }
}

// The times of a pass the last time that it ran.
struct LastRun {
  std::vector<int64_t> begin, duration;
};

class TimesWriter {
 public:
  TimesWriter(const Result& result, std::string& bytes) : result_(result), out_(bytes) {
    for (const Pass& pass : result.graph->passes) {
      LastRun& last = last_.emplace_back();
      last.begin.assign(pass.ops.size(), 0);
      for (const Op& op : pass.ops) last.duration.push_back(price_of(result, op.work).count());
    }
  }

  void add_rendezvous_times(const Timeline& times) {
    const OpGraph& graph = *result_.graph;
    STEPCAST_CHECK(times.rendezvous.size() == graph.rendezvous.size(), "a time for each");
    int64_t last = 0;
    for (size_t i = 0; i < graph.rendezvous.size(); ++i) {
      const RendezvousTime& t = times.rendezvous[i];
      out_.add_signed(t.begin.count() - last);
      out_.add_signed((t.end - t.begin - price_of(result_, graph.rendezvous[i].work)).count());
      last = t.begin.count();
    }
  }

  void add_rank(const RoleOps& role, const RoleTimeline& times) {
    size_t at = 0;
    int64_t last = 0;
    for_each_pass(role, [&](const Pass& pass, LastRun&) {
      const int64_t begin = pass.ops.empty() ? last : times.op_start[at].count();
      out_.add_signed(begin - last);
      last = begin;
      at += pass.ops.size();
    });
    STEPCAST_CHECK(at == times.op_start.size(), "as many starts as ops");
    at = 0;
    for_each_pass(role, [&](const Pass& pass, LastRun& run) {
      for (size_t i = 0; i < pass.ops.size(); ++i) {
        const int64_t begin = (times.op_start[at + i] - times.op_start[at]).count();
        out_.add_signed(begin - std::exchange(run.begin[i], begin));
      }
      at += pass.ops.size();
    });
    at = 0;
    for_each_pass(role, [&](const Pass& pass, LastRun& run) {
      for (size_t i = 0; i < pass.ops.size(); ++i, ++at) {
        const int64_t duration = times.op_end.empty()
                                     ? price_of(result_, pass.ops[i].work).count()
                                     : (times.op_end[at] - times.op_start[at]).count();
        out_.add_signed(duration - std::exchange(run.duration[i], duration));
      }
    });
  }

 private:
  template <class Visit>
  void for_each_pass(const RoleOps& role, Visit visit) {
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass)
        visit(result_.graph->passes[static_cast<size_t>(item.pass)],
              last_[static_cast<size_t>(item.pass)]);
  }

  const Result& result_;
  Varints out_;
  std::vector<LastRun> last_;
};

}  // namespace

std::string step_data(const Result& r) {
  STEPCAST_CHECK(r.graph && r.prices, "a page is read out of graph and prices");
  const std::vector<Shown> lanes = shown_lanes(r);
  const std::string header = step_header(r, lanes);
  std::string bytes;
  Varints out(bytes);
  out.add(header.size());
  bytes += header;
  add_programs(out, *r.graph);
  add_rendezvous(out, *r.graph);
  TimesWriter times(r, bytes);
  for (const Shown& lane : lanes) {
    times.add_rendezvous_times(*lane.times);
    for (const auto& [role, name] : lane.ranks)
      times.add_rank(r.graph->roles[role], lane.times->roles[role]);
  }
  return bytes;
}

}  // namespace stepcast
