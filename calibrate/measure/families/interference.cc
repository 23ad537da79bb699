// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/interference.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "calibrate/measure/families/gemm.h"
#include "calibrate/measure/families/interference_ratio.h"
#include "calibrate/measure/kernels/spin.h"
#include "calibrate/measure/timing_summary.h"
#ifdef STEPCAST_NCCL
#include "calibrate/measure/collectives/ranks.h"
#endif

namespace stepcast::measure {
namespace {

constexpr double kTogetherUs = 20'000;  // both sides run for about this long
constexpr double kHoldUs = 10'000;      // the host enqueues meanwhile
constexpr int kCallsAlone = 8;

// m, n, k of products that fill any GPU.
constexpr std::array<std::array<int64_t, 3>, 2> kProducts{
    {{8192, 8192, 8192}, {4096, 16384, 4096}}};

// One of the two things that run: how it is enqueued, on which stream, and how to wait for it.
struct Side {
  cudaStream_t stream = nullptr;
  std::function<void()> enqueue;
  std::function<void()> wait;
};

// When each call of a side began and ended.
class Recorded {
 public:
  Recorded(const Side& side, int calls) : side_(side), events_(static_cast<size_t>(calls) + 1) {}

  int calls() const { return static_cast<int>(events_.size()) - 1; }
  void begin() { events_.front().record(side_.stream); }
  void call() {
    side_.enqueue();
    events_[++done_].record(side_.stream);
  }
  std::vector<Interval> intervals(const Event& zero) const {
    std::vector<Interval> all;
    for (size_t i = 1; i < events_.size(); ++i) {
      all.push_back({microseconds(zero, events_[i - 1]), microseconds(zero, events_[i])});
    }
    return all;
  }

 private:
  const Side& side_;
  std::vector<Event> events_;
  size_t done_ = 0;
};

// Runs calls of both sides at once; neither begins before all are enqueued.
std::pair<std::vector<Interval>, std::vector<Interval>> run_together(const Side& a, int a_calls,
                                                                     const Side& b, int b_calls) {
  Event zero;
  Recorded of_a(a, a_calls), of_b(b, b_calls);
  spin(kHoldUs, a.stream);
  zero.record(a.stream);
  check_cuda(cudaStreamWaitEvent(b.stream, zero.get(), 0), "a stream that waits");
  of_a.begin();
  of_b.begin();
  // In turns: neither queue is to fill up before the other has anything.
  for (int i = 0, j = 0; i < a_calls || j < b_calls;) {
    const bool next_is_a =
        j == b_calls || (i < a_calls && int64_t{i} * b_calls <= int64_t{j} * a_calls);
    if (next_is_a) {
      of_a.call();
      ++i;
    } else {
      of_b.call();
      ++j;
    }
  }
  b.wait();
  a.wait();
  return {of_a.intervals(zero), of_b.intervals(zero)};
}

double median_of(const std::vector<double>& us) {
  return us.empty() ? 0 : summarize(us).us;
}

std::vector<double> durations(const std::vector<Interval>& calls) {
  std::vector<double> us;
  for (const Interval& c : calls) us.push_back(c.end - c.begin);
  return us;
}

double time_alone(const Side& side) {
  const Side nothing{side.stream, [] {}, [] {}};
  run_together(side, 2, nothing, 0);  // warm-up
  return median_of(durations(run_together(side, kCallsAlone, nothing, 0).first));
}

// Times alone and together.  `agree` makes numbers equal on all ranks that work at this: each has
// to enqueue the same calls.
Beside measure_beside(const Side& compute, const Side& communication,
                      const std::function<double(double)>& agree) {
  Beside b;
  b.compute_alone_us = time_alone(compute);
  b.communication_alone_us = time_alone(communication);
  const auto [computes, communicates] =
      calls_beside(agree(b.compute_alone_us), agree(b.communication_alone_us), kTogetherUs);
  const auto [first, second] = run_together(compute, computes, communication, communicates);
  b.compute_us = median_of(accompanied(first, second));
  b.communication_us = median_of(accompanied(second, first));
  return b;
}

bool is_complete(const Beside& b) {
  return b.compute_alone_us > 0 && b.communication_alone_us > 0 && b.compute_us > 0 &&
         b.communication_us > 0;
}

InterferenceFound found_from(const std::vector<Beside>& all) {
  InterferenceFound found;
  const auto ratios = interference_ratios(all);
  if (ratios) {
    found.measured.values = {ratios->first, ratios->second};
  } else {
    found.measured.skipped = "products and communication did not run at the same time";
  }
  return found;
}

// A product on the current device, with its matrices and its stream.
class ProductSide {
 public:
  ProductSide(const Device& device, const std::array<int64_t, 3>& shape) : blas_(device) {
    Work work;
    work.kind = WorkKind::gemm;
    work.m = shape[0];
    work.n = shape[1];
    work.k = shape[2];
    product_ = std::make_unique<Product>(blas_, work);
    m_side_ = DeviceMemory(m_side_bytes(work));
    n_side_ = DeviceMemory(n_side_bytes(work));
    out_ = DeviceMemory(out_bytes(work));
    fill_normal(m_side_.data(), work.dtype, work.m * work.k, 1, 1, stream_.get());
    fill_normal(n_side_.data(), work.dtype, work.n * work.k, 2, 0.02F, stream_.get());
  }

  Side side() const {
    return {stream_.get(),
            [this] { product_->run(m_side_.data(), n_side_.data(), out_.data(), stream_.get()); },
            [this] {
              check_cuda(cudaStreamSynchronize(stream_.get()), "a product beside communication");
            }};
  }

 private:
  Blas blas_;
  Stream stream_;
  std::unique_ptr<Product> product_;
  DeviceMemory m_side_, n_side_, out_;
};

Side copy_side(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind,
               const Stream& stream) {
  cudaStream_t s = stream.get();
  return {s,
          [=] {
            check_cuda(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, s),
                       "a copy beside products");
          },
          [s] { check_cuda(cudaStreamSynchronize(s), "a copy beside products"); }};
}

}  // namespace

InterferenceFound interference_with_copies(const Device& device) {
  constexpr int64_t kBytes = int64_t{256} << 20;
  std::vector<Beside> all;
  const DeviceMemory from(kBytes), to(kBytes);
  const HostMemory host(kBytes / 4);
  const Stream stream;
  for (const auto& shape : kProducts) {
    const ProductSide product(device, shape);
    for (const bool within : {true, false}) {
      const Side copy =
          within ? copy_side(to.data(), from.data(), kBytes, cudaMemcpyDeviceToDevice, stream)
                 : copy_side(to.data(), host.data(), kBytes / 4, cudaMemcpyHostToDevice, stream);
      const Beside b = measure_beside(product.side(), copy, [](double mine) { return mine; });
      if (is_complete(b)) all.push_back(b);
    }
  }
  InterferenceFound found = found_from(all);
  found.conditions =
      "interference: bf16 products beside copies within the GPU's memory and from the host, for "
      "want of a second GPU";
  found.of_copies = true;
  return found;
}

#ifdef STEPCAST_NCCL

namespace {

// The medians over ranks.
Beside median_rank(const std::vector<Beside>& ranks) {
  const auto median = [&](double Beside::*member) {
    std::vector<double> values;
    for (const Beside& b : ranks) values.push_back(b.*member);
    return median_of(values);
  };
  return {median(&Beside::compute_alone_us), median(&Beside::communication_alone_us),
          median(&Beside::compute_us), median(&Beside::communication_us)};
}

}  // namespace

InterferenceFound interference_with_collectives(Collectives& collectives) {
  RankTeam& team = collectives.team();
  if (!team.in_one_process()) {
    InterferenceFound found;
    found.measured.skipped = "interference is measured by one process that drives all GPUs";
    return found;
  }
  const int gpus = static_cast<int>(team.places().size());
  const RankGroup group{1, gpus};
  team.open_group(group);
  std::vector<Beside> all;
  for (const int64_t bytes : {int64_t{64} << 20, int64_t{256} << 20}) {
    team.make_room(group, WorkKind::all_reduce, bytes);
    const bool room = std::all_of(team.here().begin(), team.here().end(),
                                  [](const auto& rank) { return rank->has_room; });
    if (!room) continue;
    for (const auto& shape : kProducts) {
      std::vector<std::unique_ptr<ProductSide>> products(team.here().size());
      std::vector<Beside> ranks(team.here().size());
      // Memory first, on all ranks, before any of them is within a collective.
      team.on_each([&](Rank& rank) {
        try {
          products[static_cast<size_t>(rank.rank)] =
              std::make_unique<ProductSide>(open_device(rank.device), shape);
        } catch (const Unsupported&) {  // too little memory: left out below
        }
      });
      if (std::count(products.begin(), products.end(), nullptr) > 0) {
        team.on_each([&](Rank& rank) { products[static_cast<size_t>(rank.rank)].reset(); });
        continue;
      }
      team.on_each([&](Rank& rank) {
        const auto i = static_cast<size_t>(rank.rank);
        ncclComm_t comm = rank.groups.at(group);
        const Side collective{rank.stream->get(),
                              [&] { enqueue_collective(rank, comm, WorkKind::all_reduce, bytes); },
                              [&] { wait_for(rank, comm); }};
        ranks[i] = measure_beside(products[i]->side(), collective,
                                  [&](double mine) { return agreed_maximum(rank, comm, mine); });
      });
      team.on_each([&](Rank& rank) { products[static_cast<size_t>(rank.rank)].reset(); });
      const Beside b = median_rank(ranks);
      if (is_complete(b)) all.push_back(b);
    }
  }
  InterferenceFound found = found_from(all);
  found.conditions =
      "interference: bf16 products beside all-reduces over " + std::to_string(gpus) + " GPUs";
  return found;
}

#else

InterferenceFound interference_with_collectives(Collectives& /*collectives*/) {
  InterferenceFound found;
  found.measured.skipped = why_no_collectives(0);
  return found;
}

#endif

}  // namespace stepcast::measure
