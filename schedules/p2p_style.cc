// SPDX-License-Identifier: Apache-2.0
#include "schedules/p2p_style.h"

namespace stepcast {
namespace {

constexpr std::array<std::string_view, kP2pStyles> kNames = {
    "async", "megatron", "megatron-overlap", "megatron-overlap-flush", "dualpipe", "deepspeed"};

struct FamilyStyle {
  std::string_view family;
  P2pStyle style;
};

// Families of Megatron-LM and DualPipe.  PyTorch's runtime and that of zero-bubble never wait for a
// send.
constexpr std::array kFamilyStyles = {
    FamilyStyle{"1f1b", P2pStyle::megatron},
    FamilyStyle{"gpipe", P2pStyle::megatron},
    FamilyStyle{"zb-h1-quickstart", P2pStyle::megatron},  // a patch of Megatron-LM's 1F1B
    FamilyStyle{"interleaved-1f1b", P2pStyle::megatron_overlap},
    FamilyStyle{"interleaved-1f1b-ep-overlap", P2pStyle::megatron_overlap},
    FamilyStyle{"dualpipe", P2pStyle::dualpipe},
    FamilyStyle{"dualpipev", P2pStyle::dualpipe},
};

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
  for (const FamilyStyle& f : kFamilyStyles)
    if (f.family == family) return f.style;
  return P2pStyle::async;
}

}  // namespace stepcast
