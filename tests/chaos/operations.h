// Random operations of a group, which check what they give. One thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "collectives/api/process_group.h"

namespace dl::tests {

using collectives::ProcessGroup;
using collectives::ReduceOp;

// The same on every rank: all draw from one seed.
class Operations {
 public:
  static constexpr std::size_t kMost = 200'000;  // elements

  Operations(ProcessGroup& group, std::uint64_t seed)
      : group_(group),
        ranks_(group.size()),
        random_(seed),
        buffers_(make_ref<Buffers>(static_cast<std::size_t>(ranks_) * kMost)) {}

  // One that the others call otherwise than the odd rank does.
  void disagree(bool is_odd, int how) {
    const auto reduce = [&](std::size_t count, ReduceOp op) {
      group_.all_reduce({.input = input(), .output = output(), .count = count, .op = op})->wait();
    };
    if (!is_odd) return reduce(1000, ReduceOp::kSum);
    switch (how % 4) {
      case 0:
        return group_.barrier()->wait();
      case 1:
        return reduce(1001, ReduceOp::kSum);
      case 2:
        return reduce(1000, ReduceOp::kMax);
      default:
        group_.broadcast({.buffer = output(), .count = 1000, .root = 0})->wait();
    }
  }

  // False if the result is wrong.
  bool next() {
    const auto count = static_cast<std::size_t>(std::exp2(draw(0, 1750) / 100.0));
    const int root = draw(0, ranks_ - 1);
    const int rank = group_.rank();
    float* const in = input();
    float* const out = output();
    switch (draw(0, 16)) {
      case 0:
      case 1:
        return all_reduce(count);
      case 2:
        group_.broadcast({.buffer = out, .count = count, .root = root})->wait();
        return true;
      case 3:
        group_.all_gather({.input = in, .output = out, .count = count})->wait();
        return true;
      case 4:
        group_.reduce_scatter({.input = in, .output = out, .count = count})->wait();
        return true;
      case 5:
        group_.reduce({.input = in, .output = out, .count = count, .root = root})->wait();
        return true;
      case 6:
        group_.gather({.input = in, .output = out, .count = count, .root = root})->wait();
        return true;
      case 7:
        group_.scatter({.input = in, .output = out, .count = count, .root = root})->wait();
        return true;
      case 8:
        group_.all_to_all({.input = in, .output = out, .count = count})->wait();
        return true;
      case 9:
        group_
            .sendrecv({.buffer = in, .count = count, .peer = (rank + 1) % ranks_},
                      {.buffer = out, .count = count, .peer = (rank + ranks_ - 1) % ranks_})
            ->wait();
        return true;
      case 10:
        draw_counts();
        group_.all_gatherv({.input = in, .output = out, .counts = counts_})->wait();
        return true;
      case 11:
        draw_counts();
        group_.reduce_scatterv({.input = in, .output = out, .counts = counts_})->wait();
        return true;
      case 12:
        draw_counts();
        group_
            .gatherv({.input = in,
                      .count = counts_[static_cast<std::size_t>(rank)],
                      .output = out,
                      .counts = counts_,
                      .root = root})
            ->wait();
        return true;
      case 13:
        draw_counts();
        group_
            .scatterv({.input = in,
                       .counts = counts_,
                       .output = out,
                       .count = counts_[static_cast<std::size_t>(rank)],
                       .root = root})
            ->wait();
        return true;
      case 14:
        // What rank r sends to s is the r + s'th count, so that s expects as much.
        draw_counts();
        std::ranges::rotate(counts_, counts_.begin() + rank);
        group_
            .all_to_allv(
                {.input = in, .send_counts = counts_, .output = out, .receive_counts = counts_})
            ->wait();
        return true;
      case 15:
        return gather_messages(count, root);
      default:
        group_.barrier()->wait();
        return true;
    }
  }

 private:
  void draw_counts() {
    counts_.resize(static_cast<std::size_t>(ranks_));
    for (std::size_t& count : counts_) {
      count = static_cast<std::size_t>(std::exp2(draw(0, 170) / 10.0)) - 1;
    }
  }

  // Everybody sends the root its rank, which takes them as they come. With a tag of their own: who
  // has sent goes on, and its next message may come before another's first.
  bool gather_messages(std::size_t count, int root) {
    const std::uint32_t tag = ++last_tag_;
    float* const buffer = input();
    if (group_.rank() != root) {
      std::fill_n(buffer, count, static_cast<float>(group_.rank()));
      group_.send({.buffer = buffer, .count = count, .peer = root, .tag = tag})->wait();
      return true;
    }
    std::vector<Ref<collectives::Work>> works;
    for (int k = 1; k < ranks_; ++k) {
      works.push_back(group_.recv({.buffer = buffer + static_cast<std::size_t>(k) * kMost,
                                   .count = count,
                                   .peer = collectives::kAnySource,
                                   .tag = tag,
                                   .call = {.keep_alive = buffers_}}));
    }
    bool is_right = true;
    for (int k = 1; k < ranks_; ++k) {
      const Ref<collectives::Work>& work = works[static_cast<std::size_t>(k) - 1];
      work->wait();
      const float* const got = buffer + static_cast<std::size_t>(k) * kMost;
      const auto from = static_cast<float>(work->source().value());
      is_right = is_right && std::all_of(got, got + count, [&](float x) { return x == from; });
    }
    return is_right;
  }

  struct Buffers final : RefCounted {
    explicit Buffers(std::size_t count) : in(count), out(count) {}
    std::vector<float> in, out;
  };

  float* input() const noexcept { return buffers_->in.data(); }
  float* output() const noexcept { return buffers_->out.data(); }
  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  // Two under way at once, waited for out of order.
  bool all_reduce(std::size_t count) {
    const auto sum = static_cast<float>(ranks_ * (ranks_ + 1) / 2);
    float* const first = output();
    float* const second = first + kMost;
    std::fill_n(first, count, static_cast<float>(group_.rank() + 1));
    std::fill_n(second, count, static_cast<float>(group_.rank() + 1));
    // If a wait throws, the other operation may still run.
    const collectives::CallOptions options{.keep_alive = buffers_};
    const auto start = [&](float* data) {
      return group_.all_reduce({.input = data, .output = data, .count = count, .call = options});
    };
    const auto a = start(first);
    const auto b = start(second);
    b->wait();
    a->wait();
    const auto is_right = [&](const float* x) {
      return std::all_of(x, x + count, [&](float v) { return v == sum; });
    };
    return is_right(first) && is_right(second);
  }

  ProcessGroup& group_;
  const int ranks_;
  std::mt19937_64 random_;
  const Ref<Buffers> buffers_;
  std::vector<std::size_t> counts_;
  std::uint32_t last_tag_ = 0;
};

}  // namespace dl::tests
