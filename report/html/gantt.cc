// SPDX-License-Identifier: Apache-2.0
#include "report/html/gantt.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "report/format.h"
#include "report/html/markup.h"
#include "report/text/roles.h"

namespace stepcast {
namespace {

constexpr int64_t kLabelWidth = 110, kWidth = 1000, kRow = 18, kBar = 13, kTenths = 10;

// What a pass is drawn as: its action, or that it has none.
size_t kind_of(const Item& item) {
  return item.has_action ? static_cast<size_t>(item.action.kind)
                         : static_cast<size_t>(kActionKinds);
}

std::string class_of(size_t kind) {
  if (kind == static_cast<size_t>(kActionKinds)) return "a-U";
  return std::string("a-") + letter_of(static_cast<ActionKind>(kind));
}

// Stretches of one kind, in tenths of a pixel; those that touch or nearly do are one.
struct Stretches {
  std::string path;
  int64_t begin = -1, end = -1;

  void add(int64_t from, int64_t until, int64_t y) {
    until = std::max(until, from + 2);
    if (begin >= 0 && from <= end + 4) {
      end = std::max(end, until);
      return;
    }
    flush(y);
    begin = from;
    end = until;
  }
  void flush(int64_t y) {
    if (begin >= 0)
      path += fmt::format("M{} {}h{}v{}h-{}z", decimal(begin), y, decimal(end - begin), kBar,
                          decimal(end - begin));
    begin = -1;
  }
  static std::string decimal(int64_t tenths) {
    return tenths % 10 == 0 ? std::to_string(tenths / 10)
                            : fmt::format("{}.{}", tenths / 10, tenths % 10);
  }
};

std::string lane(const RoleOps& role, const RoleTimeline& times, Time whole, int64_t y) {
  std::array<Stretches, kActionKinds + 1> kinds;
  const auto place = [&](Time t) {
    return kLabelWidth * kTenths +
           static_cast<int64_t>(share_of(t, whole) * static_cast<double>(kWidth * kTenths) + 0.5);
  };
  const size_t items = std::min(role.items.size(), times.items.size());
  for (size_t i = 0; i < items; ++i) {
    const Item& item = role.items[i];
    const ItemTime& t = times.items[i];
    if (item.kind != ItemKind::pass || t.begin >= t.end) continue;
    kinds[kind_of(item)].add(place(t.begin), place(t.end), y);
  }
  std::string s;
  for (size_t k = 0; k < kinds.size(); ++k) {
    kinds[k].flush(y);
    if (!kinds[k].path.empty())
      s += "<path class=\"" + class_of(k) + "\" d=\"" + kinds[k].path + "\"/>";
  }
  return s;
}

}  // namespace

std::string gantt_svg(const Result& r, size_t most_ranks, Time whole) {
  if (!r.graph || r.timeline.makespan.count() <= 0) return {};
  const size_t roles = std::min(r.graph->roles.size(), r.timeline.roles.size());
  const size_t shown = std::min(roles, most_ranks);
  if (shown == 0) return {};
  whole = std::max(whole, r.timeline.makespan);
  std::string body;
  for (size_t i = 0; i < shown; ++i) {
    const size_t role = shown == roles || shown == 1 ? i : i * (roles - 1) / (shown - 1);
    const int64_t y = static_cast<int64_t>(i) * kRow + 4;
    body += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kLabelWidth - 8,
                        y + 10, html_text(role_name(r, static_cast<uint32_t>(role))));
    body += lane(r.graph->roles[role], r.timeline.roles[role], whole, y) + '\n';
  }
  const int64_t bottom = static_cast<int64_t>(shown) * kRow + 4;
  for (int i = 0; i <= 5; ++i) {
    const int64_t x = kLabelWidth + i * kWidth / 5;
    body += fmt::format(
        "<path class=\"tick\" d=\"M{0} 2V{1}\"/><text x=\"{0}\" y=\"{2}\" text-anchor=\"{3}\">{4}"
        "</text>",
        x, bottom, bottom + 14,
        i == 5   ? "end"
        : i == 0 ? "start"
                 : "middle",
        html_text(format_time(whole * i / 5)));
  }
  return fmt::format(
             "<svg class=\"gantt\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Timeline of {} "
             "pipeline ranks\">\n",
             kLabelWidth + kWidth + 4, bottom + 20, shown) +
         body + "</svg>\n";
}

}  // namespace stepcast
