// The host device itself: that it finds what a GPU would answer with wrong numbers or an error.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <vector>

#include "tests/host_device/kernel.h"
#include "tests/host_device/stream.h"

namespace dl::host_device {
namespace {

constexpr unsigned kCount = 64;

cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0), cudaSuccess);
  return stream;
}
cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  return event;
}

// Each thread hands its number to the one that is opposite.
template <bool kWaits>
void exchange(unsigned* out) {
  __shared__ unsigned numbers[kCount];
  numbers[threadIdx.x] = kCount * blockIdx.x + threadIdx.x;
  if (kWaits) __syncthreads();
  out[kCount * blockIdx.x + threadIdx.x] = numbers[kCount - 1 - threadIdx.x];
}
void half_waits() {
  if (threadIdx.x % 2 == 0) __syncthreads();
}

int wrong_after(void (*kernel)(unsigned*)) {
  constexpr unsigned kBlocks = 3;
  std::vector<unsigned> out(kBlocks * kCount);
  const cudaStream_t stream = make_stream();
  kernel % config(kBlocks, kCount, 0, stream)(out.data());
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  int wrong = 0;
  for (unsigned i = 0; i < out.size(); ++i) {
    wrong += out[i] != i / kCount * kCount + kCount - 1 - i % kCount;
  }
  return wrong;
}

TEST(Grid, ThreadsMeetAtABarrier) {
  EXPECT_EQ(wrong_after(exchange<true>), 0);
}

TEST(Grid, AMissingBarrierIsSeen) {
  EXPECT_GE(wrong_after(exchange<false>), static_cast<int>(kCount));
}

TEST(Grid, ABarrierThatSomeDoNotReachEndsTheProgram) {
  EXPECT_DEATH(run_grid(1, kCount, half_waits), "a barrier that some threads");
}

TEST(Grid, LaunchesThatADeviceRefusesAreErrors) {
  exchange<true> % config(0, kCount, 0, nullptr)(static_cast<unsigned*>(nullptr));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  exchange<true> % config(1, 2048, 0, nullptr)(static_cast<unsigned*>(nullptr));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Stream, RunsLaterAndInOrder) {
  const cudaStream_t stream = make_stream();
  std::promise<void> go;
  int value = 0;
  enqueue(stream, [&] { go.get_future().wait(); });
  enqueue(stream, [&] { value = value * 10 + 1; });
  enqueue(stream, [&] { value = value * 10 + 2; });
  const cudaEvent_t event = make_event();
  EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_EQ(value, 0);
  go.set_value();
  EXPECT_EQ(cudaEventSynchronize(event), cudaSuccess);
  EXPECT_EQ(value, 12);
}

TEST(Stream, AnotherWaitsForAnEventOnly) {
  const cudaStream_t first = make_stream();
  const cudaStream_t second = make_stream();
  const cudaEvent_t event = make_event();
  std::promise<void> go;
  bool passed = false;
  bool seen = false;
  enqueue(second, [] {});
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  enqueue(first, [&] {
    go.get_future().wait();
    passed = true;
  });
  EXPECT_EQ(cudaEventRecord(event, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
  enqueue(second, [&] { seen = passed; });
  go.set_value();
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_TRUE(seen);
}

TEST(Memory, CopiesFromPageableMemoryTakeItAtOnce) {
  const cudaStream_t stream = make_stream();
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, sizeof(int)), cudaSuccess);
  std::promise<void> go;
  enqueue(stream, [&] { go.get_future().wait(); });
  int value = 7;
  EXPECT_EQ(cudaMemcpyAsync(device, &value, sizeof value, cudaMemcpyDefault, stream), cudaSuccess);
  value = 8;
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, sizeof(int), cudaHostAllocPortable), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(pinned, device, sizeof value, cudaMemcpyDefault, stream), cudaSuccess);
  EXPECT_NE(*static_cast<int*>(pinned), 7) << "the copy to pinned memory was not waited for";
  go.set_value();
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(*static_cast<int*>(pinned), 7);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(Memory, EndsWithAGuardPage) {
  std::size_t free = 0;
  std::size_t total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, total + 1), cudaErrorMemoryAllocation);
  ASSERT_EQ(cudaMalloc(&data, 4096), cudaSuccess);
  EXPECT_DEATH(static_cast<volatile char*>(data)[4096] = 1, "the host, .* writes at offset 4096");
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST(Capture, RunsWhatWasRecordedAtEachLaunch) {
  const cudaStream_t stream = make_stream();
  const cudaStream_t side = make_stream();
  const cudaEvent_t fork = make_event();
  const cudaEvent_t join = make_event();
  int value = 1;
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(fork), cudaErrorStreamCaptureUnsupported) << "this breaks the capture";
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);

  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(side, fork, 0), cudaSuccess);
  enqueue(side, [&] { value *= 3; });
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnjoined);

  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(fork, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(side, fork, 0), cudaSuccess);
  enqueue(side, [&] { value *= 3; });
  EXPECT_EQ(cudaEventRecord(join, side), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, join, 0), cudaSuccess);
  enqueue(stream, [&] { value += 1; });
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(value, 1);
  cudaGraphExec_t ready = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&ready, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(ready, stream), cudaSuccess);
  EXPECT_EQ(cudaGraphExecDestroy(ready), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(value, 13);
  cudaGetLastError();
}

}  // namespace
}  // namespace dl::host_device
