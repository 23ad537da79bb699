// SPDX-License-Identifier: Apache-2.0
// How pipeline transfers block the ranks that make them; docs/schedules.md has each rule.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace stepcast {

enum class P2pStyle : uint8_t {
  async,                   // a send leaves at once and nobody waits for it; receivers wait
  megatron,                // Megatron-LM without overlap: fused blocking exchanges
  megatron_overlap,        // + overlap_p2p_comm: posted one step ahead in the steady phase
  megatron_overlap_flush,  // + overlap_p2p_comm_warmup_flush: in warm-up and cool-down as well
  dualpipe,                // DualPipe: before each action one exchange of all that is queued
  deepspeed,               // DeepSpeed: separate blocking calls, the send after the next receive
};
constexpr int kP2pStyles = 6;
constexpr std::array<P2pStyle, kP2pStyles> kAllP2pStyles = {P2pStyle::async,
                                                            P2pStyle::megatron,
                                                            P2pStyle::megatron_overlap,
                                                            P2pStyle::megatron_overlap_flush,
                                                            P2pStyle::dualpipe,
                                                            P2pStyle::deepspeed};

std::string_view name_of(P2pStyle style);  // "async", "megatron", "megatron-overlap", ...
std::optional<P2pStyle> p2p_style_named(std::string_view name);

// ScheduleFamily::p2p of the family with this canonical name; async for a name that is none, such
// as that of a schedule file.
P2pStyle default_p2p_style(std::string_view family);

}  // namespace stepcast
