#include "nn/serialize/safetensors.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "core/base/error.h"
#include "core/base/system/atomic_file.h"
#include "core/base/system/unique_fd.h"
#include "core/tensor/factories.h"
#include "nn/layers/linear.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/core/support.h"
#include "tests/nn/data/bytes.h"
#include "tests/parity/arrays.h"
#include "tests/support/file_size_limit.h"

namespace dl::nn {
namespace {

using data::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::string python_file(const std::string& topic) {
  return std::string(std::getenv("DLRUN_TEST_SOURCE")) + "/tests/parity/arrays/" + topic +
         ".safetensors";
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(Safetensors, ReadsAFileOfPythonsWithEveryDType) {
  const Safetensors file = load_safetensors(python_file("dtypes"));
  EXPECT_THAT(file.metadata, ElementsAre(std::pair("made_by", "tests/parity/make_arrays.py")));
  ASSERT_EQ(file.tensors.size(), 15U);
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor* tensor = find(file.tensors, name_of(dtype));
    ASSERT_NE(tensor, nullptr) << name_of(dtype);
    EXPECT_EQ(tensor->dtype(), dtype);
    EXPECT_EQ(tensor->sizes(), Shape({2, 3}));
    visit_all(dtype, [&]<typename T>() {
      for (int k = 0; k < 6; ++k) {
        EXPECT_EQ(tensor->data<T>()[k], dl::detail::convert<T>(k - 2))
            << name_of(dtype) << " " << k;
      }
    });
  }
  EXPECT_EQ(find(file.tensors, "scalar")->item<float>(), 2.5F);
  EXPECT_EQ(find(file.tensors, "empty")->sizes(), Shape({0, 3}));
}

TEST(Safetensors, WritesWhatItReadsForEveryDType) {
  const TemporaryDirectory dir;
  const Safetensors python = load_safetensors(python_file("dtypes"));
  const std::string path = dir.path() + "/ours.safetensors";
  save_safetensors(path, python.tensors, python.metadata);
  const Safetensors ours = load_safetensors(path);
  EXPECT_EQ(ours.metadata, python.metadata);
  ASSERT_EQ(ours.tensors.size(), python.tensors.size());
  for (const NamedTensor& want : python.tensors) {
    const Tensor& got = *find(ours.tensors, want.name);
    EXPECT_EQ(got.dtype(), want.tensor.dtype());
    EXPECT_EQ(got.sizes(), want.tensor.sizes());
    EXPECT_EQ(std::memcmp(got.data_ptr(), want.tensor.data_ptr(), got.nbytes()), 0) << want.name;
  }
}

TEST(Safetensors, WritesViewsRowByRow) {
  const TemporaryDirectory dir;
  const Tensor m = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  save_safetensors(dir.path() + "/f", {{"t", m.t()}, {"column", m.select(1, 1)}});
  const Safetensors file = load_safetensors(dir.path() + "/f");
  EXPECT_THAT(values<float>(file.tensors[0].tensor), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(file.tensors[0].tensor.sizes(), Shape({3, 2}));
  EXPECT_THAT(values<float>(file.tensors[1].tensor), ElementsAre(2, 5));
}

TEST(Safetensors, KeepsTheOrderOfAStateDict) {
  const TemporaryDirectory dir;
  save_safetensors(dir.path() + "/f",
                   {{"z", tensor({1.0})}, {"a", tensor({2.0})}, {"steps", tensor({3})}});
  const Safetensors file = load_safetensors(dir.path() + "/f");
  EXPECT_EQ(file.tensors[0].name, "steps") << "wider elements first, so that all lie aligned";
  EXPECT_EQ(file.tensors[1].name, "z");
  EXPECT_EQ(file.tensors[2].name, "a");
}

TEST(Safetensors, HoldsNoTensorsAtAll) {
  const TemporaryDirectory dir;
  save_safetensors(dir.path() + "/f", {}, {{"only", "metadata"}});
  EXPECT_TRUE(load_safetensors(dir.path() + "/f").tensors.empty());
}

TEST(Safetensors, AFailedSaveLeavesTheOldFileAndNothingElse) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  save_safetensors(path, {{"a", tensor({1.0})}});
  const std::string before = content(path);
  EXPECT_THAT([&] { save_safetensors(path, {{"a", tensor({2.0})}, {"a", tensor({3.0})}}); },
              ThrowsMessage<Error>("save " + path + ": two tensors are called \"a\""));
  EXPECT_THAT([&] { save_safetensors(path, {{"a", Tensor()}}); },
              ThrowsMessage<Error>("save " + path + ": tensor \"a\" is undefined"));
  EXPECT_EQ(content(path), before);
  save_safetensors(path, {{"a", tensor({2.0})}});
  EXPECT_NE(content(path), before);
  const auto entries = std::filesystem::directory_iterator(dir.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "a temporary file is left";
}

// If the error is not caught, no destructor runs.
TEST(AtomicFile, IsGoneOnceAWriteHasFailed) {
  const TemporaryDirectory dir;
  AtomicFile file(dir.path() + "/f");
  std::string text;
  try {
    const tests::FileSizeLimit full(0);
    file.write(std::vector<std::byte>(1));
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("/f: File too large"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(AtomicFile, TakesTheLongestNameThereIs) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/" + std::string(255, 'n');
  save_safetensors(path, {{"a", tensor({2.0})}});
  EXPECT_EQ(load_safetensors(path).tensors.size(), 1U);
  EXPECT_THAT([] { AtomicFile(""); }, ThrowsMessage<Error>("write a file: it has no name"));
}

TEST(AtomicFile, WritesThroughALinkAndKeepsPermissions) {
  const TemporaryDirectory dir;
  const std::string target = dir.path() + "/target";
  const std::string link = dir.path() + "/link";
  std::filesystem::create_symlink("target", link);
  const auto write = [&](const std::string& text) {
    AtomicFile file(link);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
  };
  write("first");  // the link dangles
  EXPECT_EQ(content(target), "first");
  constexpr auto kGroupToo = std::filesystem::perms{0664};
  std::filesystem::permissions(target, kGroupToo);
  write("second");
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(content(target), "second");
  EXPECT_EQ(std::filesystem::status(target).permissions(), kGroupToo);
  std::filesystem::create_symlink("loop", dir.path() + "/loop");
  EXPECT_THAT([&] { AtomicFile(dir.path() + "/loop"); },
              ThrowsMessage<Error>(HasSubstr("/loop: Too many levels of symbolic links")));
}

TEST(AtomicFile, LeavesNothingOfAProcessThatIsKilled) {
  const TemporaryDirectory dir;
  if (!UniqueFd(::open(dir.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600))) {
    GTEST_SKIP() << "the file system has no files without a name";
  }
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(dir.path() + "/f");
    file.write(std::vector<std::byte>(1000));
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Safetensors, APipeIsNotReplaced) {
  const TemporaryDirectory dir;
  const std::string pipe = dir.path() + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT([&] { save_safetensors(pipe, {}); },
              ThrowsMessage<Error>("write " + pipe + ": it is there and is no regular file"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
}

TEST(Safetensors, NamesAFolderThatIsNotThere) {
  EXPECT_THAT([] { save_safetensors("/nowhere/f", {}); },
              ThrowsMessage<Error>("create /nowhere/f: No such file or directory"));
  EXPECT_THAT([] { load_safetensors("/nowhere/f"); },
              ThrowsMessage<Error>("open /nowhere/f: No such file or directory"));
  EXPECT_THAT([] { load_safetensors("/tmp"); }, ThrowsMessage<Error>("/tmp is not a regular file"));
}

TEST(Safetensors, RefusesEveryTruncationOfAFile) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  save_safetensors(path, {{"a", tensor({1.0, 2.0})}});
  const std::string whole = content(path);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    dir.write("cut", std::as_bytes(std::span(whole)).first(length));
    EXPECT_THROW(load_safetensors(dir.path() + "/cut"), Error) << length;
  }
}

// A file with two tensors that dlrun cannot hold, before, between and after others.
std::string write_half_known(const TemporaryDirectory& dir) {
  std::string header =
      R"({"weight":{"dtype":"F32","shape":[1,2],"data_offsets":[4,12]},)"
      R"("bias":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},)"
      R"("extra":{"dtype":"I64","shape":[],"data_offsets":[12,20],"packed":true}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += header;
  const std::array<float, 2> weight = {1.5F, -2.0F};
  bytes += std::string(4, '\x38');
  bytes += std::string(reinterpret_cast<const char*>(weight.data()), sizeof(weight));
  bytes += std::string(8, '\0');
  dir.write("half", std::as_bytes(std::span(bytes)));
  return dir.path() + "/half";
}

TEST(Safetensors, LoadsWhatItKnowsAndNamesTheRest) {
  const TemporaryDirectory dir;
  const std::string path = write_half_known(dir);
  const Safetensors file = load_safetensors(path);
  EXPECT_EQ(file.path, path);
  ASSERT_EQ(file.tensors.size(), 1U);
  EXPECT_EQ(file.tensors[0].name, "weight");
  EXPECT_THAT(values<float>(file.tensors[0].tensor), ElementsAre(1.5F, -2.0F));
  ASSERT_EQ(file.skipped.size(), 2U);
  EXPECT_EQ(file.skipped[0].name, "bias");
  EXPECT_EQ(file.skipped[1].name, "extra");
}

TEST(Safetensors, AModelThatWantsASkippedTensorIsNotLoaded) {
  const TemporaryDirectory dir;
  const std::string path = write_half_known(dir);
  const Safetensors file = load_safetensors(path);
  Linear model(2, 1);
  const auto before = values<float>(model.weight);
  EXPECT_THAT([&] { model.load_state_dict(file, {.strict = false}); },
              ThrowsMessage<Error>("Error(s) in loading state_dict for Linear from " + path +
                                   ":\n\tCannot load \"bias\": its dtype is \"F8_E4M3\", which "
                                   "dlrun does not have."));
  EXPECT_THAT([&] { model.load_state_dict(file); },
              ThrowsMessage<Error>(HasSubstr("\n\tUnexpected key(s) in state_dict: \"extra\".\n\t"
                                             "Cannot load \"bias\"")));
  EXPECT_EQ(values<float>(model.weight), before);
  Linear without(2, 1, {.bias = false});
  const IncompatibleKeys keys = without.load_state_dict(file, {.strict = false});
  EXPECT_THAT(keys.unexpected, ElementsAre("bias", "extra"));
  EXPECT_THAT(values<float>(without.weight), ElementsAre(1.5F, -2.0F));
}

TEST(Safetensors, AnOptimizerTakesAFileAndNoSkippedTensor) {
  const TemporaryDirectory dir;
  const std::string path = write_half_known(dir);
  const std::vector<Tensor> parameters = {ones({2}, {.requires_grad = true})};
  optim::SGD sgd(parameters, {.lr = 0.5, .momentum = 0.9});
  EXPECT_THAT([&] { sgd.load_state_dict(load_safetensors(path)); },
              ThrowsMessage<Error>(path + ": SGD: load_state_dict: cannot load \"bias\": its dtype "
                                          "is \"F8_E4M3\", which dlrun does not have"));
  parameters[0].set_grad(ones({2}));
  sgd.step();
  const std::string good = dir.path() + "/good";
  save_safetensors(good, sgd.state_dict());
  optim::SGD other(parameters, {.lr = 0.1, .momentum = 0.9});
  other.load_state_dict(load_safetensors(good));
  EXPECT_EQ(other.lr(), 0.5);
  optim::Adam adam(parameters);
  EXPECT_THAT([&] { adam.load_state_dict(load_safetensors(good)); },
              ThrowsMessage<Error>(testing::StartsWith(good + ": Adam: load_state_dict: ")));
}

// CPU seconds of this thread to save and load so many tensors.
double seconds_of(const std::string& path, int count) {
  StateDict state;
  const Tensor one = tensor({1.0});
  for (int i = 0; i < count; ++i) state.push_back({"layers." + std::to_string(i) + ".weight", one});
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  save_safetensors(path, state);
  EXPECT_EQ(load_safetensors(path).tensors.size(), state.size());
  return now() - begin;
}

// Sixteen times the tensors take about sixteen times as long; 256 times if each one is looked for
// among all.
TEST(Safetensors, TakesTimeInProportionToTheNumberOfTensors) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  const double few = std::max(seconds_of(path, 5'000), seconds_of(path, 5'000));
  const double many = std::min(seconds_of(path, 80'000), seconds_of(path, 80'000));
  EXPECT_LT(many, few * 50) << few << " s for 5,000 tensors, " << many << " s for 80,000";
}

TEST(Safetensors, RefusesBoolsThatAreNone) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  save_safetensors(path, {{"flags", tensor({true, false})}});
  std::string bytes = content(path);
  bytes.back() = 2;
  dir.write("f", std::as_bytes(std::span(bytes)));
  EXPECT_THAT(
      [&] { load_safetensors(path); },
      ThrowsMessage<Error>(path + ": tensor \"flags\" is BOOL and holds other bytes than 0 and 1"));
}

}  // namespace
}  // namespace dl::nn
