// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/python_list.h"

#include <charconv>

namespace stepcast {
namespace {

// Recursive descent; a number is a list of one that is marked as such.
class PythonReader {
 public:
  explicit PythonReader(std::string_view text) : text_(text) {}

  struct Result {
    bool list = false;
    std::vector<int64_t> items;
  };

  std::optional<Result> read() {
    Result r = sum();
    blanks();
    if (!ok_ || at_ != text_.size()) return {};
    return r;
  }

 private:
  static constexpr size_t kMost = 100'000;
  static constexpr int kMostLevels = 32;

  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Result fail() {
    ok_ = false;
    return {};
  }

  Result sum() {
    Result left = product();
    while (ok_ && take('+')) left = add(left, product());
    return left;
  }

  Result product() {
    Result left = atom();
    while (ok_) {
      if (take('*')) {
        left = times(left, atom());
      } else if (take('/')) {
        take('/');
        const Result right = atom();
        if (!ok_ || left.list || right.list || right.items.front() == 0) return fail();
        left.items.front() /= right.items.front();
      } else {
        return left;
      }
    }
    return left;
  }

  Result atom() {
    if (++level_ > kMostLevels) return fail();
    Result r;
    if (take('(')) {
      r = sum();
      if (!take(')')) return fail();
    } else if (take('[')) {
      r.list = true;
      while (ok_ && !take(']')) {
        const Result item = sum();
        if (!ok_ || item.list || r.items.size() >= kMost) return fail();
        r.items.push_back(item.items.front());
        if (!take(',')) {
          if (!take(']')) return fail();
          break;
        }
      }
    } else {
      r = number();
    }
    --level_;
    return r;
  }

  Result number() {
    blanks();
    int64_t n = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
    if (error != std::errc() || n < 0 || n > 1'000'000'000) return fail();
    at_ = static_cast<size_t>(end - text_.data());
    return {false, {n}};
  }

  Result add(Result a, const Result& b) {
    if (!ok_ || a.list != b.list || a.items.size() + b.items.size() > kMost) return fail();
    if (a.list)
      a.items.insert(a.items.end(), b.items.begin(), b.items.end());
    else
      a.items.front() += b.items.front();
    return a;
  }

  Result times(const Result& a, const Result& b) {
    if (!ok_ || (a.list && b.list)) return fail();
    if (!a.list && !b.list) {
      int64_t product = 0;
      if (__builtin_mul_overflow(a.items.front(), b.items.front(), &product)) return fail();
      return {false, {product}};
    }
    const Result& list = a.list ? a : b;
    const int64_t n = (a.list ? b : a).items.front();
    Result r{true, {}};
    if (static_cast<uint64_t>(n) * std::max<size_t>(1, list.items.size()) > kMost) return fail();
    for (int64_t i = 0; i < n; ++i)
      r.items.insert(r.items.end(), list.items.begin(), list.items.end());
    return r;
  }

  std::string_view text_;
  size_t at_ = 0;
  int level_ = 0;
  bool ok_ = true;
};

}  // namespace

std::optional<std::vector<int64_t>> python_list(std::string_view text) {
  const auto r = PythonReader(text).read();
  if (!r || !r->list) return {};
  return r->items;
}

std::optional<int64_t> python_whole(std::string_view text) {
  const auto r = PythonReader(text).read();
  if (!r || r->list) return {};
  return r->items.front();
}

}  // namespace stepcast
