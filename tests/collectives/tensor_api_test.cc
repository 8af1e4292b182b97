#include "collectives/tensor/tensor_api.h"

#include <gtest/gtest.h>

#include <latch>

#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/tensor/factories.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives {
namespace {

using namespace testing;

Tensor numbers(std::int64_t count, float first) {
  Tensor x = empty({count}, {.dtype = DType::kF32});
  auto* const data = static_cast<float*>(x.data_ptr());
  for (std::int64_t i = 0; i < count; ++i) data[i] = first + static_cast<float>(i);
  return x;
}

float at(const Tensor& x, std::int64_t i) {
  return static_cast<const float*>(x.data_ptr())[i];
}

TEST(TensorCollectives, KeepTheirTensorsUntilTheyAreOver) {
  run_ranks(2, [](ProcessGroup& group) {
    Ref<Work> work;
    {
      const Tensor x = numbers(100'000, 0);
      work = all_reduce(group, x, {.op = ReduceOp::kAvg});
    }
    work->wait();
    const Tensor y = numbers(1000, static_cast<float>(group.rank()));
    all_reduce(group, y)->wait();
    EXPECT_EQ(at(y, 10), 21);
  });
}

// They lie channels-last underneath (core/tensor/layout/deferred.h).
TEST(TensorCollectives, TakeResultsOfPoolingRowByRow) {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor y = max_pool2d(numbers(120, 0).view({2, 3, 4, 5}), {.kernel = 1, .stride = 1});
    all_reduce(group, y)->wait();
    for (std::int64_t i = 0; i < 120; ++i) EXPECT_EQ(at(y, i), 2 * static_cast<float>(i));
    EXPECT_EQ(at(relu(y), 7), 14);
  });
}

TEST(TensorCollectives, OnSymmetricTensorsOfAnyBackend) {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor x = symmetric_empty({100, 301}, DType::kF32, group);
    EXPECT_EQ(x.sizes(), Shape({100, 301}));
    static_cast<float*>(x.data_ptr())[30'099] = static_cast<float>(group.rank() + 1);
    all_reduce(group, x)->wait();
    EXPECT_EQ(at(x, 30'099), 3);
    const Ref<SymmetricMemory> registered = register_buffer(numbers(5000, 0), group);
    EXPECT_FALSE(registered->is_shared());
    EXPECT_FALSE(registered->why_not().empty());
  });
}

TEST(TensorCollectives, RefuseSymmetricTensorsOfAFailedOperation) {
  rendezvous::MemoryStore store;
  std::latch made(2), failed(2);
  run_threads(2, [&](int rank) {
    const Ref<ProcessGroup> group =
        make_shm_group({.rank = rank, .size = 2, .store = &store, .connect_timeout = 30s});
    const Tensor x = symmetric_empty({100'000}, DType::kF32, *group);
    made.arrive_and_wait();
    if (rank == 0) {
      EXPECT_EQ(
          thrown_by([&] { all_reduce(*group, x, {.call = {.timeout = 100ms}})->wait(); }).kind,
          ErrorKind::kTimeout);
      EXPECT_EQ(thrown_by([&] { all_reduce(*group, x); }).kind, ErrorKind::kAborted);
      static_cast<float*>(x.data_ptr())[99'999] = 1;  // it stays readable and writable
    }
    failed.arrive_and_wait();
  });
}

TEST(TensorCollectives, MarkWhatTheyWriteAsChanged) {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor x = numbers(10, static_cast<float>(group.rank()));
    const std::uint32_t before = x.version();
    broadcast(group, x, {.root = 1})->wait();
    EXPECT_EQ(at(x, 0), 1);
    EXPECT_EQ(x.version() != before, group.rank() == 0);
  });
}

TEST(TensorCollectives, GatherAndScatter) {
  run_ranks(3, [](ProcessGroup& group) {
    const Tensor part = numbers(4, static_cast<float>(10 * group.rank()));
    const Tensor whole = numbers(12, 0);
    all_gather(group, whole, part)->wait();
    EXPECT_EQ(at(whole, 5), 11);
    reduce_scatter(group, part, whole)->wait();
    EXPECT_EQ(at(part, 1), 3 * (static_cast<float>(10 * group.rank()) + 1));
  });
}

TEST(TensorCollectives, WithARootNeedTheWholeOnlyThere) {
  run_ranks(3, [](ProcessGroup& group) {
    const bool is_root = group.rank() == 1;
    const Tensor own = numbers(4, static_cast<float>(10 * group.rank()));
    const Tensor whole = is_root ? numbers(12, 0) : Tensor();
    gather(group, whole, own, {.root = 1})->wait();
    if (is_root) {
      EXPECT_EQ(at(whole, 9), 21);
    }
    const Tensor back = numbers(4, 0);
    scatter(group, back, whole, {.root = 1})->wait();
    EXPECT_EQ(at(back, 3), at(own, 3));
    reduce(group, back, {.op = ReduceOp::kMax, .root = 1})->wait();
    EXPECT_EQ(at(back, 0), is_root ? 20 : static_cast<float>(10 * group.rank()));
  });
}

TEST(TensorCollectives, ExchangePartsByRows) {
  run_ranks(2, [](ProcessGroup& group) {
    const auto rank = static_cast<std::int64_t>(group.rank());
    const auto matrix = [](std::int64_t rows, float first) {
      return numbers(rows * 2, first).view({rows, 2});
    };
    // Rank 0 has one row, rank 1 three.
    const std::size_t rows[] = {1, 3};
    const Tensor own = matrix(rank == 0 ? 1 : 3, static_cast<float>(100 * rank));
    const Tensor whole = matrix(4, 0);
    all_gatherv(group, whole, own, rows)->wait();
    EXPECT_EQ(at(whole, 1), 1);
    EXPECT_EQ(at(whole, 2), 100);
    EXPECT_EQ(at(whole, 7), 105);
    reduce_scatterv(group, own, whole, rows)->wait();
    EXPECT_EQ(at(own, 0), rank == 0 ? 0 : 200);
    gatherv(group, rank == 0 ? whole : Tensor(), own, rows)->wait();
    scatterv(group, own, rank == 0 ? whole : Tensor(), rows)->wait();
    EXPECT_EQ(at(own, 0), rank == 0 ? 0 : 200);
    // Each sends its first row to rank 0 and the rest to rank 1.
    const std::size_t send[] = {1, static_cast<std::size_t>(rank == 0 ? 0 : 2)};
    const std::size_t to_first[] = {1, 1};
    const std::size_t to_second[] = {0, 2};
    const Tensor got = matrix(2, 0);
    all_to_allv(group, got, rank == 0 ? to_first : to_second, own, send)->wait();
    EXPECT_EQ(at(got, 0), rank == 0 ? 0 : 204);
    EXPECT_EQ(at(got, 2), rank == 0 ? 200 : 208);
    EXPECT_EQ(thrown_by([&] { all_gatherv(group, whole, got, send); }).kind, ErrorKind::kShape);
    const Tensor pair = numbers(2, static_cast<float>(10 * rank));
    all_to_all(group, pair, pair)->wait();
    EXPECT_EQ(at(pair, 1 - rank), rank == 0 ? 10 : 1);
  });
}

TEST(TensorCollectives, MessagesGoAllAtOnce) {
  run_ranks(3, [](ProcessGroup& group) {
    const int right = (group.rank() + 1) % 3;
    const int left = (group.rank() + 2) % 3;
    const Tensor own = numbers(4, static_cast<float>(10 * group.rank()));
    const Tensor got = numbers(4, 0);
    const std::uint32_t before = got.version();
    sendrecv(group, own, {.peer = right}, got, {.peer = left})->wait();
    EXPECT_EQ(at(got, 3), static_cast<float>(10 * left + 3));
    EXPECT_NE(got.version(), before);
    const Tensor from_left = numbers(4, 0), from_right = numbers(4, 0);
    const TensorMessage messages[] = {TensorSend{own, {.peer = left, .tag = 1}},
                                      TensorSend{own, {.peer = right, .tag = 2}},
                                      TensorRecv{from_right, {.peer = right, .tag = 1}},
                                      TensorRecv{from_left, {.peer = left, .tag = 2}}};
    batch(group, messages)->wait();
    EXPECT_EQ(at(from_left, 0), static_cast<float>(10 * left));
    EXPECT_EQ(at(from_right, 0), static_cast<float>(10 * right));
    const TensorMessage bad[] = {TensorSend{own, {.peer = right}}, TensorRecv{Tensor(), {}}};
    EXPECT_EQ(thrown_by([&] { batch(group, bad); }).text, "recv: tensor is an undefined tensor");
    group.barrier()->wait();
  });
}

TEST(TensorCollectives, CoalescedAreReducedInPlace) {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor tensors[] = {numbers(3, 1), numbers(1000, 5)};
    all_reduce_coalesced(group, tensors)->wait();
    EXPECT_EQ(at(tensors[0], 2), 6);
    EXPECT_EQ(at(tensors[1], 999), 2 * 1004);
  });
}

TEST(TensorCollectives, CoalescedListsHaveAnOutputForEachInput) {
  run_ranks(2, [](ProcessGroup& group) {
    const Tensor inputs[] = {numbers(3, static_cast<float>(1 + group.rank())),
                             numbers(1000, static_cast<float>(5 + group.rank()))};
    const Tensor outputs[] = {numbers(6, 0), numbers(2000, 0)};
    const auto before = outputs[1].version();
    all_gather_coalesced(group, outputs, inputs)->wait();
    EXPECT_EQ(at(outputs[0], 3), 2);
    EXPECT_EQ(at(outputs[1], 1999), 1005);
    EXPECT_NE(outputs[1].version(), before);
    EXPECT_EQ(thrown_by([&] { all_gather_coalesced(group, std::span(outputs, 1), inputs); }).text,
              "all_gather_coalesced: 1 outputs for 2 inputs");
    reduce_scatter_coalesced(group, inputs, outputs, {.op = ReduceOp::kMax})->wait();
    EXPECT_EQ(at(inputs[1], 999), group.rank() == 0 ? 1004 : 1005);
    EXPECT_EQ(thrown_by([&] { all_gather_coalesced(group, inputs, inputs); }).kind,
              ErrorKind::kShape);
    group.barrier()->wait();
  });
}

TEST(TensorCollectives, RefuseWhatDoesNotFit) {
  run_ranks(2, [](ProcessGroup& group) {
    EXPECT_EQ(thrown_by([&] { all_gather(group, numbers(5, 0), numbers(2, 0)); }).text,
              "all_gather: output has 5 elements, wanted 4 for 2 ranks with 2 each");
    EXPECT_EQ(thrown_by([&] { all_reduce(group, Tensor()); }).kind, ErrorKind::kInvalidArgument);
    const Tensor square = empty({3, 3}, {.dtype = DType::kF32});
    EXPECT_EQ(thrown_by([&] { all_reduce(group, square.transpose(0, 1)); }).kind,
              ErrorKind::kInvalidArgument);
  });
}

}  // namespace
}  // namespace dl::collectives
