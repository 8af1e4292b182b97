// A soak over checkpoints: train_image saves after every step, alone or on two ranks under dlrun,
// and a rank, or dlrun, is killed with SIGKILL at random moments, every second time while a
// checkpoint is being written. Then the run is resumed, until it ends by itself.
//
//   train_soak SECONDS [SEED [KILLS]]      ends after SECONDS, or earlier after KILLS
//
// After each kill every checkpoint must load, and a run that ends must have the parameters of one
// that nothing has killed; of 20 kills or more, one must interrupt a save. Prints a score, and ends
// with 1 if it is not clean.
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/serialize/safetensors.h"
#include "tests/chaos/soak_arguments.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

// A run that ends is started anew, so each is long enough for some kills.
std::vector<std::string> command(int ranks, const std::string& dir) {
  std::vector<std::string> words = {tests::program("train_image"),
                                    "--model",
                                    "book",
                                    "--threads",
                                    "1",
                                    "--epochs",
                                    "1",
                                    "--batch-size",
                                    std::to_string(64 / ranks),
                                    "--augment",
                                    "shift",
                                    "--schedule",
                                    "cosine",
                                    "--ema",
                                    "0.9",
                                    "--eval-every",
                                    "1",
                                    "--checkpoint-every",
                                    "1",
                                    "--checkpoint-dir",
                                    dir,
                                    "--resume"};
  if (ranks > 1) {
    words.insert(words.begin(),
                 {tests::program("dlrun"), "--nproc-per-node", std::to_string(ranks)});
  }
  return words;
}

// The hash that a run prints; empty if it printed none.
std::string hash_in(const std::string& text) {
  constexpr std::string_view kBefore = "sha256 ";
  const std::size_t at = text.find(kBefore);
  return at == std::string::npos ? "" : text.substr(at + kBefore.size(), 64);
}

// Folders of saves that are not complete, with the ns of their last change: a later run saves the
// step again that a kill has interrupted.
using Saves = std::set<std::pair<std::string, std::int64_t>>;
Saves saves_in(const std::string& dir) {
  Saves found;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    struct stat status{};
    const std::string path = at->path().string();
    if (at->path().filename().string().starts_with(".saving-") &&
        ::stat(path.c_str(), &status) == 0) {
      found.emplace(path, status.st_ctim.tv_sec * 1'000'000'000 + status.st_ctim.tv_nsec);
    }
  }
  return found;
}

// Without the folders that an earlier kill left.
bool is_being_saved(const std::string& dir, const Saves& left) {
  return !std::ranges::includes(left, saves_in(dir));
}

class Soak {
 public:
  explicit Soak(std::uint64_t seed) : random_(seed) {}

  // One run, with kills until it ends or `kills` are done. False if something was wrong.
  bool run(int ranks, std::uint64_t& kills, Clock::time_point end) {
    const tests::TempDir home;
    const std::string dir = home.path() + "/checkpoints";
    while (true) {
      const Saves left = saves_in(dir);
      tests::Process job(command(ranks, dir));
      const bool kills_this = kills > 0 && Clock::now() < end;
      const bool killed = kills_this && wait_for_moment(job, dir, left) && kill_one(job);
      const int code = job.wait(std::chrono::minutes(5));
      if (!killed || code == 0) return code == 0 ? is_as_wanted(ranks, job) : fail(job, "failed");
      --kills;
      ++killed_;
      // Ranks outlive a dlrun that is killed for a moment.
      if (!tests::eventually([&] { return tests::processes_with(job.mark()).empty(); })) {
        return fail(job, "left processes");
      }
      if (is_being_saved(dir, left)) ++interrupted_;
      if (!all_load(dir)) return false;
    }
  }

  // Half of the kills wait for a save, so some of many interrupt one.
  bool has_interrupted_saves() const noexcept {
    constexpr std::uint64_t kMany = 20;
    return killed_ < kMany || interrupted_ > 0;
  }

  void print() const {
    std::printf(
        "train_soak: %llu kills, %llu of them inside a save, %llu checkpoints loaded, %llu runs "
        "with the right bits\n",
        static_cast<unsigned long long>(killed_), static_cast<unsigned long long>(interrupted_),
        static_cast<unsigned long long>(loaded_), static_cast<unsigned long long>(runs_));
  }

 private:
  // False if the job ends before.
  bool wait_for_moment(tests::Process& job, const std::string& dir, const Saves& left) {
    const bool while_saving = killed_ % 2 == 0;
    if (while_saving) {
      // Not always the first one that it saves.
      const auto most = std::chrono::milliseconds(random_() % 1500);
      tests::eventually(most, [&] { return job.has_ended(); });
      tests::eventually(
          std::chrono::minutes(2), [&] { return job.has_ended() || is_being_saved(dir, left); },
          std::chrono::milliseconds(1));
    }
    const auto more = std::chrono::microseconds(random_() % (while_saving ? 60'000 : 3'000'000));
    tests::eventually(more, [&] { return job.has_ended(); }, std::chrono::milliseconds(1));
    return !job.has_ended();
  }

  bool kill_one(const tests::Process& job) {
    std::vector<pid_t> choices;
    for (const pid_t pid : tests::processes_with(job.mark())) {
      if (pid == job.pid() || tests::name_of(pid) == "train_image") choices.push_back(pid);
    }
    if (choices.empty()) return false;
    std::ranges::sort(choices);
    ::kill(choices[random_() % choices.size()], SIGKILL);
    return true;
  }

  bool all_load(const std::string& dir) {
    try {
      const nn::CheckpointDir checkpoints(dir);
      for (const std::int64_t step : checkpoints.steps()) {
        checkpoints.load(step);
        ++loaded_;
      }
      if (fs::exists(dir + "/best.safetensors")) nn::load_safetensors(dir + "/best.safetensors");
      return true;
    } catch (const Error& error) {
      std::printf("train_soak: after a kill: %s\n", error.what());
      return false;
    }
  }

  bool is_as_wanted(int ranks, const tests::Process& job) {
    std::string& want = wanted_[ranks - 1];
    if (want.empty()) {
      const tests::TempDir home;
      tests::Process whole(command(ranks, home.path() + "/whole"));
      if (whole.wait(std::chrono::minutes(5)) != 0) return fail(whole, "failed without a kill");
      want = hash_in(whole.out());
    }
    if (want.empty() || hash_in(job.out()) != want) {
      std::printf("train_soak: wanted %s\n", want.c_str());
      return fail(job, "has other parameters");
    }
    ++runs_;
    return true;
  }

  static bool fail(const tests::Process& job, const char* how) {
    std::printf("train_soak: a run %s:\n%s%s\n", how, job.out().c_str(), job.err().c_str());
    return false;
  }

  std::mt19937_64 random_;
  std::string wanted_[2];  // hashes of runs on one rank and on two
  std::uint64_t killed_ = 0;
  std::uint64_t interrupted_ = 0;
  std::uint64_t loaded_ = 0;
  std::uint64_t runs_ = 0;
};

}  // namespace
}  // namespace dl

int main(int argc, char** argv) {
  const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  ::setenv("DLRUN_TEST_BIN", folder.c_str(), 0);
  const dl::tests::SoakArguments arguments(argc, argv, "train_soak SECONDS [SEED [KILLS]]");
  const auto end = dl::Clock::now() + std::chrono::seconds(arguments.seconds());
  dl::Soak soak(arguments.number_or(2, 1));
  std::uint64_t kills = arguments.number_or(3, 1'000'000'000);
  bool clean = true;
  for (int ranks = 2; clean && kills > 0 && dl::Clock::now() < end; ranks = 3 - ranks) {
    clean = soak.run(ranks, kills, end);
  }
  soak.print();
  if (!soak.has_interrupted_saves()) {
    std::printf("train_soak: no kill interrupted a save\n");
    clean = false;
  }
  return clean ? 0 : 1;
}
