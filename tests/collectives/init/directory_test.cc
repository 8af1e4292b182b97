// Ranks that meet in a directory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <string>
#include <vector>

#include "collectives/init/init.h"
#include "collectives/join/roster.h"
#include "core/base/error.h"
#include "rendezvous/stores/file_store.h"
#include "rendezvous/stores/prefix_store.h"
#include "tests/collectives/init/processes.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using namespace tests;

TEST(InitProcessGroup, CleansItsDirectoryAndRefusesAnEarlierRuns) {
  const tests::TempDir directory;
  const auto run = [&](const std::string& folder, bool says_goodbye) {
    return run_processes(2, [&](int rank) {
      try {
        init_process_group(
            {.init_method = "file://" + folder, .rank = rank, .world_size = 2, .timeout = 30s});
      } catch (const Error& error) {
        return std::string(error.what()).find("an earlier run") != std::string::npos ? 40 : 41;
      }
      return says_goodbye ? sum_of_ranks(2) : 0;
    });
  };
  const std::string own = directory.path() + "/meet";
  const std::string users = directory.path() + "/users";
  std::filesystem::create_directory(users);
  std::filesystem::permissions(users, std::filesystem::perms::owner_all);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(run(own, true), (std::vector<int>{0, 0}));
    EXPECT_FALSE(std::filesystem::exists(own));
    EXPECT_EQ(run(users, true), (std::vector<int>{0, 0}));
    EXPECT_TRUE(std::filesystem::is_empty(users));
  }
  EXPECT_EQ(run(own, false), (std::vector<int>{0, 0}));
  EXPECT_EQ(run(own, true), (std::vector<int>{40, 40}));
}

// What init_process_group() says to a rank of three that meets in `directory`; "" if it goes well.
std::string said_to(int rank, const std::string& directory, std::chrono::nanoseconds timeout) {
  try {
    init_process_group({.init_method = "file://" + directory + "/meet",
                        .rank = rank,
                        .world_size = 3,
                        .timeout = timeout});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(InitInADirectory, NamesARankThatDoesNotCome) {
  // Both worlds at once: processes 0 to 2 are the ranks of the first.
  constexpr std::array kMissing = {0, 2};
  const std::array<tests::TempDir, 2> directories;
  const Meet meet(4);
  const std::vector<int> statuses = run_processes(6, [&](int process) {
    const auto world = static_cast<std::size_t>(process / 3);
    const int rank = process % 3;
    if (rank == kMissing[world]) return 0;
    meet.arrive_and_wait();
    const std::string said = said_to(rank, directories[world].path(), 3s);
    if (said.find(fmt::format("rank {} of 3 has not come within 3 s", kMissing[world])) !=
        std::string::npos) {
      return 1;
    }
    // The other rank's time was over a little earlier, and its process has ended.
    return holds("is gone before the group was made")(said) == 0 ? 2 : 3;
  });
  for (std::size_t first = 0; first < statuses.size(); first += 3) {
    const std::vector<int> world(statuses.begin() + static_cast<std::ptrdiff_t>(first),
                                 statuses.begin() + static_cast<std::ptrdiff_t>(first + 3));
    EXPECT_THAT(world, testing::Contains(1));
    EXPECT_THAT(world, testing::Each(testing::Lt(3)));
  }
}

// Rank 2 does not come, so that no rank continues; rank 1 has come, and is killed or stopped.
TEST(InitInADirectory, NamesARankThatIsKilledThere) {
  const tests::TempDir directory;
  const pid_t victim = ::fork();
  if (victim == 0) {
    said_to(1, directory.path(), 60s);
    ::_exit(0);
  }
  EXPECT_EQ(run_processes(1,
                          [&](int) {
                            rendezvous::FileStore store(directory.path() + "/meet");
                            store.get("gen0/init/world/1/here/1", rendezvous::Deadline::after(60s));
                            ::kill(victim, SIGKILL);
                            // In good time before its own deadline.
                            return holds("is gone before the group was made")(
                                said_to(0, directory.path(), 60s));
                          }),
            std::vector<int>{0});
  ::waitpid(victim, nullptr, 0);
}

TEST(InitInADirectory, NamesARankThatIsStoppedThere) {
  const tests::TempDir directory;
  const pid_t victim = ::fork();
  if (victim == 0) {
    rendezvous::FileStore store(directory.path() + "/meet");
    rendezvous::PrefixStore place(store, "gen0/init/world/1/");
    collectives::announce({.store = &place, .rank = 1, .size = 3},
                          rendezvous::Deadline::after(60s));
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(victim, &status, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(status));
  EXPECT_EQ(
      run_processes(1,
                    [&](int) {
                      return holds("has come, but did not continue within 1 s; is it stopped?")(
                          said_to(0, directory.path(), 1s));
                    }),
      std::vector<int>{0});
  ::kill(victim, SIGKILL);
  ::waitpid(victim, nullptr, 0);
}

}  // namespace
}  // namespace dl
