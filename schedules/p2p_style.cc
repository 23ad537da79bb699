// SPDX-License-Identifier: Apache-2.0
#include "schedules/p2p_style.h"

#include "schedules/schedule.h"

namespace stepcast {
namespace {

constexpr std::array<std::string_view, kP2pStyles> kNames = {
    "async", "megatron", "megatron-overlap", "megatron-overlap-flush", "dualpipe", "deepspeed"};

}  // namespace

std::string_view name_of(P2pStyle style) {
  return kNames[static_cast<size_t>(style)];
}

std::optional<P2pStyle> p2p_style_named(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == name) return static_cast<P2pStyle>(i);
  return std::nullopt;
}

P2pStyle default_p2p_style(std::string_view family) {
  const ScheduleFamily* found = find_schedule_family(family);
  return found != nullptr && found->name == family ? found->p2p : P2pStyle::async;
}

}  // namespace stepcast
