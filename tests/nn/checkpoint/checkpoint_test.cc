#include "nn/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/base/system/unique_fd.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/data/data_loader.h"
#include "nn/data/datasets/tensor_dataset.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation/dropout.h"
#include "nn/layers/linear.h"
#include "nn/module/sequential.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/data/bytes.h"
#include "tests/support/eventually.h"
#include "tests/support/file_size_limit.h"

namespace dl::nn {
namespace {

using data::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

Checkpoint checkpoint_of(std::int64_t step) {
  return {.step = step,
          .parts = {{"model", {{"w", full({64}, static_cast<double>(step))}}},
                    {"optimizer", {{"step", full({}, step)}}}},
          .numbers = {{"epoch", step / 10}},
          .texts = {{"settings", "--seed 1"}}};
}

void expect_whole(const Checkpoint& checkpoint) {
  EXPECT_EQ(checkpoint.part("model")[0].tensor.at<float>({63}),
            static_cast<float>(checkpoint.step));
  EXPECT_EQ(checkpoint.part("optimizer")[0].tensor.item<std::int64_t>(), checkpoint.step);
  EXPECT_EQ(checkpoint.number("epoch"), checkpoint.step / 10);
  EXPECT_EQ(checkpoint.texts.at("settings"), "--seed 1");
}

TEST(Checkpoint, KeepsTheNewest) {
  const TemporaryDirectory dir;
  const CheckpointDir checkpoints(dir.path() + "/a/b", {.keep = 2});
  EXPECT_TRUE(checkpoints.steps().empty());
  EXPECT_FALSE(checkpoints.load_latest());
  for (const std::int64_t step : {0, 5, 10, 15}) checkpoints.save(checkpoint_of(step));
  EXPECT_THAT(checkpoints.steps(), ElementsAre(10, 15));
  expect_whole(*checkpoints.load_latest());
  EXPECT_EQ(checkpoints.load_latest()->step, 15);
  expect_whole(checkpoints.load(10));
  const auto entries = std::filesystem::directory_iterator(dir.path() + "/a/b");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 2) << "something else is left";
}

TEST(Checkpoint, RefusesWhatItCannotKeep) {
  const TemporaryDirectory dir;
  const CheckpointDir checkpoints(dir.path() + "/c");
  checkpoints.save(checkpoint_of(3));
  EXPECT_THAT([&] { checkpoints.save(checkpoint_of(3)); },
              ThrowsMessage<Error>("save a checkpoint: " + dir.path() +
                                   "/c/step-000000000003 is there already; is this the folder of "
                                   "another run, or do several processes save? Let one of them "
                                   "save, as rank 0"));
  EXPECT_THAT([&] { checkpoints.save({.step = -1}); },
              ThrowsMessage<Error>("save a checkpoint: its step is -1"));
  EXPECT_THAT([&] { checkpoints.save({.step = 9, .parts = {{"../x", {}}}}); },
              ThrowsMessage<Error>(HasSubstr("a part is called \"../x\", wanted a-z")));
  EXPECT_THAT([&] { checkpoints.save({.step = 9, .texts = {{"t", "\xff"}}}); },
              ThrowsMessage<Error>(HasSubstr("a name or a text is not UTF-8")));
  EXPECT_THAT([&] { checkpoints.load(4); }, ThrowsMessage<Error>(HasSubstr("No such file")));
  EXPECT_THAT([&] { checkpoints.load(3).part("scaler"); },
              ThrowsMessage<Error>("the checkpoint of step 3 has no part \"scaler\""));
  EXPECT_THAT([] { CheckpointDir("c", {.keep = 0}); },
              ThrowsMessage<Error>("CheckpointDir: keep is 0, wanted at least 1 checkpoint"));
  EXPECT_THAT(checkpoints.steps(), ElementsAre(3));
}

TEST(Checkpoint, LeavesNothingOfASaveThatFailed) {
  const TemporaryDirectory dir;
  const CheckpointDir checkpoints(dir.path());
  checkpoints.save(checkpoint_of(3));
  std::filesystem::create_directories(dir.path() + "/.saving-mine");
  std::filesystem::create_directories(dir.path() + "/.removing-1/of-a-killed-process");
  std::string text;
  try {
    const tests::FileSizeLimit full(100);
    checkpoints.save(checkpoint_of(9));
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_THAT(text, HasSubstr("File too large"));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("step-000000000003", ".saving-mine"));
  checkpoints.save(checkpoint_of(9));
  expect_whole(*checkpoints.load_latest());
}

// Each process saves steps of its own, all of them at once.
TEST(Checkpoint, SeveralProcessesLoseNothing) {
  constexpr int kProcesses = 4;
  constexpr int kSteps = 5;
  const TemporaryDirectory dir;
  const CheckpointDir checkpoints(dir.path() + "/c", {.keep = kProcesses * kSteps});
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        for (int i = 0; i < kSteps; ++i) checkpoints.save(checkpoint_of(kProcesses * i + process));
        ::_exit(0);
      } catch (const std::exception& error) {
        fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(checkpoints.steps().size(), kProcesses * kSteps);
  for (const std::int64_t step : checkpoints.steps()) expect_whole(checkpoints.load(step));
  const auto entries = std::filesystem::directory_iterator(dir.path() + "/c");
  EXPECT_EQ(std::distance(begin(entries), end(entries)), kProcesses * kSteps);
}

TEST(Checkpoint, NamesAnotherProcessThatSaves) {
  const TemporaryDirectory dir;
  const CheckpointDir checkpoints(dir.path(), {.timeout = std::chrono::seconds(0)});
  {
    const UniqueFd folder(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_EQ(::flock(folder.get(), LOCK_EX), 0);
    EXPECT_THAT([&] { checkpoints.save(checkpoint_of(1)); },
                ThrowsMessage<Error>(testing::AllOf(
                    testing::StartsWith("save a checkpoint: process " + std::to_string(::getpid()) +
                                        " (nn_serialize_te) saves into " + dir.path() + ", too"),
                    HasSubstr("let one process save, as rank 0"))));
  }
  checkpoints.save(checkpoint_of(1));
  expect_whole(*checkpoints.load_latest());
}

TEST(Checkpoint, NamesALinkThatLeadsNowhere) {
  const TemporaryDirectory dir;
  const std::string link = dir.path() + "/scratch";
  std::filesystem::create_symlink("not-mounted", link);
  const CheckpointDir checkpoints(link);
  const std::string text = link + " is a link, and what it names is not there";
  EXPECT_THAT([&] { checkpoints.load_latest(); }, ThrowsMessage<Error>(text));
  EXPECT_THAT([&] { checkpoints.save(checkpoint_of(1)); }, ThrowsMessage<Error>(text));
}

// Each bit of each file counts, and so does its length.
TEST(Checkpoint, NamesTheFileThatIsDamaged) {
  const TemporaryDirectory dir;
  const CheckpointDir checkpoints(dir.path());
  checkpoints.save(checkpoint_of(3));
  const std::string folder = dir.path() + "/step-000000000003/";
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "checkpoint.json"}) {
    std::ifstream file(folder + name, std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(file), {}};
    const auto put = [&](const std::string& bytes) {
      std::ofstream(folder + name, std::ios::binary) << bytes;
    };
    for (std::size_t at = 0; at < good.size(); at += 7) {
      std::string bytes = good;
      bytes[at] = static_cast<char>(bytes[at] ^ 2);
      put(bytes);
      EXPECT_THAT([&] { checkpoints.load_latest(); },
                  ThrowsMessage<Error>(HasSubstr(folder + name)))
          << at;
    }
    put(good.substr(0, good.size() / 2));
    EXPECT_THROW(checkpoints.load_latest(), Error) << name;
    std::filesystem::remove(folder + name);
    EXPECT_THAT([&] { checkpoints.load_latest(); }, ThrowsMessage<Error>(HasSubstr(folder + name)));
    put(good);
    expect_whole(*checkpoints.load_latest());
  }
}

// Whenever a process is killed that saves, the newest checkpoint is whole.
TEST(Checkpoint, OutlivesASaveThatIsKilled) {
  const TemporaryDirectory dir;
  const CheckpointDir checkpoints(dir.path() + "/c", {.keep = 2});
  std::int64_t last = -1;
  for (int kill = 0; kill < 15; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        for (std::int64_t step = last + 1;; ++step) checkpoints.save(checkpoint_of(step));
      } catch (...) {
      }
      ::_exit(1);
    }
    bool has_ended = false;
    const bool has_saved = tests::eventually([&] {
      has_ended = ::waitpid(child, nullptr, WNOHANG) != 0;
      return has_ended || (!checkpoints.steps().empty() && checkpoints.steps().back() != last);
    });
    if (!has_saved) ::kill(child, SIGKILL);
    ASSERT_TRUE(has_saved && !has_ended) << "the child could not save";
    // Another moment of saving each time; what is held below holds at any.
    const timespec pause{.tv_sec = 0, .tv_nsec = kill * 700'000};
    ::nanosleep(&pause, nullptr);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto found = checkpoints.load_latest();
    ASSERT_TRUE(found && found->step > last);
    expect_whole(*found);
    last = found->step;
  }
}

// Trains as the guide's program of docs/guides/files.md, "A stop inside an epoch", does, up to the
// step `stop`; saves every third step. Returns all weights as they are then.
std::vector<float> trained(const std::string& path, std::int64_t stop) {
  manual_seed(123);
  Sequential model{Linear(4, 8), Dropout(0.5), Linear(8, 2)};
  optim::SGD opt(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  Generator numbers(5);
  const data::TensorDataset dataset({randn({20, 4}, {}, numbers), randn({20, 2}, {}, numbers)});
  const auto weights = [&] {
    std::vector<float> all;
    for (const Tensor& p : model.parameters()) {
      all.insert(all.end(), p.data<float>(), p.data<float>() + p.numel());
    }
    return all;
  };
  const CheckpointDir checkpoints(path, {.keep = 3});
  data::DataLoader loader(dataset, {.batch_size = 4, .shuffle = true});
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  const std::optional<Checkpoint> last = checkpoints.load_latest();
  if (last) {
    model.load_state_dict(last->part("model"));
    opt.load_state_dict(last->part("optimizer"));
    step = last->step;
    epoch = last->number("epoch");
    load_random_state(default_generator(), last->part("epoch_random"));
  }
  for (; epoch < 3; ++epoch) {
    const StateDict epoch_random = random_state(default_generator());
    data::DataLoader::Epoch batches = loader.epoch();
    std::int64_t seen = 0;
    if (last && epoch == last->number("epoch")) {
      for (; seen < last->number("seen"); ++seen) batches.next();
      load_random_state(default_generator(), last->part("random"));
    }
    while (const std::optional<data::Batch> batch = batches.next()) {
      opt.zero_grad();
      functional::mse_loss(model((*batch)[0]), (*batch)[1]).backward();
      opt.step();
      ++seen;
      if (++step % 3 == 0) {
        checkpoints.save({.step = step,
                          .parts = {{"model", model.state_dict()},
                                    {"optimizer", opt.state_dict()},
                                    {"epoch_random", epoch_random},
                                    {"random", random_state(default_generator())}},
                          .numbers = {{"epoch", epoch}, {"seen", seen}}});
      }
      if (step == stop) return weights();
    }
  }
  return weights();
}

TEST(Checkpoint, ARunThatStopsInsideAnEpochEndsWithTheSameBits) {
  const TemporaryDirectory whole;
  const std::vector<float> wanted = trained(whole.path(), -1);
  for (const std::int64_t stop : {4, 7, 11, 15}) {  // an epoch has 5 steps
    const TemporaryDirectory stopped;
    trained(stopped.path(), stop);
    EXPECT_EQ(trained(stopped.path(), -1), wanted) << stop;
  }
}

TEST(Checkpoint, KeepsThePlaceInARandomStream) {
  const TemporaryDirectory dir;
  const CheckpointDir checkpoints(dir.path());
  Generator one(7);
  randn({3}, {}, one);
  one.philox(8);
  checkpoints.save({.step = 1, .parts = {{"random", random_state(one)}}});
  const float wanted = randn({1}, {}, one).item<float>();
  Generator other(8);
  load_random_state(other, checkpoints.load(1).part("random"));
  EXPECT_EQ(randn({1}, {}, other).item<float>(), wanted);
  EXPECT_EQ(other.philox_offset(), one.philox_offset());
  EXPECT_THROW(load_random_state(other, {}), Error);
}

}  // namespace
}  // namespace dl::nn
