// SPDX-License-Identifier: Apache-2.0
// What the memory-bound kernels compute of single elements, in fp32, on the device and the host.
#pragma once

#include <cmath>
#include <cstdint>

#include "calibrate/measure/kernels/both_sides.h"
#include "calibrate/measure/kernels/hash.h"

namespace stepcast::measure {

// GELU in its tanh form (Hendrycks and Gimpel 2016), and its derivative.
STEPCAST_BOTH inline float gelu(float x) {
  const float inner = 0.7978845608f * (x + 0.044715f * x * x * x);  // sqrt(2 / pi)
  return 0.5f * x * (1.0f + tanhf(inner));
}

STEPCAST_BOTH inline float gelu_gradient(float x) {
  const float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
  const float inner_gradient = 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner_gradient;
}

STEPCAST_BOTH inline float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

STEPCAST_BOTH inline float silu(float x) {
  return x * sigmoid(x);
}

STEPCAST_BOTH inline float silu_gradient(float x) {
  const float s = sigmoid(x);
  return s * (1.0f + x * (1.0f - s));
}

// A pair of elements turned by an angle; backward turns back.
struct Pair {
  float first, second;
};

STEPCAST_BOTH inline Pair rotate(Pair x, float cosine, float sine) {
  return {x.first * cosine - x.second * sine, x.second * cosine + x.first * sine};
}

// Whether dropout keeps element `index` (the same in the backward pass): with a probability of
// 1 - dropped.
STEPCAST_BOTH inline bool keeps(uint64_t seed, uint64_t index, float dropped) {
  const uint64_t bits = mix(seed, index >> 1);
  return uniform(static_cast<uint32_t>((index & 1) != 0 ? bits >> 32 : bits)) >= dropped;
}

// One step of Adam with decoupled weight decay (Loshchilov and Hutter 2017).
struct AdamStep {
  float rate = 1e-3f, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, decay = 0.0f;
  float correction1 = 1, correction2 = 1;  // 1 - beta^step
};

struct AdamState {
  float weight, first, second;  // the weight and its two moments
};

STEPCAST_BOTH inline AdamState adam_update(AdamState s, float gradient, const AdamStep& step) {
  s.first = step.beta1 * s.first + (1.0f - step.beta1) * gradient;
  s.second = step.beta2 * s.second + (1.0f - step.beta2) * gradient * gradient;
  const float denominator = sqrtf(s.second / step.correction2) + step.epsilon;
  s.weight -= step.rate * (s.first / step.correction1 / denominator + step.decay * s.weight);
  return s;
}

// Largest and sum of exponentials of a row so far, to be joined in any order: softmax in one pass
// (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
struct SoftmaxSum {
  float largest = -INFINITY, sum = 0;
};

STEPCAST_BOTH inline SoftmaxSum join(SoftmaxSum a, SoftmaxSum b) {
  const float largest = fmaxf(a.largest, b.largest);
  if (largest == -INFINITY) return {};
  return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
}

// Scale that brings the largest magnitude to the largest number of fp8 e4m3, 448; 1 for zeros.
STEPCAST_BOTH inline float fp8_scale(float largest_magnitude) {
  return largest_magnitude > 0 ? 448.0f / largest_magnitude : 1.0f;
}

}  // namespace stepcast::measure
