// A soak of the first cause: jobs of one to three nodes, each a dlrun of its own on loopback, run
// random operations until one rank ends at a random moment, in one of these ways:
//   killed   by SIGKILL from outside
//   slow     it drops its group and ends with exit code 5 only a second later
//   early    it drops its group and ends with exit code 0
//   differs  it calls something else than the others
// The others hear of it in the middle of whatever they do, in the default group or in a part of it,
// and let the error end them or catch it and end with an exit code of their own.
//
//   cause_soak SECONDS [JOBS [SEED]]     JOBS: so many at least
//
// Every dlrun must name the rank that ended first, and end with its exit code (early: with 1).
// If ranks differ without a majority, it must name both sides. Prints a score; exit code 1 if it is
// not clean.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/init/init.h"
#include "core/base/error.h"
#include "tests/chaos/operations.h"
#include "tests/chaos/soak_arguments.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kPlayers = 2;

struct Shape {
  int nodes, ranks;
};
constexpr Shape kShapes[] = {{2, 1}, {2, 2}, {3, 2}, {1, 3}, {2, 2}, {3, 2}};
const char* const kWays[] = {"killed", "killed", "killed", "slow", "early", "differs", "differs"};

struct Game {
  Shape shape{};
  std::string way;
  int victim = 0;
  bool in_part = false;
  bool catches = false;
  std::uint64_t seed = 0;

  int world() const { return shape.nodes * shape.ranks; }
  std::string text() const {
    return std::to_string(shape.nodes) + "x" + std::to_string(shape.ranks) + " " + way + " rank " +
           std::to_string(victim) + (in_part ? " in a part" : "") + (catches ? " caught" : "") +
           " seed " + std::to_string(seed);
  }
};

Game draw(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto one_of = [&](std::size_t count) { return static_cast<std::size_t>(random() % count); };
  Game game{.shape = kShapes[one_of(std::size(kShapes))], .way = kWays[one_of(std::size(kWays))]};
  const int world = game.world();
  game.victim = static_cast<int>(one_of(static_cast<std::size_t>(world)));
  game.in_part = world >= 4 && one_of(3) == 0;
  game.catches = one_of(3) == 0;
  game.seed = seed;
  return game;
}

// A rank of the job.
int play(const Game& game) {
  std::mt19937_64 random(game.seed * 1000 + static_cast<std::uint64_t>(game.victim));
  const auto last = 3 + random() % 40;  // operations of a victim that ends by itself
  // A recv from any rank ends only by its deadline if the sender has left.
  init_process_group({.timeout = game.way == "early" ? 15s : 50s});
  const int own = rank();
  Ref<collectives::ProcessGroup> group = default_group();
  // Its ranks are numbered backwards, so that their numbers there are not those in the job.
  if (game.in_part) group = group->split({.color = own % 2, .key = -own});
  try {
    tests::Operations operations(*group, game.seed);
    for (std::uint64_t done = 0;; ++done) {
      if (game.way == "differs" && done == last) {
        operations.disagree(own == game.victim, static_cast<int>(game.seed));
      }
      if (own == game.victim && game.way != "killed" && done == last) break;
      DL_CHECK(operations.next(), kInternal, "an operation gave a wrong result");
      if (done == 2) {
        std::printf("up %d\n", static_cast<int>(::getpid()));
        std::fflush(stdout);
      }
    }
  } catch (const Error&) {
    if (!game.catches) throw;
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
    return 3;
  }
  group = nullptr;
  destroy_process_group();
  if (game.way == "early") return 0;
  // Way "slow": the other ranks fail in their next operation, long before this process ends.
  std::this_thread::sleep_for(1s);
  return 5;
}

std::vector<std::string> arguments_of(const Game& game) {
  return {"rank",
          game.way,
          std::to_string(game.victim),
          std::to_string(game.in_part),
          std::to_string(game.catches),
          std::to_string(game.seed)};
}

// What is wrong with how dlrun ended; empty: nothing.
std::string fault_of(const Game& game, const std::string& err, int code) {
  const int own_code = game.way == "slow" ? 5 : game.way == "differs" && game.catches ? 3 : 1;
  const int expected = game.way == "killed" ? 137 : own_code;
  const std::string how = game.way == "killed" ? "was killed by signal 9 (SIGKILL)"
                          : game.way == "early"
                              ? "ended with exit code 0"
                              : "ended with exit code " + std::to_string(expected);
  std::size_t at = err.starts_with("dlrun: ") ? 0 : err.find("\ndlrun: ");
  if (at == std::string::npos) return "dlrun says nothing";
  at += at == 0 ? 0 : 1;
  const std::string first = err.substr(at, err.find('\n', at) - at);
  // Too few ranks may have come to that call for a majority: then both sides are named.
  const std::string both = "dlrun: ranks made different calls: ";
  if (game.way == "differs" && first.starts_with(both)) {
    const std::string side = "rank " + std::to_string(game.victim) + " called ";
    return first.find(side) == std::string::npos || code != expected ? first : "";
  }
  const std::string who = "dlrun: rank " + std::to_string(game.victim) + " (node ";
  if (!first.starts_with(who) || first.find(how) == std::string::npos) return first;
  if (game.way == "early" && first.find("waiting for it in ") == std::string::npos) return first;
  return code == expected ? "" : "exit code " + std::to_string(code);
}

struct Score {
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> right{0}, wrong{0}, never_began{0};
};

void judge(const Game& game, Score& score) {
  const tests::TempDir home;
  const std::string endpoint = "127.0.0.1:" + std::to_string(tests::free_port());
  const int world = game.world();
  std::vector<std::unique_ptr<tests::Process>> nodes;
  for (int node = 0; node < game.shape.nodes; ++node) {
    std::vector<std::string> line = {tests::program("dlrun"), "--nproc-per-node",
                                     std::to_string(game.shape.ranks)};
    if (game.shape.nodes > 1) {
      line.insert(line.end(), {"--nnodes", std::to_string(game.shape.nodes), "--node-rank",
                               std::to_string(node), "--rdzv-endpoint", endpoint});
    }
    line.push_back(tests::program("../tests/cause_soak"));
    for (std::string& argument : arguments_of(game)) line.push_back(std::move(argument));
    nodes.push_back(std::make_unique<tests::Process>(
        line, tests::Process::Options{.environment = {"XDG_CONFIG_HOME=" + home.path(),
                                                      "DLRUN_NODE_ID=" + std::to_string(node)}}));
  }
  const auto place_of = [&](int rank) -> tests::Process& {
    return *nodes[static_cast<std::size_t>(rank / game.shape.ranks)];
  };
  bool has_begun = true;
  for (int rank = 0; rank < world && game.way == "killed"; ++rank) {
    has_begun = has_begun && place_of(rank).wait_for_out("[rank " + std::to_string(rank) + "] up ");
  }
  if (!has_begun) {
    ++score.never_began;
    std::printf("%s: the ranks did not begin: %s\n", game.text().c_str(), nodes[0]->err().c_str());
    return;
  }
  if (game.way == "killed") {
    const std::string up = "[rank " + std::to_string(game.victim) + "] up ";
    const pid_t pid = tests::number_after(up, place_of(game.victim).out());
    std::this_thread::sleep_for(std::chrono::microseconds(std::mt19937_64(game.seed)() % 50'000));
    ::kill(pid, SIGKILL);
  }
  bool is_right = true;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    std::string fault;
    try {
      const int code = nodes[node]->wait();
      fault = fault_of(game, nodes[node]->err(), code);
    } catch (const std::exception& error) {
      fault = error.what();
    }
    if (fault.empty()) continue;
    is_right = false;
    std::printf("%s: node %zu: %s\n%s\n", game.text().c_str(), node, fault.c_str(),
                nodes[node]->err().c_str());
  }
  std::fflush(stdout);
  ++(is_right ? score.right : score.wrong);
}

int soak(int seconds, std::uint64_t jobs, std::uint64_t seed) {
  Score score;
  const auto end = Clock::now() + std::chrono::seconds(seconds);
  std::vector<std::thread> players;
  for (int i = 0; i < kPlayers; ++i) {
    players.emplace_back([&] {
      for (;;) {
        const std::uint64_t job = score.next.fetch_add(1);
        if (job >= jobs && Clock::now() >= end) return;
        judge(draw(seed + job), score);
      }
    });
  }
  for (std::thread& player : players) player.join();
  std::printf("seed %llu: %d first causes right, %d wrong; %d jobs did not begin\n",
              static_cast<unsigned long long>(seed), score.right.load(), score.wrong.load(),
              score.never_began.load());
  return score.right > 0 && score.wrong == 0 && score.never_began == 0 ? 0 : 1;
}

}  // namespace
}  // namespace dl

int main(int argc, char** argv) {
  const dl::tests::SoakArguments given(argc, argv, "cause_soak SECONDS [JOBS [SEED]]");
  // As it starts itself, for a rank.
  if (argc == 7 && std::string_view(given.text(1)) == "rank") {
    return dl::play({.way = given.text(2),
                     .victim = static_cast<int>(given.number(3)),
                     .in_part = given.number(4) == 1,
                     .catches = given.number(5) == 1,
                     .seed = given.number(6)});
  }
  return dl::soak(given.seconds(), given.number_or(2, 1),
                  given.number_or(3, std::random_device()()));
}
