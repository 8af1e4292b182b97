// What cuDNN's searches have found is kept in files, and read by later runs: here by later threads,
// which have no plans of their own.
#include <dlfcn.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>

#include "core/device/math_flags.h"
#include "core/ops/conv/conv.h"
#include "core/ops/norm/norm.h"
#include "tests/core/cuda/on_device.h"
#include "tests/support/temp_dir.h"

namespace dl::testing {
namespace {

namespace fs = std::filesystem;

// A function of the host device (tests/host_device), or null on a GPU.
template <typename Function>
Function* of_host_device(const char* name) {
  void* const library = dlopen("libhost_device.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  auto* const found = reinterpret_cast<Function*>(dlsym(library, name));
  dlclose(library);
  return found;
}

// Graphs that were compiled and convolutions that were timed. Only the host device counts them.
std::optional<long> searches() {
  auto* const count = of_host_device<long()>("dl_host_device_search_count");
  return count != nullptr ? std::optional(count()) : std::nullopt;
}

class CudnnPlanStore : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    backends::cudnn::benchmark = true;
    ::setenv("DLRUN_CUDNN_CACHE", folder_.path().c_str(), 1);
  }
  void TearDown() override {
    backends::cudnn::benchmark = false;
    ::setenv("DLRUN_CUDNN_CACHE", "off", 1);
  }

  // A convolution and a batch norm with their gradients.
  static std::vector<Tensor> in_this_thread() {
    const auto there = [](const Tensor& x) { return x.to(kGPU).requires_grad_(); };
    const Tensor x = there(numbers({2, 8, 5, 4}).contiguous(MemoryFormat::kChannelsLast));
    const Tensor w = there(numbers({8, 8, 3, 3}, 2));
    const Tensor weight = there(positive({8}, 3));
    const Tensor y = batch_norm(conv2d(x, w), {}, {}, weight, weight.detach(), {.training = true});
    y.backward(numbers(y.sizes(), 4).to(kGPU));
    return {y.detach().cpu(), x.grad().cpu(), w.grad().cpu(), weight.grad().cpu()};
  }
  // By a new thread.
  static std::vector<Tensor> compute() {
    return std::async(std::launch::async, in_this_thread).get();
  }
  // compute() with the bits of `wanted`; returns how often was searched.
  static std::optional<long> searches_of(const std::vector<Tensor>& wanted) {
    const std::optional<long> before = searches();
    const std::vector<Tensor> got = compute();
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      expect_same(got[i], wanted[i], "tensor " + std::to_string(i));
    }
    return before ? std::optional(*searches() - *before) : std::nullopt;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder_.path())) all.push_back(entry.path());
    return all;
  }

  static constexpr long kSearches = 5;  // three of the convolution, two of the batch norm
  tests::TempDir folder_;
};

TEST_F(CudnnPlanStore, SearchesOnceForAllLaterRuns) {
  const std::vector<Tensor> first = compute();
  EXPECT_EQ(files().size(), kSearches);
  if (const auto count = searches_of(first)) {
    EXPECT_EQ(*count, 0);
  }
  // Other settings are other plans.
  backends::cudnn::deterministic = false;
  compute();
  backends::cudnn::deterministic = true;
  EXPECT_EQ(files().size(), kSearches + 3) << "of the convolution";
}

TEST_F(CudnnPlanStore, OfRunsAtOnceIsWhole) {
  std::vector<std::future<std::vector<Tensor>>> runs;
  for (int i = 0; i < 4; ++i) runs.push_back(std::async(std::launch::async, compute));
  for (auto& run : runs) run.get();
  EXPECT_EQ(files().size(), kSearches);
  const std::vector<Tensor> later = compute();
  if (const auto count = searches_of(later)) {
    EXPECT_EQ(*count, 0);
  }
}

std::string heading_of(std::string_view rest) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : rest) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  char text[100];
  std::snprintf(text, sizeof text, "dlrun's plan for cuDNN, 1, %016lx\n",
                static_cast<unsigned long>(hash));
  return text;
}

TEST_F(CudnnPlanStore, MakesDamagedPlansAnew) {
  const std::vector<Tensor> first = compute();
  // Each file in another way; the last two look whole.
  std::size_t number = 0;
  for (const fs::path& file : files()) {
    std::ifstream in(file, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t end_of_heading = text.find('\n') + 1;
    const std::string rest = text.substr(end_of_heading);
    const std::string key = rest.substr(0, rest.find('\n') + 1);
    switch (number++) {
      case 0:
        text.clear();
        break;
      case 1:
        text.resize(text.size() - 3);
        break;
      case 2:
        text[end_of_heading + 20] ^= 1;
        break;
      case 3:
        text = heading_of(key + "12 nothing") + key + "12 nothing";
        break;
      default:
        text = heading_of(key) + key;
    }
    std::ofstream(file, std::ios::binary) << text;
  }
  ::testing::internal::CaptureStderr();
  const auto anew = searches_of(first);
  const std::string said = ::testing::internal::GetCapturedStderr();
  if (anew) {
    EXPECT_EQ(*anew, kSearches);
  }
  const std::size_t warning = said.find("cannot be used; it is made and written anew");
  ASSERT_NE(warning, std::string::npos) << said;
  EXPECT_EQ(said.find("cannot be used", warning + 20), std::string::npos) << "once\n" << said;
  if (const auto count = searches_of(first)) {
    EXPECT_EQ(*count, 0);
  }
}

TEST_F(CudnnPlanStore, PassesOverFoldersInThePlaceOfPlans) {
  const std::vector<Tensor> first = compute();
  for (const fs::path& file : files()) {
    fs::remove(file);
    fs::create_directory(file);
  }
  const auto anew = searches_of(first);
  if (anew) {
    EXPECT_EQ(*anew, kSearches);
  }
}

// The log tells it once for each plan, and dlrun's own kernels give the same numbers.
TEST_F(CudnnPlanStore, GivesUpPlansThatCudnnDoesNotRun) {
  auto* const refuse_graphs = of_host_device<void(bool)>("dl_host_device_refuse_graphs");
  if (refuse_graphs == nullptr) GTEST_SKIP() << "a GPU runs what it has planned";
  const std::vector<Tensor> wanted = compute();
  refuse_graphs(true);
  ::testing::internal::CaptureStderr();
  // Both calls of an operation have one thread, and so one plan.
  std::future<std::vector<Tensor>> twice = std::async(std::launch::async, [] {
    std::vector<Tensor> results;
    for (int i = 0; i < 2; ++i) results = in_this_thread();
    return results;
  });
  twice.wait();
  const std::string said = ::testing::internal::GetCapturedStderr();
  refuse_graphs(false);
  const std::vector<Tensor> got = twice.get();
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Tensor a = got[i].contiguous();
    const Tensor b = wanted[i].contiguous();
    ASSERT_EQ(a.sizes(), b.sizes());
    for (std::int64_t at = 0; at < a.numel(); ++at) {
      EXPECT_NEAR(a.data<float>()[at], b.data<float>()[at], 1e-4) << "tensor " << i;
    }
  }
  std::size_t warnings = 0;
  constexpr std::string_view kWarning = "cuDNN refuses to run a plan";
  for (std::size_t at = said.find(kWarning); at != std::string::npos;
       at = said.find(kWarning, at + 1)) {
    ++warnings;
  }
  EXPECT_EQ(warnings, 2U) << "batch norm, and its gradients\n" << said;
}

TEST_F(CudnnPlanStore, LiesWhereTheEnvironmentSays) {
  const fs::path given = folder_.path();
  ::unsetenv("DLRUN_CUDNN_CACHE");
  const char* const home = ::getenv("HOME");
  const std::string kept_home = home == nullptr ? "" : home;
  ::setenv("XDG_CACHE_HOME", (given / "xdg").c_str(), 1);
  ::setenv("HOME", (given / "home").c_str(), 1);
  compute();
  EXPECT_TRUE(fs::exists(given / "xdg" / "dlrun" / "cudnn"));
  EXPECT_FALSE(fs::exists(given / "home"));
  ::unsetenv("XDG_CACHE_HOME");
  compute();
  EXPECT_TRUE(fs::exists(given / "home" / ".cache" / "dlrun" / "cudnn"));
  fs::remove_all(given / "home");
  ::setenv("DLRUN_CUDNN_CACHE", "off", 1);
  const std::vector<Tensor> first = compute();
  EXPECT_FALSE(fs::exists(given / "home"));
  if (const auto count = searches_of(first)) {
    EXPECT_EQ(*count, kSearches) << "nothing is kept";
  }
  ::testing::internal::CaptureStderr();
  ::setenv("DLRUN_CUDNN_CACHE", "/proc/no/folder", 1);
  compute();
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("cannot be written to /proc/no/folder"), std::string::npos) << said;
  ::setenv("HOME", kept_home.c_str(), 1);
}

}  // namespace
}  // namespace dl::testing
