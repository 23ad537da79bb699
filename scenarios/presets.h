// SPDX-License-Identifier: Apache-2.0
// Public (cmake/Install.cmake).
//
// The presets that are compiled into the library: one YAML file each,
// scenarios/presets/KIND/NAME.yaml.
//
// A model preset is what stands under `model:`, a cluster preset what stands under `cluster:`, a
// GPU preset what stands under `cluster: node: gpu:`, a software preset a profile
// (schema/software.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace stepcast {

enum class PresetKind : uint8_t { model, gpu, cluster, software };

// Text of the preset's file, nothing if there is none of that name.
std::optional<std::string_view> preset_text(PresetKind kind, std::string_view name);

// All names of a kind, ascending.
std::vector<std::string_view> preset_names(PresetKind kind);

}  // namespace stepcast
