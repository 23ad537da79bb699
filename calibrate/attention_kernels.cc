// SPDX-License-Identifier: Apache-2.0
#include "calibrate/attention_kernels.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "calibrate/table_text.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> attention_files();

namespace {

using ByFile = std::map<std::string, AttentionPrices, std::less<>>;

ByFile read_all() {
  ByFile all;
  for (const auto& [file, text] : attention_files()) {
    const std::string name(file);
    all.try_emplace(name, parse_table_text(text, name));
  }
  return all;
}

}  // namespace

const AttentionPrices* shipped_attention(AttentionKernel kernel, std::string_view gpu_name) {
  if (kernel == AttentionKernel::table) return nullptr;
  static const ByFile all = read_all();
  const auto found = all.find("calibrate/attention/" + std::string(name_of(kernel)) + '.' +
                              std::string(gpu_name) + ".csv");
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace stepcast
