// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/unite.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "calibrate/table/cost_table.h"
#include "calibrate/table/table_text.h"
#include "calibrate/table/write_table.h"
#include "sim/check.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

[[noreturn]] void refuse(std::string message, std::string help) {
  Diagnostic d;
  d.code = "E310";
  d.message = std::move(message);
  d.help = std::move(help);
  throw InputError(std::move(d));
}

// What `# share:` lines of these families stand for, launches aside.
TableText rows_of(const TableText& from, const std::array<bool, kFamilies>& families) {
  TableText rows;
  rows.gpu = from.gpu;
  rows.sources = from.sources;
  const auto takes = [&](Family f) { return families[static_cast<size_t>(f)]; };
  const auto take_fits = [&](std::initializer_list<WorkKind> kinds) {
    for (const FitRow& r : from.fits)
      if (std::ranges::find(kinds, r.kind) != kinds.end()) rows.fits.push_back(r);
  };
  if (takes(Family::gemm)) {
    rows.gemms = from.gemms;
    rows.interference = from.interference;
    rows.interference_source = from.interference_source;
    rows.ratio_nn = from.ratio_nn;
    rows.ratio_nn_source = from.ratio_nn_source;
    rows.ratio_nt = from.ratio_nt;
    rows.ratio_nt_source = from.ratio_nt_source;
    rows.ratio_skinny = from.ratio_skinny;
    rows.ratio_skinny_source = from.ratio_skinny_source;
    take_fits({WorkKind::gemm});
  }
  if (takes(Family::attention)) {
    rows.attentions = from.attentions;
    take_fits({WorkKind::attention_forward, WorkKind::attention_backward});
  }
  if (takes(Family::memory)) {
    rows.memories = from.memories;
    take_fits({WorkKind::memory_bound});
  }
  if (takes(Family::collective)) rows.collectives = from.collectives;
  return rows;
}

class Union {
 public:
  Union(std::span<const TableText> inputs, const std::string& gpu)
      : inputs_(inputs.begin(), inputs.end()), dropped_(inputs.size() + 1, 0) {
    STEPCAST_CHECK(!inputs.empty(), "nothing to unite");
    for (const TableText& t : inputs) check_rows(t);
    take_gpu(gpu);
    take_texts();
    take_power();
    take_fabric();
    take_share();
    for (const TableText& t : inputs) take_sources(t, !t.gpu.empty() && t.gpu != out_.gpu);
    const size_t given = inputs_.size();
    take_over_shared();
    if (inputs_.size() > given) take_sources(inputs_.back(), true);
  }

  United result() {
    take_rows(&TableText::gemms);
    take_rows(&TableText::attentions);
    take_rows(&TableText::memories);
    take_rows(&TableText::copies);
    take_rows(&TableText::collectives);
    take_rows(&TableText::fits);
    take_number(&TableText::launch_us, &TableText::launch_source, &TableText::launch_spread);
    take_number(&TableText::graph_launch_us, &TableText::graph_launch_source,
                &TableText::graph_launch_spread);
    take_number(&TableText::interference, &TableText::interference_source);
    take_number(&TableText::ratio_nn, &TableText::ratio_nn_source);
    take_number(&TableText::ratio_nt, &TableText::ratio_nt_source);
    take_number(&TableText::ratio_skinny, &TableText::ratio_skinny_source);
    drop_shares();
    drop_unused_sources(out_);
    sort_rows(out_);
    dropped_.pop_back();
    return {std::move(out_), std::move(dropped_), std::move(remarks_)};
  }

 private:
  void take_gpu(const std::string& stated) {
    out_.gpu = stated.empty() ? inputs_[0].gpu : stated;
    if (out_.gpu.empty()) refuse("the tables do not say which GPU they are of", "name it");
    for (const TableText& t : inputs_) {
      if (stated.empty() && t.gpu != out_.gpu) {
        refuse("tables of different GPUs: '" + out_.gpu + "' and '" + t.gpu + "'",
               "name the GPU of the result if this is meant");
      }
      if (!t.gpu.empty() && t.gpu != out_.gpu)
        remarks_.push_back("what is of " + t.gpu + " counts as derived in a table of " + out_.gpu);
    }
  }

  void take_texts() {
    for (const TableText& t : inputs_) {
      if (out_.about.empty()) out_.about = t.about;
      if (!t.software.empty() && !contains_software(t.software))
        out_.software += (out_.software.empty() ? "" : "; ") + t.software;
      for (const std::string& c : t.conditions) {
        if (std::ranges::find(out_.conditions, c) == out_.conditions.end())
          out_.conditions.push_back(c);
      }
    }
  }

  // Prices count a limit of the GPU's power against the one that the table was measured with.
  void take_power() {
    const TableText* first = nullptr;
    for (const TableText& t : inputs_) {
      if (t.gemms.empty() && t.attentions.empty()) continue;
      if (first == nullptr) first = &t;
      if (t.power_watts != first->power_watts)
        remarks_.push_back(
            "products of other power limits stand beside each other; the first counts");
    }
    if (first != nullptr) out_.power_watts = first->power_watts;
  }

  // Whole, between semicolons.
  bool contains_software(const std::string& one) const {
    return ("; " + out_.software + "; ").find("; " + one + "; ") != std::string::npos;
  }

  // Lookups hold collectives to the NVLinks they were measured on: those of tables with some.
  void take_fabric() {
    const TableText* first = nullptr;
    for (const TableText& t : inputs_) {
      const bool has_some = !t.collectives.empty();
      if (first == nullptr || (first->collectives.empty() && has_some)) {
        if (has_some || t.nvlink_gbs > 0) first = &t;
      } else if (has_some && !same_fabric(t, *first)) {
        if (t.nvlink_gbs == 0 || first->nvlink_gbs == 0) {
          refuse("collectives of an NVLink that is not stated do not go with those of one that is",
                 "its table has to say nvlink_gbs");
        }
        refuse(
            "collectives measured over different NVLinks, or with and without in-network "
            "reduction, do not go into one table",
            "make one table of each");
      }
    }
    if (first == nullptr) return;
    out_.nvlink_gbs = first->nvlink_gbs;
    out_.in_network_reduction = first->in_network_reduction;
  }

  static bool same_fabric(const TableText& a, const TableText& b) {
    return a.nvlink_gbs == b.nvlink_gbs && a.in_network_reduction == b.in_network_reduction;
  }

  void take_share() {
    for (const TableText& t : inputs_) {
      if (t.share_from.empty()) continue;
      if (out_.share_from.empty()) out_.share_from = t.share_from;
      if (t.share_from != out_.share_from) {
        refuse("families shared from different tables: '" + out_.share_from + "' and '" +
                   t.share_from + "'",
               "a table shares from one other");
      }
      for (size_t i = 0; i < kFamilies; ++i) out_.shared[i] = out_.shared[i] || t.shared[i];
    }
  }

  bool has_rows(Family f) const {
    return std::ranges::any_of(inputs_, [&](const TableText& t) {
      switch (f) {
        case Family::gemm: return !t.gemms.empty();
        case Family::attention: return !t.attentions.empty();
        case Family::memory: return !t.memories.empty();
        case Family::collective: return !t.collectives.empty();
        case Family::launch: return false;  // answers for what the table has none of
      }
      return false;
    });
  }

  // One more input: the rows of families that are shared though there are some.
  void take_over_shared() {
    std::array<bool, kFamilies> both{};
    for (size_t i = 0; i < kFamilies; ++i)
      both[i] = out_.shared[i] && has_rows(static_cast<Family>(i));
    if (std::ranges::count(both, true) == 0) return;
    const std::string_view text = shipped_table_text(out_.share_from);
    if (text.empty()) {
      refuse(
          "there is no shipped table of '" + out_.share_from + "', which families are shared from",
          "without '# share:' a table has its own rows alone");
    }
    const TableText from = parse_table_text(text, out_.share_from);
    bool& collectives = both[static_cast<size_t>(Family::collective)];
    if (collectives && !same_fabric(from, out_)) {
      collectives = false;
      remarks_.push_back(fmt::format("{} collectives of {}", from.collectives.size(), from.gpu) +
                         " were shared; measured over another NVLink, they are left out");
    }
    std::string names;
    for (size_t i = 0; i < kFamilies; ++i) {
      if (both[i])
        names += (names.empty() ? "" : ", ") + std::string(name_of(static_cast<Family>(i)));
    }
    if (names.empty()) return;
    remarks_.push_back("shared from " + from.gpu + ", now derived rows of this table: " + names);
    inputs_.push_back(rows_of(from, both));
  }

  void drop_shares() {
    for (size_t i = 0; i < kFamilies; ++i)
      out_.shared[i] = out_.shared[i] && !has_rows(static_cast<Family>(i));
    if (std::ranges::count(out_.shared, true) == 0) out_.share_from.clear();
  }

  void take_sources(const TableText& t, bool of_another_gpu) {
    std::vector<uint16_t>& places = source_of_.emplace_back();
    for (const TableSource& s : t.sources) {
      TableSource wanted = s;
      if (of_another_gpu) {
        wanted.derived = true;
        wanted.text = "of " + t.gpu + ": " + s.text;
      }
      auto known = by_key(s.key);
      for (int suffix = 2; known != out_.sources.end() && *known != wanted; ++suffix) {
        wanted.key = fmt::format("{}-{}", s.key, suffix);
        known = by_key(wanted.key);
      }
      if (known == out_.sources.end()) {
        if (out_.sources.size() > UINT16_MAX) refuse("too many sources", "at most 65536");
        known = out_.sources.insert(known, std::move(wanted));
      }
      places.push_back(static_cast<uint16_t>(known - out_.sources.begin()));
    }
  }

  std::vector<TableSource>::iterator by_key(const std::string& key) {
    return std::ranges::find(out_.sources, key, &TableSource::key);
  }

  bool derived(uint16_t source) const { return out_.sources[source].derived; }

  // Whether the second of two answers to one question is the better one.
  bool better(uint16_t source, uint16_t than) const { return !derived(source) && derived(than); }

  // Whether fit_table made this fit: it holds for the rows of its input only.  Any other fit is a
  // row like the rest.
  template <class Row>
  static bool is_fitted(const Row& r, const TableText& input) {
    return std::is_same_v<Row, FitRow> && input.sources[r.source].key == kFitSource;
  }

  template <class Row>
  void take_rows(std::vector<Row> TableText::*family) {
    struct Place {
      size_t row, input;
    };
    std::vector<Row>& rows = out_.*family;
    std::map<decltype(shape(rows[0])), Place> seen;
    for (size_t input = 0; input < inputs_.size(); ++input) {
      for (Row r : inputs_[input].*family) {
        if (is_fitted(r, inputs_[input])) continue;
        r.source = source_of_[input][r.source];
        const auto [at, is_new] = seen.try_emplace(shape(r), Place{rows.size(), input});
        if (is_new) {
          rows.push_back(r);
          continue;
        }
        Place& place = at->second;
        if (better(r.source, rows[place.row].source)) {
          rows[place.row] = r;
          ++dropped_[std::exchange(place.input, input)];
        } else {
          ++dropped_[input];
        }
      }
    }
  }

  template <class Value>
  void take_number(Value TableText::*value, uint16_t TableText::*source,
                   double TableText::*spread = nullptr) {
    std::optional<size_t> owner;
    for (size_t input = 0; input < inputs_.size(); ++input) {
      const TableText& t = inputs_[input];
      if (!(t.*value) || t.sources[t.*source].key == kFitSource) continue;
      const uint16_t from = source_of_[input][t.*source];
      if (owner && !better(from, out_.*source)) {
        ++dropped_[input];
        continue;
      }
      if (owner) ++dropped_[*owner];
      owner = input;
      out_.*value = t.*value;
      out_.*source = from;
      if (spread != nullptr) out_.*spread = t.*spread;
    }
  }

  std::vector<TableText> inputs_;  // and, at the end, what is taken over
  std::vector<size_t> dropped_;
  std::vector<std::string> remarks_;
  std::vector<std::vector<uint16_t>> source_of_;  // by input and its source: the result's
  TableText out_;
};

}  // namespace

United unite(std::span<const TableText> inputs, const std::string& gpu) {
  return Union(inputs, gpu).result();
}

}  // namespace stepcast
