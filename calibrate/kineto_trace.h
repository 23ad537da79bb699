// SPDX-License-Identifier: Apache-2.0
// The events of a PyTorch profiler trace that importing it needs, read as a stream: a trace of a
// few steps has hundreds of megabytes.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "calibrate/measurement_input.h"

namespace stepcast {

// An argument of an operator: a shape or strides, or the word that stands for a scalar.
struct TraceArgument {
  std::vector<int64_t> sizes;
  std::string word;
  bool nested = false;  // a list of tensors
};

// One call of an operator (category cpu_op), with what record_shapes=True adds.
struct TraceOp {
  std::string name;
  int64_t external = -1;  // ties kernels to it
  std::vector<TraceArgument> dims, strides, types, concrete;
};

// What NCCL's kernels carry.
struct TraceCollective {
  std::string name, dtype, ranks;  // "_allgather_base", "BFloat16", "[0, 1, 2, 3]"
  int64_t in_elements = -1, out_elements = -1, group = 0;
};

struct TraceKernel {
  uint32_t name = 0;  // index into KinetoTrace::names
  double us = 0;
  int64_t external = -1, correlation = -1;
  int32_t collective = -1;  // index into KinetoTrace::collectives; -1: it is none
};

struct KinetoTrace {
  std::vector<std::string> names;  // of kernels, by first appearance
  std::vector<TraceKernel> kernels;
  std::vector<TraceCollective> collectives;
  std::vector<TraceOp> ops;  // those that `wanted` names
  // The runtime's calls: correlation -> external id.  Only looked up.
  std::unordered_map<int64_t, int64_t> launched_by;
  std::vector<std::string> devices;  // names
  std::string nccl_version, cuda_version;
};

bool is_kineto_trace(std::string_view text);

// Keeps the operators for which `wanted` is true.  Throws E333 if the JSON is broken or cut off.
KinetoTrace read_kineto_trace(const MeasurementInput& in, bool (*wanted)(std::string_view op));

}  // namespace stepcast
