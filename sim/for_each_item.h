// SPDX-License-Identifier: Apache-2.0
// The same work for many items, on several threads, and how far it is.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace stepcast {

// Called after each of several items with how many are done of how many.
using Progress = std::function<void(int64_t done, int64_t total)>;

// Calls work(item, thread) for every item below `count`, on so many threads, or as many as the
// system lets start; this one is thread 0 and does item 0.  What a call throws is thrown here, that
// of the lowest item; items that nobody has begun by then are left out.
template <class Work>
void for_each_item(size_t count, int jobs, Work work) {
  const auto threads = std::min<size_t>(static_cast<size_t>(std::max(1, jobs)), count);
  if (threads <= 1) {
    for (size_t i = 0; i < count; ++i) work(i, size_t{0});
    return;
  }
  std::atomic<size_t> next{1};
  std::mutex mutex;
  std::exception_ptr thrown;
  std::atomic<bool> ended{false};
  size_t thrown_by = count;
  const auto call = [&](size_t i, size_t thread) {
    try {
      work(i, thread);
    } catch (...) {
      ended = true;
      const std::lock_guard lock(mutex);
      if (i < thrown_by) {
        thrown_by = i;
        thrown = std::current_exception();
      }
    }
  };
  const auto run = [&](size_t thread) {
    // Item 0 is always done, the others are begun in their order: whoever throws, all below it are
    // done.
    if (thread == 0) call(0, thread);
    while (!ended) {
      const size_t i = next++;
      if (i >= count) return;
      call(i, thread);
    }
  };
  {
    std::vector<std::jthread> others;
    others.reserve(threads - 1);
    try {
      for (size_t t = 1; t < threads; ++t) others.emplace_back(run, t);
    } catch (const std::system_error&) {
    }
    run(0);
  }
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace stepcast
