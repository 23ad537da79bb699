// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/table_diff.h"

#include <algorithm>
#include <map>
#include <utility>

#include "calibrate/table/write_table.h"

namespace stepcast {
namespace {

double factor(double ratio) {
  return std::max(ratio, 1 / ratio);
}

struct Compared {
  FamilyDifference counts;
  std::vector<double> ratios;
};

class Comparison {
 public:
  void compare(const std::vector<NamedTime>& before, const std::vector<NamedTime>& after) {
    std::map<std::string_view, double> values;
    for (const NamedTime& b : before) values.emplace(b.row, b.value);
    for (const NamedTime& a : after) {
      Compared& family = of(a.family);
      const auto found = values.find(a.row);
      if (found == values.end()) {
        ++family.counts.only_after;
        out_.only_after.push_back(a.row);
        continue;
      }
      const double ratio = a.value / found->second;
      ++family.counts.both;
      family.ratios.push_back(ratio);
      if (a.value != found->second) {
        ++family.counts.changed;
        out_.changed.push_back({a.row, found->second, a.value, ratio});
      }
      values.erase(found);
    }
    for (const NamedTime& b : before) {
      if (!values.contains(b.row)) continue;
      ++of(b.family).counts.only_before;
      out_.only_before.push_back(b.row);
    }
  }

  TableDifference result() {
    std::ranges::stable_sort(out_.changed, std::ranges::greater(),
                             [](const RowDifference& r) { return factor(r.ratio); });
    for (Compared& c : families_) {
      if (!c.ratios.empty()) {
        std::ranges::sort(c.ratios);
        c.counts.median_ratio = c.ratios[c.ratios.size() / 2];
        std::ranges::sort(c.ratios, {}, factor);
        c.counts.p90_factor = factor(c.ratios[c.ratios.size() * 9 / 10]);
      }
      out_.families.push_back(c.counts);
    }
    return std::move(out_);
  }

 private:
  Compared& of(std::string_view family) {
    const auto found = std::ranges::find_if(
        families_, [&](const Compared& c) { return c.counts.family == family; });
    if (found != families_.end()) return *found;
    families_.push_back({});
    families_.back().counts.family = family;
    return families_.back();
  }

  std::vector<Compared> families_;
  TableDifference out_;
};

}  // namespace

TableDifference difference(const TableText& before, const TableText& after) {
  Comparison comparison;
  comparison.compare(named_times(before), named_times(after));
  return comparison.result();
}

}  // namespace stepcast
