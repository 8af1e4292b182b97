// Rooted operations, all_to_all and the v-variants.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "collectives/call/descriptor.h"
#include "tests/collectives/conformance/conformance.h"
#include "tests/collectives/patterns.h"

namespace dl::collectives::testing {
namespace {

using Counts = std::vector<std::size_t>;

// Counts that differ, with zeros among them.
Counts counts_of(int size, std::size_t scale) {
  Counts counts;
  for (int r = 0; r < size; ++r)
    counts.push_back(static_cast<std::size_t>((r * 5 + 2) % 4) * scale);
  return counts;
}
std::size_t sum(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}
std::size_t before(const Counts& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, std::size_t{0});
}

// What `from` sends `to`: no two pairs alike.
Bytes parcel(DType dtype, int from, int to, std::size_t count) {
  return filled(dtype, from, count, static_cast<std::size_t>(to));
}
void append(Bytes& to, const Bytes& more) {
  to.insert(to.end(), more.begin(), more.end());
}

std::size_t part(const Counts& counts, int rank) {
  return counts[static_cast<std::size_t>(rank)];
}
// The parts of all ranks, one behind the other.
Bytes all_parts(DType dtype, const Counts& counts) {
  Bytes all;
  for (int r = 0; r < static_cast<int>(counts.size()); ++r) {
    append(all, filled(dtype, r, part(counts, r)));
  }
  return all;
}
// What the root alone has.
template <typename T>
T on_root(bool is_root, const T& value) {
  return is_root ? value : T();
}

TEST_P(Conformance, ReduceOfEveryDTypeAndOperationToEveryRoot) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    int turn = 0;
    for (const DType dtype : kAllDTypes) {
      for (const ReduceOp op : kAllOps) {
        if (!allowed(dtype, op) || !exact(dtype, op, size)) continue;
        const int root = turn++ % size;
        // Direct, and the chain or (half precision, integer averages) the exchange of raw shares.
        for (const std::size_t count : {0u, 1u, 1001u, 70'001u}) {
          if (count > 2000 && turn % 5 != 0 && !(op == ReduceOp::kAvg)) continue;
          for (const bool in_place : {false, true}) {
            const bool is_root = group.rank() == root;
            Bytes input = filled(dtype, group.rank(), count);
            Bytes output(is_root ? input.size() : 0);
            Bytes& result = in_place ? input : output;
            group
                .reduce({.input = input.data(),
                         .output = is_root ? result.data() : nullptr,
                         .count = count,
                         .dtype = dtype,
                         .op = op,
                         .root = root})
                ->wait();
            for (std::size_t i = 0; is_root && i < count; i = next_look(i, count)) {
              ASSERT_EQ(get(result, dtype, i), rounded(dtype, expected(dtype, op, size, i)))
                  << short_name(dtype) << " " << name_of(op) << " count " << count << " at " << i;
            }
            if (!is_root || !in_place) {
              ASSERT_EQ(input, filled(dtype, group.rank(), count));
            }
          }
        }
      }
    }
  });
}

TEST_P(Conformance, GatherToEveryRoot) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    for (int root = 0; root < size; ++root) {
      for (const std::size_t count : {0u, 1u, 100'003u}) {
        for (const bool in_place : {false, true}) {
          const bool is_root = group.rank() == root;
          const Bytes own = filled(DType::kU16, group.rank(), count);
          Bytes whole(is_root ? own.size() * static_cast<std::size_t>(size) : 0);
          const void* input = own.data();
          if (is_root && in_place && count > 0) {
            std::byte* const place =
                whole.data() + static_cast<std::size_t>(group.rank()) * own.size();
            std::memcpy(place, own.data(), own.size());
            input = place;
          }
          group
              .gather({.input = input,
                       .output = whole.data(),
                       .count = count,
                       .dtype = DType::kU16,
                       .root = root})
              ->wait();
          const Counts counts(static_cast<std::size_t>(size), count);
          ASSERT_EQ(whole, on_root(is_root, all_parts(DType::kU16, counts)))
              << "root " << root << " count " << count;
        }
      }
    }
  });
}

TEST_P(Conformance, ScatterFromEveryRoot) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    for (int root = 0; root < size; ++root) {
      for (const std::size_t count : {0u, 1u, 100'003u}) {
        for (const bool in_place : {false, true}) {
          const bool is_root = group.rank() == root;
          const Counts counts(static_cast<std::size_t>(size), count);
          Bytes whole = on_root(is_root, all_parts(DType::kF64, counts));
          const Bytes wanted = filled(DType::kF64, group.rank(), count);
          Bytes own(wanted.size());
          void* output = own.data();
          if (is_root && in_place) {
            output = whole.data() + static_cast<std::size_t>(group.rank()) * own.size();
          }
          group
              .scatter({.input = whole.data(),
                        .output = output,
                        .count = count,
                        .dtype = DType::kF64,
                        .root = root})
              ->wait();
          if (count > 0) std::memcpy(own.data(), output, own.size());
          ASSERT_EQ(own, wanted) << "root " << root << " count " << count;
        }
      }
    }
  });
}

TEST_P(Conformance, AllToAllInAndOutOfPlace) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    for (const std::size_t count : {0u, 1u, 7u, 150'001u}) {
      for (const bool in_place : {false, true}) {
        Bytes input, wanted;
        for (int r = 0; r < size; ++r) {
          append(input, parcel(DType::kI32, group.rank(), r, count));
          append(wanted, parcel(DType::kI32, r, group.rank(), count));
        }
        Bytes output(input.size());
        Bytes& result = in_place ? input : output;
        group
            .all_to_all({.input = input.data(),
                         .output = result.data(),
                         .count = count,
                         .dtype = DType::kI32})
            ->wait();
        ASSERT_EQ(result, wanted) << "count " << count;
      }
    }
  });
}

TEST_P(Conformance, AllGathervInAndOutOfPlace) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    for (const std::size_t scale : {0u, 1u, 50'001u}) {
      for (const bool in_place : {false, true}) {
        const Counts counts = counts_of(size, scale);
        const Bytes own = filled(DType::kF32, group.rank(), part(counts, group.rank()));
        Bytes whole(sum(counts) * 4);
        const void* input = own.data();
        if (in_place) {
          std::byte* const place = whole.data() + before(counts, group.rank()) * 4;
          std::copy(own.begin(), own.end(), place);
          input = place;
        }
        group.all_gatherv({.input = input, .output = whole.data(), .counts = counts})->wait();
        ASSERT_EQ(whole, all_parts(DType::kF32, counts)) << "scale " << scale;
      }
    }
  });
}

TEST_P(Conformance, ReduceScattervInAndOutOfPlace) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
      for (const std::size_t scale : {0u, 1u, 50'001u}) {
        for (const bool in_place : {false, true}) {
          const Counts counts = counts_of(size, scale);
          const std::size_t count = part(counts, group.rank());
          const std::size_t first = before(counts, group.rank());
          Bytes input = filled(dtype, group.rank(), sum(counts));
          Bytes own(count * size_of(dtype));
          std::byte* const output = in_place ? input.data() + first * size_of(dtype) : own.data();
          group
              .reduce_scatterv({.input = input.data(),
                                .output = output,
                                .counts = counts,
                                .dtype = dtype,
                                .op = ReduceOp::kAvg})
              ->wait();
          std::copy(output, output + own.size(), own.begin());
          for (std::size_t i = 0; i < count; i = next_look(i, count)) {
            ASSERT_EQ(get(own, dtype, i),
                      rounded(dtype, expected(dtype, ReduceOp::kAvg, size, first + i)));
          }
        }
      }
    }
  });
}

TEST_P(Conformance, GathervAndScattervAreEachOthersInverse) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    for (const std::size_t scale : {0u, 1u, 50'001u}) {
      const int root = size - 1;
      const bool is_root = group.rank() == root;
      const Counts counts = counts_of(size, scale);
      const Counts known = on_root(is_root, counts);
      const Bytes own = filled(DType::kI64, group.rank(), part(counts, group.rank()));
      Bytes whole(sum(known) * 8);
      group
          .gatherv({.input = own.data(),
                    .count = own.size() / 8,
                    .output = whole.data(),
                    .counts = known,
                    .dtype = DType::kI64,
                    .root = root})
          ->wait();
      ASSERT_EQ(whole, on_root(is_root, all_parts(DType::kI64, counts))) << "scale " << scale;
      Bytes back(own.size());
      group
          .scatterv({.input = whole.data(),
                     .counts = known,
                     .output = back.data(),
                     .count = back.size() / 8,
                     .dtype = DType::kI64,
                     .root = root})
          ->wait();
      ASSERT_EQ(back, own) << "scale " << scale;
    }
  });
}

TEST_P(Conformance, AllToAllvWithEveryPairsOwnCount) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    const auto count = [](int from, int to, std::size_t scale) {
      return static_cast<std::size_t>((from * 3 + to) % 4) * scale;
    };
    for (const std::size_t scale : {0u, 1u, 40'001u}) {
      Counts send, receive;
      Bytes input, wanted;
      for (int r = 0; r < size; ++r) {
        send.push_back(count(group.rank(), r, scale));
        receive.push_back(count(r, group.rank(), scale));
        append(input, parcel(DType::kU8, group.rank(), r, send.back()));
        append(wanted, parcel(DType::kU8, r, group.rank(), receive.back()));
      }
      Bytes output(wanted.size());
      group
          .all_to_allv({.input = input.data(),
                        .send_counts = send,
                        .output = output.data(),
                        .receive_counts = receive,
                        .dtype = DType::kU8})
          ->wait();
      ASSERT_EQ(output, wanted) << "scale " << scale;
    }
  });
}

TEST_P(Conformance, VVariantsInPlace) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    const int root = size / 2;
    const bool is_root = group.rank() == root;
    for (const std::size_t scale : {0u, 1u, 50'001u}) {
      // As much to each rank as from it.
      Counts each;
      Bytes both, exchanged;
      for (int r = 0; r < size; ++r) {
        each.push_back(static_cast<std::size_t>((group.rank() + r) % 3) * scale);
        append(both, parcel(DType::kI16, group.rank(), r, each.back()));
        append(exchanged, parcel(DType::kI16, r, group.rank(), each.back()));
      }
      group
          .all_to_allv({.input = both.data(),
                        .send_counts = each,
                        .output = both.data(),
                        .receive_counts = each,
                        .dtype = DType::kI16})
          ->wait();
      ASSERT_EQ(both, exchanged) << "scale " << scale;

      const Counts counts = counts_of(size, scale);
      const Bytes own =
          filled(DType::kI16, group.rank(), counts[static_cast<std::size_t>(group.rank())]);
      Bytes wanted;
      for (int r = 0; r < size; ++r) {
        append(wanted, filled(DType::kI16, r, counts[static_cast<std::size_t>(r)]));
      }
      Bytes whole(is_root ? wanted.size() : own.size());
      std::byte* const place = whole.data() + (is_root ? before(counts, root) * 2 : 0);
      std::copy(own.begin(), own.end(), place);
      const std::span<const std::size_t> known =
          is_root ? std::span<const std::size_t>(counts) : std::span<const std::size_t>();
      group
          .gatherv({.input = place,
                    .count = own.size() / 2,
                    .output = whole.data(),
                    .counts = known,
                    .dtype = DType::kI16,
                    .root = root})
          ->wait();
      ASSERT_EQ(whole, is_root ? wanted : own) << "scale " << scale;
      if (!is_root) std::ranges::fill(whole, std::byte{0});
      group
          .scatterv({.input = whole.data(),
                     .counts = known,
                     .output = place,
                     .count = own.size() / 2,
                     .dtype = DType::kI16,
                     .root = root})
          ->wait();
      ASSERT_EQ(whole, is_root ? wanted : own) << "scale " << scale;
    }
  });
}

TEST_P(Conformance, VVariantsMayBeWaitedForInAnyOrder) {
  const int size = Conformance::size();
  run([size](ProcessGroup& group) {
    const Counts counts = counts_of(size, 20'001);
    const std::size_t own = counts[static_cast<std::size_t>(group.rank())];
    const Bytes input = filled(DType::kI32, group.rank(), own);
    const Bytes all = filled(DType::kI32, group.rank(), sum(counts));
    Bytes gathered(all.size()), reduced(input.size());
    const Ref<Work> first = group.all_gatherv(
        {.input = input.data(), .output = gathered.data(), .counts = counts, .dtype = DType::kI32});
    const Ref<Work> second = group.reduce_scatterv(
        {.input = all.data(), .output = reduced.data(), .counts = counts, .dtype = DType::kI32});
    const Ref<Work> third = group.barrier();
    third->wait();
    second->wait();
    first->wait();
    Bytes wanted;
    for (int r = 0; r < size; ++r) {
      append(wanted, filled(DType::kI32, r, counts[static_cast<std::size_t>(r)]));
    }
    ASSERT_EQ(gathered, wanted);
    for (std::size_t i = 0; i < own; i = next_look(i, own)) {
      ASSERT_EQ(get(reduced, DType::kI32, i),
                expected(DType::kI32, ReduceOp::kSum, size, before(counts, group.rank()) + i));
    }
  });
}

TEST_P(Conformance, SendrecvAroundARing) {
  const int size = Conformance::size();
  if (size == 1) return;  // no peers
  run([size](ProcessGroup& group) {
    const int right = (group.rank() + 1) % size;
    const int left = (group.rank() + size - 1) % size;
    for (const std::size_t count : {0u, 1u, 200'001u}) {
      const Bytes out = filled(DType::kI32, group.rank(), count);
      Bytes in(out.size());
      const Ref<Work> work = group.sendrecv(
          {.buffer = out.data(), .count = count, .dtype = DType::kI32, .peer = right},
          {.buffer = in.data(), .count = count, .dtype = DType::kI32, .peer = left});
      work->wait();
      EXPECT_TRUE(work->is_completed());
      ASSERT_EQ(in, filled(DType::kI32, left, count));
    }
  });
}

}  // namespace
}  // namespace dl::collectives::testing
