// Tensors on a fake CUDA device: the stream of each call, the copies that are made, and the waits.
#include "core/device/cuda/cuda.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/device/cuda/module/library.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/loss/loss.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "tests/core/support.h"
#include "tests/support/fake_cuda.h"

namespace dl {
namespace {

constexpr Device kCuda{DeviceType::kCUDA, 0};
constexpr Device kSecond{DeviceType::kCUDA, 1};

class CudaTensor : public testing::Test {
 protected:
  test::FakeRuntime& runtime_ = test::use_fake_cuda();
};

TEST_F(CudaTensor, GoesToADeviceAndBackWithItsLayout) {
  const Tensor x = arange(24).view({2, 3, 4}).to(DType::kF32).permute({2, 0, 1});
  const Tensor there = x.cuda();
  EXPECT_EQ(there.device(), kCuda);
  EXPECT_TRUE(there.is_cuda());
  EXPECT_EQ(there.strides(), x.strides());
  EXPECT_EQ(values<float>(there.cpu()), values<float>(x));
  EXPECT_TRUE(there.to(kCuda).is_same(there));
  EXPECT_EQ(values<float>(there.to(kSecond).cpu()), values<float>(x));
}

TEST_F(CudaTensor, ASliceTravelsAsWhatItShows) {
  const Tensor x = arange(10);
  const Tensor there = x.slice(0, 1, 9, 3).cuda();
  EXPECT_EQ(values<int>(there.cpu()), (std::vector<int>{1, 4, 7}));
  EXPECT_EQ(values<int>(tensor({1, 2}).view({2, 1}).expand({2, 2}).cuda().cpu()),
            (std::vector<int>{1, 1, 2, 2}));
  EXPECT_EQ(empty({0, 3}).cuda().sizes(), Shape({0, 3}));
}

TEST_F(CudaTensor, CopyTakesFromAnyDeviceAndDtype) {
  Tensor there = zeros({2, 2}, {.dtype = DType::kF64, .device = kCuda});
  there.copy_(tensor({1, 2}));
  EXPECT_EQ(values<int>(there.cpu()), (std::vector<int>{1, 2, 1, 2}));
  Tensor here = zeros({2, 4});
  here.slice(1, 0, 4, 2).copy_(there);
  EXPECT_EQ(values<int>(here), (std::vector<int>{1, 0, 2, 0, 1, 0, 2, 0}));
}

TEST_F(CudaTensor, FactoriesTakeADevice) {
  EXPECT_EQ(tensor({1.5, 2.5}, {.device = kCuda}).device(), kCuda);
  EXPECT_EQ(arange(3, {.device = kCuda}).device(), kCuda);
  EXPECT_EQ(ones({2}, {.device = kSecond}).device(), kSecond);
}

TEST_F(CudaTensor, PrintsItsDeviceAndGivesItsItem) {
  EXPECT_EQ(tensor({1, 2}, {.device = kCuda}).str(), "tensor([1, 2], device='cuda:0')");
  EXPECT_EQ(tensor(2.5, {.device = kCuda}).item<double>(), 2.5);
  EXPECT_ERROR(tensor({1}, {.device = kCuda}).at<std::int64_t>({0}), kInvalidArgument,
               "at: the tensor is on cuda:0; look at its cpu()");
}

TEST_F(CudaTensor, GradientsFlowOnTheDeviceAndAcross) {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  Tensor leaf = x.clone().requires_grad_();
  const Tensor there = leaf.cuda();
  sum(mul(there.slice(0, 0, 2), there.slice(0, 1, 3)) * 2.0).backward();
  EXPECT_EQ(leaf.grad().device(), Device{});
  EXPECT_EQ(values<float>(leaf.grad()), (std::vector<float>{4, 8, 4}));

  Tensor on_device = x.cuda().requires_grad_();
  const Tensor target = tensor({2}).cuda();
  cross_entropy(on_device.view({1, 3}), target).backward();
  EXPECT_EQ(on_device.grad().device(), kCuda);
}

TEST_F(CudaTensor, OperandsOnTwoDevicesAreRefused) {
  EXPECT_ERROR(add(ones({2}), ones({2}).cuda()), kInvalidArgument,
               "add: one tensor is on cpu, the other on cuda:0; move one of them with to()");
}

TEST_F(CudaTensor, OnlyPinnedMemoryIsCopiedWithoutWaiting) {
  const Tensor pageable = ones({1000});
  const Tensor pinned = pageable.pin_memory();
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_TRUE(pinned.slice(0, 10, 20).is_pinned());
  EXPECT_FALSE(pageable.is_pinned());
  EXPECT_EQ(values<float>(pinned), values<float>(pageable));
  std::size_t before = runtime_.waits;
  pinned.to(kCuda, {.non_blocking = true});
  EXPECT_EQ(runtime_.waits, before);
  pinned.to(kCuda);
  pageable.to(kCuda, {.non_blocking = true});
  EXPECT_EQ(runtime_.waits, before + 2);
}

// Whichever thread asks: a loader's have named no device.
TEST_F(CudaTensor, PinnedMemoryUsesADeviceOfTheProcess) {
  cuda::set_device(cuda::current_device());  // at the latest now
  const int home = cuda::home_device();
  const cuda::DeviceGuard other(1 - home);
  std::thread([] { ones({3 << 20}).pin_memory(); }).join();
  EXPECT_EQ(runtime_.pinned_for, home);
}

TEST_F(CudaTensor, MemoryIsCountedUnderPyTorchsNames) {
  const std::int64_t before = cuda::memory_allocated(1);
  const Tensor x = empty({1000}, {.device = kSecond});
  EXPECT_EQ(cuda::memory_allocated(1), before + 4096);
  EXPECT_EQ(cuda::memory_stats(1).at("allocated_bytes.all.current"), before + 4096);
  EXPECT_GE(cuda::max_memory_reserved(1), std::int64_t{2} << 20);
}

TEST_F(CudaTensor, RandomTensorsAreOfThePhiloxStream) {
  Generator there(3);
  Generator here(3);
  const Tensor integers = randint(5, 90, {33}, {.dtype = DType::kU8, .device = kCuda}, there);
  const Tensor wanted = empty({33}, {.dtype = DType::kU8});
  detail::philox_fill_randint(wanted, 5, 90, here);
  EXPECT_EQ(integers.device(), kCuda);
  EXPECT_EQ(values<int>(integers.cpu()), values<int>(wanted));

  const Tensor order = randperm(19, {.device = kCuda}, there);
  EXPECT_EQ(order.device(), kCuda);
  EXPECT_EQ(values<int>(order.cpu()), values<int>(detail::philox_randperm(19, Device{}, here)));
  const Tensor p = rand({21});
  EXPECT_EQ(values<float>(bernoulli(p.cuda(), there).cpu()),
            values<float>(detail::philox_bernoulli(p, here)));

  EXPECT_ERROR(randint(0, 300, {3}, {.dtype = DType::kU8, .device = kCuda}), kInvalidArgument,
               "randint: the range [0, 300) does not fit the dtype of the result");
  EXPECT_ERROR(randperm(3, {.dtype = DType::kI32, .device = kCuda}), kDType,
               "randperm: int32 is not supported; wanted int64");
}

TEST_F(CudaTensor, StreamsAndDevicesAreTheThreadsOwn) {
  EXPECT_EQ(cuda::current_device(), 0);
  {
    const cuda::DeviceGuard second(1);
    EXPECT_EQ(ones({1}).cuda().device(), kSecond);
    const cuda::OwnedStream own(0);
    {
      const cuda::StreamGuard guard(own.get());
      EXPECT_EQ(cuda::current_device(), 0);
      EXPECT_EQ(cuda::current_stream().handle, own.get().handle);
    }
    EXPECT_EQ(cuda::current_device(), 1);
    EXPECT_NE(cuda::current_stream(0).handle, own.get().handle);
  }
  EXPECT_EQ(cuda::current_device(), 0);
  EXPECT_ERROR(cuda::set_device(2), kInvalidArgument,
               "cuda:2: this process sees 2 devices, cuda:0 to cuda:1");
}

// Memory that a stream was given work on may go later than the stream's owner.
TEST_F(CudaTensor, AStreamOutlivesItsOwnerAndServesTheNext) {
  const std::size_t ended = runtime_.ended_streams;
  const Tensor x = empty({3 << 20}, {.device = kCuda});
  void* handle = nullptr;
  {
    cuda::OwnedStream own(0);
    const cuda::OwnedStream urgent(0, true);
    handle = own.get().handle;
    EXPECT_NE(handle, urgent.get().handle);
    cuda::record_stream(0, x.storage()->data(), own.get());
    cuda::OwnedStream moved(std::move(own));
  }
  EXPECT_EQ(runtime_.ended_streams, ended);
  EXPECT_EQ(cuda::OwnedStream(0).get().handle, handle);
  EXPECT_NE(cuda::OwnedStream(0, true).get().handle, handle);
  EXPECT_NE(cuda::OwnedStream(1).get().handle, handle);
  {
    cuda::OwnedStream captured(0);
    runtime_.begin_capture(captured.get().handle);
  }
  EXPECT_EQ(runtime_.ended_streams, ended + 1) << "what a capture still has is not the next one's";
}

TEST(Cuda, ReadsDevicesAsPyTorchWritesThem) {
  test::use_fake_cuda();
  EXPECT_EQ(cuda::parse_device("cpu"), Device{});
  EXPECT_EQ(cuda::parse_device("cuda"), kCuda);
  EXPECT_EQ(cuda::parse_device("cuda:1"), kSecond);
  for (const char* text : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", ""}) {
    EXPECT_THROW(cuda::parse_device(text), Error) << text;
  }
}

// For example, a python3 on the usual path may link into a virtual environment.
TEST(Cuda, LooksForLibrariesInThePythonThatALinkLeadsTo) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(::testing::TempDir()) / fmt::format("dlrun_python_{}", ::getpid());
  const fs::path libraries = root / "venv/lib/python3.12/site-packages/nvidia/cu13/lib";
  fs::create_directories(libraries);
  for (const char* folder : {"usual/bin", "venv/bin"}) fs::create_directories(root / folder);
  std::ofstream(root / "python3") << "#!/bin/sh\n";
  fs::create_symlink(root / "python3", root / "venv/bin/python3");
  fs::create_symlink("../../venv/bin/python3", root / "usual/bin/python3");
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (root / "usual/bin").c_str(), 1);
  const std::vector<fs::path> found = cuda::detail::library_folders();
  ::setenv("PATH", path.c_str(), 1);
  fs::remove_all(root);
  EXPECT_NE(std::ranges::find(found, libraries), found.end());
}

TEST(Cuda, KnowsWhichLibraryTheLoaderMisses) {
  EXPECT_EQ(cuda::detail::missing_library(
                "libcudnn.so.9: cannot open shared object file: No such file or directory"),
            "libcudnn.so.9");
  EXPECT_EQ(cuda::detail::missing_library("/a/b.so: cannot open shared object file: No such file"),
            "");
  EXPECT_EQ(cuda::detail::missing_library("/a/b.so: undefined symbol: x"), "");
}

}  // namespace
}  // namespace dl
