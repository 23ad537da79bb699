// SPDX-License-Identifier: Apache-2.0
// Graphs of cuDNN's backend interface: descriptors, tensors, and the operations that attention is
// made of.  Included where STEPCAST_CUDNN is defined.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/measure/device.h"

namespace stepcast::measure::cudnn_graph {

// Throws Unsupported with what cuDNN says; DeviceError where the device failed.
inline void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  std::array<char, 512> text{};
  cudnnGetLastErrorString(text.data(), text.size());
  std::string message = std::string("cuDNN: ") + what + ": " + cudnnGetErrorString(status);
  if (text[0] != '\0') message += std::string(", ") + text.data();
  for (char& c : message)
    if (c == '\n') c = ' ';
  // Codes of cuDNN 9 are categories of a thousand: 5xxx, execution failed.  Errors within cuDNN
  // (4xxx) are those of one kernel, and another one may do.
  if (static_cast<int>(status) / 1000 == 5) throw DeviceError(message);
  throw Unsupported(message);
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(cudnnBackendCreateDescriptor(type, &raw_), "descriptor");
  }
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Descriptor() {
    if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
  }

  cudnnBackendDescriptor_t raw() const { return raw_; }
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
           const void* values) {
    check(cudnnBackendSetAttribute(raw_, name, type, count, values), "attribute");
  }
  void set(cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other);
  }
  void finalize(const char* what) { check(cudnnBackendFinalize(raw_), what); }

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
};

using Extents = std::array<int64_t, 4>;  // sequences, heads, rows, columns

inline Extents packed(const Extents& size) {
  return {size[1] * size[2] * size[3], size[2] * size[3], size[3], 1};
}

// Where a tensor of the graph lives.
enum class Place : uint8_t {
  inside,  // between two operations of the kernel
  memory,
  scalar,  // a number given with the call
};

struct Tensor {
  cudnnBackendDescriptor_t raw = nullptr;
  int64_t uid = 0;
  Extents size{};
};

// What the caller gives, by its place in AttentionOperands; and what lies in the workspace.
enum class Role : uint8_t { q, k, v, o, stats, d_o, dq, dk, dv, softmax_sum, dq_sum };

class Graph {
 public:
  Tensor tensor(cudnnDataType_t type, const Extents& size, const Extents& stride, Place place) {
    Descriptor d(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t uid = static_cast<int64_t>(tensors_.size()) + 1, alignment = 16;
    const bool inside = place == Place::inside, scalar = place == Place::scalar;
    d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    d.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, size.data());
    d.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride.data());
    d.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    d.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    d.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &inside);
    d.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &scalar);
    d.finalize("tensor");
    tensors_.push_back(std::move(d));
    return {tensors_.back().raw(), uid, size};
  }
  Tensor inside(const Extents& size, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return tensor(type, size, packed(size), Place::inside);
  }
  Tensor given(Role role, cudnnDataType_t type, const Extents& size, const Extents& stride) {
    const Tensor t = tensor(type, size, stride, Place::memory);
    roles_[role] = t.uid;
    return t;
  }
  Tensor scalar(float value) {
    const Tensor t = tensor(CUDNN_DATA_FLOAT, {1, 1, 1, 1}, {1, 1, 1, 1}, Place::scalar);
    scalars_[t.uid] = value;
    return t;
  }

  struct Pointwise {
    cudnnPointwiseMode_t mode{};
    const Tensor* b = nullptr;       // second operand
    const Tensor* choice = nullptr;  // of BINARY_SELECT
    cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    int64_t axis = -1;  // of GEN_INDEX
  };
  void pointwise(const Tensor& x, const Pointwise& p, const Tensor& y) {
    Descriptor d(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    d.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p.mode);
    d.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &p.precision);
    if (p.axis >= 0) d.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p.axis);
    d.finalize("pointwise");
    Descriptor op(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, d.raw());
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.raw);
    if (p.b != nullptr) op.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p.b->raw);
    if (p.choice != nullptr) op.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p.choice->raw);
    op.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.raw);
    add(std::move(d), std::move(op), "pointwise operation");
  }
  // The same into a tensor of x's size that stays inside.
  Tensor pointwise(const Tensor& x, const Pointwise& p, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    const Tensor y = inside(x.size, type);
    pointwise(x, p, y);
    return y;
  }

  void product(const Tensor& a, const Tensor& b, const Tensor& c) {
    Descriptor d(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    d.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    d.finalize("product");
    Descriptor op(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.raw);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.raw);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.raw);
    op.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, d.raw());
    add(std::move(d), std::move(op), "product operation");
  }

  // Along the dimensions in which y is 1 wide.
  void reduce(const Tensor& x, cudnnReduceTensorOp_t how, const Tensor& y) {
    Descriptor d(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    const cudnnDataType_t precision = CUDNN_DATA_FLOAT;
    d.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    d.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    d.finalize("reduction");
    Descriptor op(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.raw);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.raw);
    op.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, d.raw());
    add(std::move(d), std::move(op), "reduction operation");
  }

  void reshape(const Tensor& x, const Tensor& y) {
    Descriptor op(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    op.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.raw);
    op.set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.raw);
    add({}, std::move(op), "transposition");
  }

  std::vector<cudnnBackendDescriptor_t> operations() const {
    std::vector<cudnnBackendDescriptor_t> raw;
    for (const Descriptor& d : operations_) raw.push_back(d.raw());
    return raw;
  }
  const std::map<Role, int64_t>& roles() const { return roles_; }
  const std::map<int64_t, float>& scalars() const { return scalars_; }

 private:
  void add(Descriptor what, Descriptor operation, const char* name) {
    operation.finalize(name);
    parts_.push_back(std::move(what));
    operations_.push_back(std::move(operation));
  }

  std::vector<Descriptor> tensors_, parts_, operations_;
  std::map<Role, int64_t> roles_;
  std::map<int64_t, float> scalars_;
};

}  // namespace stepcast::measure::cudnn_graph
