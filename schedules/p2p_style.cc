// SPDX-License-Identifier: Apache-2.0
#include "schedules/p2p_style.h"

#include <algorithm>

namespace stepcast {
namespace {

constexpr std::array<std::string_view, kP2pStyles> kNames = {
    "async", "megatron", "megatron-overlap", "megatron-overlap-flush", "dualpipe", "deepspeed"};

}  // namespace

std::string_view name_of(P2pStyle style) {
  return kNames[static_cast<size_t>(style)];
}

std::optional<P2pStyle> p2p_style_named(std::string_view name) {
  const auto it = std::find(kNames.begin(), kNames.end(), name);
  if (it == kNames.end()) return {};
  return static_cast<P2pStyle>(it - kNames.begin());
}

}  // namespace stepcast
