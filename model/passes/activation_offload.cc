// SPDX-License-Identifier: Apache-2.0
#include "model/passes/activation_offload.h"

#include <algorithm>

namespace stepcast {

Work ActivationOffload::copy_of(const std::vector<TensorIndex>& tensors) const {
  Work copy;
  copy.kind = WorkKind::host_copy;
  for (const TensorIndex tensor : tensors) copy.bytes += p_.bytes_of(tensor);
  return copy;
}

void ActivationOffload::end_layer(int64_t layer, TensorIndex input, TensorIndex output) {
  if (count_ == 0) return;
  settle();
  if (layer >= count_) return;
  std::vector<TensorIndex> kept = p_.activations_since(begin_);
  std::erase(kept, output);
  if (input != kNoTensor && std::ranges::find(kept, input) == kept.end()) kept.push_back(input);
  if (kept.empty()) return;
  copied_ = p_.communicate(Stream::copy, "offload", copy_of(kept));
  leaving_ = kept;
  layers_.resize(static_cast<size_t>(std::max(layer + 1, static_cast<int64_t>(layers_.size()))));
  layers_[static_cast<size_t>(layer)] = std::move(kept);
}

// The copy begun a layer ago has to have ended.
void ActivationOffload::settle() {
  if (leaving_.empty()) return;
  p_.join(copied_);
  for (TensorIndex& tensor : leaving_) p_.free(tensor);
  leaving_.clear();
}

void ActivationOffload::fetch(int64_t layer) {
  const auto index = static_cast<size_t>(layer);
  if (layer < 0 || index >= layers_.size() || layers_[index].empty()) return;
  fetched_.resize(layers_.size(), -1);
  if (fetched_[index] >= 0) return;
  fetched_[index] = p_.communicate(Stream::copy, "reload", copy_of(layers_[index]));
  for (const TensorIndex tensor : layers_[index]) p_.allocate_again(tensor);
}

void ActivationOffload::need(int64_t layer) {
  fetch(layer);
  const auto index = static_cast<size_t>(layer);
  if (index < fetched_.size() && fetched_[index] >= 0)
    p_.join(static_cast<uint32_t>(fetched_[index]));
  fetch(layer - 1);
}

}  // namespace stepcast
