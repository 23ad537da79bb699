// SPDX-License-Identifier: Apache-2.0
// Whole kernels against the same in double precision on the host.
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "calibrate/measure/kernels/elementwise.h"
#include "calibrate/measure/kernels/norms.h"
#include "calibrate/measure/kernels/optimizer.h"
#include "calibrate/measure/kernels/pointwise.h"
#include "calibrate/measure/kernels/quantize.h"
#include "calibrate/measure/kernels/reductions.h"
#include "calibrate/measure/kernels/tokens.h"
#include "tests/measure/gpu_arrays.h"

namespace stepcast::measure::kernels_gpu_test {
namespace {

using Vector = std::vector<double>;

class Kernels : public OnGpu {};

size_t at(int64_t i) {
  return static_cast<size_t>(i);
}

struct NormReference {
  Vector y, dx, dgain, dbias;
};

NormReference norm_reference(const Vector& x, const Vector& gain, const Vector& bias,
                             const Vector& dy, int64_t rows, int64_t width, bool centred) {
  NormReference out{Vector(x.size()), Vector(x.size()), Vector(at(width)), Vector(at(width))};
  const auto w = static_cast<double>(width);
  for (int64_t r = 0; r < rows; ++r) {
    const double* const row = x.data() + r * width;
    const double mean = centred ? std::accumulate(row, row + width, 0.0) / w : 0;
    double square = 0;
    for (int64_t c = 0; c < width; ++c) square += (row[c] - mean) * (row[c] - mean);
    const double rstd = 1 / std::sqrt(square / w + 1e-5);
    double along = 0, shift = 0;
    for (int64_t c = 0; c < width; ++c) {
      const size_t i = at(r * width + c), j = at(c);
      const double normed = (row[c] - mean) * rstd;
      out.y[i] = normed * gain[j] + (centred ? bias[j] : 0);
      along += dy[i] * gain[j] * normed / w;
      shift += centred ? dy[i] * gain[j] / w : 0;
      out.dgain[j] += dy[i] * normed;
      out.dbias[j] += dy[i];
    }
    for (int64_t c = 0; c < width; ++c) {
      const size_t i = at(r * width + c);
      out.dx[i] = rstd * (dy[i] * gain[at(c)] - shift - (row[c] - mean) * rstd * along);
    }
  }
  return out;
}

TEST_F(Kernels, Norms) {
  constexpr int64_t kRows = 37;
  for (const int64_t width : {int64_t{8}, int64_t{1000}, int64_t{4096}, int64_t{12288}}) {
    const Vector x = normal_numbers(kRows * width, 1), dy = normal_numbers(kRows * width, 2);
    const Vector gain = normal_numbers(width, 3), bias = normal_numbers(width, 4);
    const auto gx = bf16_array(x), gdy = bf16_array(dy), ggain = bf16_array(gain),
               gbias = bf16_array(bias);
    for (const bool centred : {false, true}) {
      const NormReference expected = norm_reference(x, gain, bias, dy, kRows, width, centred);
      const GpuArray<Bf16> y(kRows * width), dx(kRows * width);
      const GpuArray<float> mean(kRows), rstd(kRows), dgain(width), dbias(width);
      if (centred) {
        layer_norm(gx.data(), ggain.data(), gbias.data(), y.data(), mean.data(), rstd.data(), kRows,
                   width, stream());
        layer_norm_backward(gdy.data(), gx.data(), ggain.data(), mean.data(), rstd.data(),
                            dx.data(), dgain.data(), dbias.data(), kRows, width, stream());
        expect_near(dbias, expected.dbias, 1e-4, 1e-3);
      } else {
        rms_norm(gx.data(), ggain.data(), y.data(), rstd.data(), kRows, width, stream());
        rms_norm_backward(gdy.data(), gx.data(), ggain.data(), rstd.data(), dx.data(), dgain.data(),
                          kRows, width, stream());
      }
      expect_near(y, expected.y, kBf16Error, 1e-3);
      expect_near(dx, expected.dx, kBf16Error, 2e-3);
      expect_near(dgain, expected.dgain, 1e-4, 1e-3);
    }
  }
  const GpuArray<Bf16> none(8);
  EXPECT_THROW(rms_norm(none.data(), none.data(), none.data(), nullptr, 1, 20000, stream()),
               Unsupported);
}

TEST_F(Kernels, SoftmaxAndItsGradient) {
  constexpr double kScale = 0.3;
  for (const int64_t cols : {int64_t{64}, int64_t{2048}, int64_t{8192}, int64_t{16384}}) {
    const int64_t rows = 9;
    const Vector scores = normal_numbers(rows * cols, 5, 4),
                 dprobs = normal_numbers(rows * cols, 6);
    for (const bool causal : {false, true}) {
      Vector probs(scores.size()), dscores(scores.size());
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t seen = causal ? r % cols + 1 : cols;
        double sum = 0, along = 0;
        for (int64_t c = 0; c < seen; ++c) sum += std::exp(kScale * scores[at(r * cols + c)]);
        for (int64_t c = 0; c < seen; ++c) {
          const size_t i = at(r * cols + c);
          // As the kernel keeps it.
          const auto p = static_cast<float>(std::exp(kScale * scores[i]) / sum);
          probs[i] = number(__float2bfloat16(p));
          along += probs[i] * dprobs[i];
        }
        for (int64_t c = 0; c < cols; ++c) {
          const size_t i = at(r * cols + c);
          dscores[i] = kScale * probs[i] * (dprobs[i] - along);
        }
      }
      const auto in = bf16_array(scores), gradient = bf16_array(dprobs);
      const GpuArray<Bf16> out(rows * cols);
      softmax(in.data(), out.data(), static_cast<float>(kScale), causal, rows, cols, stream());
      expect_near(out, probs, 2 * kBf16Error, 1e-6);
      softmax_backward(out.data(), gradient.data(), static_cast<float>(kScale), rows, cols,
                       stream());
      expect_near(gradient, dscores, 4 * kBf16Error, 1e-4);
    }
  }
}

TEST_F(Kernels, CrossEntropyAndItsGradient) {
  constexpr int64_t kRows = 5, kVocab = 5000;
  const Vector logits = normal_numbers(kRows * kVocab, 7, 3);
  const std::vector<int32_t> targets{0, 17, 4999, 2500, 3};
  Vector probs(logits.size()), losses, gradient(logits.size());
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < kVocab; ++c) sum += std::exp(logits[at(r * kVocab + c)]);
    const int64_t target = targets[at(r)];
    losses.push_back(std::log(sum) - logits[at(r * kVocab + target)]);
    for (int64_t c = 0; c < kVocab; ++c) {
      const size_t i = at(r * kVocab + c);
      probs[i] = std::exp(logits[i]) / sum;
      gradient[i] = 0.5 * (probs[i] - (c == target ? 1 : 0));
    }
  }
  const auto in = bf16_array(logits);
  const GpuArray<int32_t> wanted(targets);
  const GpuArray<float> out(kRows * kVocab), loss(kRows);
  const GpuArray<Bf16> dlogits(kRows * kVocab);
  cross_entropy(in.data(), wanted.data(), out.data(), loss.data(), kRows, kVocab, stream());
  expect_near(out, probs, 1e-4, 1e-7);
  expect_near(loss, losses, 1e-4, 1e-4);
  cross_entropy_backward(out.data(), wanted.data(), dlogits.data(), 0.5F, kRows, kVocab, stream());
  expect_near(dlogits, gradient, kBf16Error, 1e-6);
}

TEST_F(Kernels, SumsOfColumnsAndOfSquares) {
  constexpr int64_t kRows = 333, kWidth = 2560;
  const Vector dy = normal_numbers(kRows * kWidth, 8);
  Vector sums(at(kWidth), 1);
  double squares = 0;
  for (int64_t i = 0; i < kRows * kWidth; ++i) {
    sums[at(i % kWidth)] += dy[at(i)];
    squares += dy[at(i)] * dy[at(i)];
  }
  const auto in = bf16_array(dy);
  const auto dbias = fp32_array(Vector(at(kWidth), 1));  // it adds
  bias_backward(in.data(), dbias.data(), kRows, kWidth, stream());
  expect_near(dbias, sums, 1e-4, 1e-3);
  const auto wide = fp32_array(dy);
  const GpuArray<float> sum(1);
  grad_norm(wide.data(), kRows * kWidth, sum.data(), stream());
  expect_near(sum, {squares}, 1e-4, 0);
}

TEST_F(Kernels, PlainArithmetic) {
  constexpr int64_t kRows = 11, kWidth = 1064, kCount = kRows * kWidth;
  const Vector a = normal_numbers(kCount, 9), b = normal_numbers(kCount, 10),
               bias = normal_numbers(kWidth, 11);
  const auto ga = bf16_array(a), gb = bf16_array(b), gbias = bf16_array(bias);
  const GpuArray<Bf16> out(kCount);
  Vector sum, biased, scaled;
  for (int64_t i = 0; i < kCount; ++i) {
    sum.push_back(a[at(i)] + b[at(i)]);
    biased.push_back(a[at(i)] + bias[at(i % kWidth)]);
    scaled.push_back(a[at(i)] * 0.25);
  }
  add(ga.data(), gb.data(), out.data(), kCount, stream());
  expect_near(out, sum, kBf16Error, 1e-6);
  const auto wide = fp32_array(b);
  accumulate(ga.data(), wide.data(), kCount, stream());
  expect_near(wide, sum, 1e-6, 1e-6);
  cast(wide.data(), out.data(), kCount, stream());
  expect_near(out, sum, kBf16Error, 1e-6);
  copy(gb.data(), out.data(), kCount, stream());
  expect_near(out, b, 0, 0);
  const auto whole = fp32_array(a);
  scale(whole.data(), nullptr, 0.25F, kCount, stream());
  expect_near(whole, scaled, 1e-6, 0);
  const auto factor = fp32_array({4});
  scale(whole.data(), factor.data(), 0, kCount, stream());
  expect_near(whole, a, 1e-6, 0);
  fill(whole.data(), 3, kCount, stream());
  expect_near(whole, Vector(at(kCount), 3), 0, 0);
  bias_add(ga.data(), gbias.data(), kRows, kWidth, stream());
  expect_near(ga, biased, kBf16Error, 1e-6);
}

TEST_F(Kernels, DropoutKeepsTheSameElementsBothWays) {
  constexpr int64_t kRows = 7, kWidth = 520, kCount = kRows * kWidth;
  constexpr float kDropped = 0.25F;
  const Vector x = normal_numbers(kCount, 12), bias = normal_numbers(kWidth, 13),
               residual = normal_numbers(kCount, 14);
  Vector dropped, added;
  for (int64_t i = 0; i < kCount; ++i) {
    const double keep = keeps(21, static_cast<uint64_t>(i), kDropped) ? 1 / 0.75 : 0;
    dropped.push_back(x[at(i)] * keep);
    added.push_back(residual[at(i)] + (x[at(i)] + bias[at(i % kWidth)]) * keep);
  }
  const auto in = bf16_array(x), gbias = bf16_array(bias), gresidual = bf16_array(residual);
  const GpuArray<Bf16> out(kCount);
  const GpuArray<uint8_t> mask(kCount);
  dropout(in.data(), out.data(), mask.data(), kDropped, 21, kCount, stream());
  expect_near(out, dropped, kBf16Error, 1e-6);
  dropout_backward(in.data(), mask.data(), out.data(), kDropped, kCount, stream());
  expect_near(out, dropped, kBf16Error, 1e-6);
  bias_dropout_add(in.data(), gbias.data(), gresidual.data(), out.data(), mask.data(), kDropped, 21,
                   kRows, kWidth, stream());
  expect_near(out, added, kBf16Error, 1e-5);
}

TEST_F(Kernels, Activations) {
  constexpr int64_t kRows = 5, kWidth = 1032, kCount = kRows * kWidth;
  const Vector in = normal_numbers(2 * kCount, 15), dy = normal_numbers(kCount, 16),
               bias = normal_numbers(kWidth, 17);
  Vector gated(at(kCount)), din(at(2 * kCount)), plain(at(kCount)), dplain(at(kCount));
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kWidth; ++c) {
      const size_t i = at(r * kWidth + c), g = at(2 * r * kWidth + c), u = g + at(kWidth);
      const auto gate = static_cast<float>(in[g]);
      gated[i] = static_cast<double>(silu(gate)) * in[u];
      din[g] = static_cast<double>(silu_gradient(gate)) * in[u] * dy[i];
      din[u] = static_cast<double>(silu(gate)) * dy[i];
      const auto x = static_cast<float>(in[i] + bias[at(c)]);
      plain[i] = static_cast<double>(gelu(x));
      dplain[i] = static_cast<double>(gelu_gradient(x)) * dy[i];
    }
  }
  const auto gin = bf16_array(in), gdy = bf16_array(dy), gbias = bf16_array(bias);
  const GpuArray<Bf16> y(kCount), gradient(2 * kCount), dx(kCount);
  gated_silu(gin.data(), y.data(), kRows, kWidth, stream());
  expect_near(y, gated, kBf16Error, 1e-5);
  gated_silu_backward(gin.data(), gdy.data(), gradient.data(), kRows, kWidth, stream());
  expect_near(gradient, din, kBf16Error, 1e-5);
  gelu(gin.data(), gbias.data(), y.data(), kRows, kWidth, stream());
  expect_near(y, plain, kBf16Error, 1e-5);
  gelu_backward(gin.data(), gbias.data(), gdy.data(), dx.data(), kRows, kWidth, stream());
  expect_near(dx, dplain, kBf16Error, 1e-5);
}

TEST_F(Kernels, RotaryTurnsTheFirstHeadsOnly) {
  constexpr int64_t kRows = 12, kStride = 5 * 64, kHeads = 3, kDim = 64, kSeq = 6;
  const Vector x = normal_numbers(kRows * kStride, 18);
  Vector expected = x;
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t h = 0; h < kHeads; ++h) {
      for (int64_t i = 0; i < kDim / 2; ++i) {
        const double angle =
            static_cast<double>(r % kSeq) * std::pow(10000.0, -2.0 * static_cast<double>(i) / kDim);
        const size_t first = at(r * kStride + h * kDim + i), second = first + kDim / 2;
        expected[first] = x[first] * std::cos(angle) - x[second] * std::sin(angle);
        expected[second] = x[second] * std::cos(angle) + x[first] * std::sin(angle);
      }
    }
  }
  const auto in = bf16_array(x);
  const GpuArray<float2> table(kSeq * kDim / 2);
  rotary_table(table.data(), kSeq, kDim, 10000, stream());
  rotary(in.data(), table.data(), kRows, kStride, kHeads, kDim, kSeq, false, stream());
  expect_near(in, expected, kBf16Error, 2e-3);
  rotary(in.data(), table.data(), kRows, kStride, kHeads, kDim, kSeq, true, stream());
  expect_near(in, x, 3 * kBf16Error, 2e-2);
}

TEST_F(Kernels, TransposeOfABatch) {
  constexpr int64_t kBatch = 3, kRows = 128, kWidth = 192;
  const Vector x = normal_numbers(kBatch * kRows * kWidth, 19);
  Vector expected(x.size());
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kWidth; ++c) {
        expected[at((b * kWidth + c) * kRows + r)] = x[at((b * kRows + r) * kWidth + c)];
      }
    }
  }
  const auto in = bf16_array(x);
  const GpuArray<Bf16> out(kBatch * kRows * kWidth);
  transpose(in.data(), out.data(), kBatch, kRows, kWidth, stream());
  expect_near(out, expected, 0, 0);
}

TEST_F(Kernels, EmbeddingPicksRowsAndAddsTheirGradients) {
  constexpr int64_t kVocab = 10, kWidth = 520, kCount = 6;
  const std::vector<int32_t> tokens{3, 9, 0, 3, 3, 5};
  const Vector table = normal_numbers(kVocab * kWidth, 20),
               dy = normal_numbers(kCount * kWidth, 21);
  Vector picked(dy.size()), dense(table.size());
  for (int64_t t = 0; t < kCount; ++t) {
    for (int64_t c = 0; c < kWidth; ++c) {
      const int64_t row = tokens[at(t)];
      picked[at(t * kWidth + c)] = table[at(row * kWidth + c)];
      dense[at(row * kWidth + c)] += dy[at(t * kWidth + c)];
    }
  }
  const GpuArray<int32_t> gtokens(tokens);
  const auto gtable = bf16_array(table), gdy = bf16_array(dy);
  const GpuArray<Bf16> out(kCount * kWidth), gradient(kVocab * kWidth);
  embedding(gtokens.data(), gtable.data(), out.data(), kCount, kWidth, stream());
  expect_near(out, picked, 0, 0);
  embedding_backward(gtokens.data(), gdy.data(), gradient.data(), kCount, kWidth, stream());
  expect_near(gradient, dense, 3 * kBf16Error, 0.02);  // sums are in bf16
}

TEST_F(Kernels, UnpermutedCopiesSumToWhatTheirWeightsSay) {
  constexpr int64_t kTokens = 50, kCopies = 4, kWidth = 136;
  const Vector x = normal_numbers(kTokens * kWidth, 22);
  std::vector<int32_t> places;
  Vector copies(at(kTokens * kCopies * kWidth)), weights, sums(x.size());
  for (int64_t i = 0; i < kTokens * kCopies; ++i) {
    places.push_back(static_cast<int32_t>(i * 7 % (kTokens * kCopies)));
    weights.push_back(0.1 * static_cast<double>(i % kCopies + 1));
    for (int64_t c = 0; c < kWidth; ++c) {
      const double value = x[at(i / kCopies * kWidth + c)];
      copies[at(places.back() * kWidth + c)] = value;
      sums[at(i / kCopies * kWidth + c)] += weights.back() * value;
    }
  }
  const auto in = bf16_array(x);
  const auto gweights = fp32_array(weights);
  const GpuArray<int32_t> gplaces(places);
  const GpuArray<Bf16> out(kTokens * kCopies * kWidth), back(kTokens * kWidth);
  permute(in.data(), gplaces.data(), out.data(), kTokens, kCopies, kWidth, stream());
  expect_near(out, copies, 0, 0);
  unpermute(out.data(), gplaces.data(), gweights.data(), back.data(), kTokens, kCopies, kWidth,
            stream());
  expect_near(back, sums, kBf16Error, 1e-4);
}

TEST_F(Kernels, RouterChoosesTheLargest) {
  constexpr int64_t kTokens = 19, kChosen = 6;
  for (const int64_t experts : {int64_t{8}, int64_t{100}, int64_t{256}, int64_t{1024}}) {
    const Vector logits = normal_numbers(kTokens * experts, 23);
    const auto in = bf16_array(logits);
    const GpuArray<float> scores(kTokens * experts), probs(kTokens * experts);
    const GpuArray<uint8_t> map(kTokens * experts);
    router(in.data(), scores.data(), probs.data(), map.data(), kTokens, experts, kChosen, stream());
    const auto gscores = scores.values(), gprobs = probs.values();
    const auto gmap = map.values();
    for (int64_t t = 0; t < kTokens; ++t) {
      double sum = 0, score_sum = 0, least_taken = 1e9, most_left = -1e9;
      int taken = 0;
      for (int64_t e = 0; e < experts; ++e) {
        const size_t i = at(t * experts + e);
        sum += number(gprobs[i]);
        score_sum += number(gscores[i]);
        taken += gmap[i];
        if (gmap[i] != 0) least_taken = std::min(least_taken, logits[i]);
        if (gmap[i] == 0) most_left = std::max(most_left, logits[i]);
      }
      ASSERT_EQ(taken, kChosen);
      ASSERT_GE(least_taken, most_left);
      ASSERT_NEAR(sum, 1, 1e-5);
      ASSERT_NEAR(score_sum, 1, 1e-5);
    }
  }
  const GpuArray<Bf16> none(8);
  EXPECT_THROW(router(none.data(), nullptr, nullptr, nullptr, 1, 2000, 1, stream()), Unsupported);
}

TEST_F(Kernels, RouterGradientIsThatOfChosenShares) {
  constexpr int64_t kTokens = 4, kExperts = 64, kCount = kTokens * kExperts;
  const Vector logits = normal_numbers(kCount, 24), dprobs = normal_numbers(kCount, 25);
  const auto in = bf16_array(logits);
  const auto gradient = fp32_array(dprobs);
  const GpuArray<float> scores(kCount), probs(kCount);
  const GpuArray<uint8_t> map(kCount);
  const GpuArray<Bf16> dlogits(kCount);
  router(in.data(), scores.data(), probs.data(), map.data(), kTokens, kExperts, 8, stream());
  router_backward(scores.data(), probs.data(), gradient.data(), dlogits.data(), kTokens, kExperts,
                  stream());
  const auto p = probs.values(), s = scores.values();
  Vector expected;
  for (int64_t t = 0; t < kTokens; ++t) {
    double along = 0;
    for (int64_t e = 0; e < kExperts; ++e) {
      along += number(p[at(t * kExperts + e)]) * dprobs[at(t * kExperts + e)];
    }
    for (int64_t e = 0; e < kExperts; ++e) {
      const size_t i = at(t * kExperts + e);
      expected.push_back(number(p[i]) * (dprobs[i] - along) + 1e-3 * number(s[i]));
    }
  }
  expect_near(dlogits, expected, kBf16Error, 1e-5);
}

TEST_F(Kernels, AdamOverManyTensors) {
  // More than one launch takes, of sizes around a block's.
  std::vector<GpuArray<float>> gradients, weights, first, second;
  std::vector<AdamTensor> list;
  std::vector<Vector> start;
  for (int64_t i = 0; i < 70; ++i) {
    const int64_t n = 8 * (1 + i * 13);
    start.push_back(normal_numbers(n, 26 + static_cast<uint64_t>(i)));
    gradients.push_back(fp32_array(normal_numbers(n, 126 + static_cast<uint64_t>(i))));
    weights.push_back(fp32_array(start.back()));
    first.emplace_back(n);
    second.emplace_back(n);
    list.push_back({gradients.back().data(), weights.back().data(), first.back().data(),
                    second.back().data(), n});
  }
  const AdamStep step{1e-2F, 0.9F, 0.95F, 1e-8F, 0.1F, 0.1F, 0.05F};
  adam(list, step, stream());
  for (size_t i = 0; i < list.size(); ++i) {
    const std::vector<float> g = gradients[i].values();
    Vector expected;
    for (size_t j = 0; j < g.size(); ++j) {
      const AdamState s = adam_update({static_cast<float>(start[i][j]), 0, 0}, g[j], step);
      expected.push_back(number(s.weight));
    }
    expect_near(weights[i], expected, 1e-5, 1e-6);
  }
}

TEST_F(Kernels, QuantizedTilesAreTheMatrixAndItsTranspose) {
  constexpr int64_t kRows = 256, kWidth = 384;
  const Vector x = normal_numbers(kRows * kWidth, 27);
  const auto in = bf16_array(x);
  const GpuArray<uint8_t> out(kRows * kWidth), turned(kRows * kWidth);
  const GpuArray<float> scales(kRows / 128 * (kWidth / 128));
  quantize(in.data(), out.data(), turned.data(), scales.data(), kRows, kWidth, stream());
  const auto low = out.values(), transposed = turned.values();
  const auto factor = scales.values();
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kWidth; ++c) {
      const uint8_t bits = low[at(r * kWidth + c)];
      ASSERT_EQ(bits, transposed[at(c * kRows + r)]);
      // e4m3: sign, four bits of exponent with a bias of 7, three of mantissa.
      const int exponent = bits >> 3 & 15, mantissa = bits & 7;
      const double magnitude =
          exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
      const double value = (bits & 128 ? -magnitude : magnitude) *
                           number(factor[at(r / 128 * (kWidth / 128) + c / 128)]);
      ASSERT_NEAR(value, x[at(r * kWidth + c)], 0.0625 * std::abs(x[at(r * kWidth + c)]) + 1e-4);
    }
  }
}

}  // namespace
}  // namespace stepcast::measure::kernels_gpu_test
