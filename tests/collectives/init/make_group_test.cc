// make_group(), with ranks that are threads of this process.
#include "collectives/init/make_group.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/join/meet/exchange.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/connect/race.h"
#include "rendezvous/net/lifeline.h"
#include "rendezvous/stores/memory_store.h"
#include "tests/collectives/ranks.h"

namespace dl {
namespace {

using namespace std::chrono_literals;
using collectives::Deadline;
using collectives::ProcessGroup;
using collectives::testing::run_threads;
using collectives::testing::Thrown;
using collectives::testing::thrown_by;

void expect_sum(ProcessGroup& group) {
  int x = 1;
  group.all_reduce({.input = &x, .output = &x, .count = 1, .dtype = DType::kI32})->wait();
  EXPECT_EQ(x, group.size());
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(UniqueIds, MakeAGroupOfEachBackend) {
  for (const char* const backend : {"auto", "shm", "tcp", "hybrid"}) {
    const UniqueId id = make_unique_id();
    run_threads(4, [&](int rank) {
      expect_sum(*make_group({.rank = rank, .size = 4, .id = id, .backend = backend}));
    });
  }
}

TEST(UniqueIds, MakeSeveralGroupsAtOnce) {
  constexpr int kGroups = 4, kRanks = 3;
  std::vector<UniqueId> ids;
  for (int g = 0; g < kGroups; ++g) ids.push_back(make_unique_id());
  run_threads(kGroups * kRanks, [&](int thread) {
    const int g = thread / kRanks;
    expect_sum(*make_group({.rank = thread % kRanks,
                            .size = kRanks,
                            .id = ids[static_cast<std::size_t>(g)],
                            .backend = g % 2 == 0 ? "tcp" : "shm"}));
  });
}

TEST(UniqueIds, MakeAGroupOfOne) {
  const UniqueId id = make_unique_id();
  expect_sum(*make_group({.id = id}));
  const Thrown thrown = thrown_by([&] { make_group({.size = 2, .id = id}); });
  EXPECT_TRUE(holds(thrown.text, "has not made the id, or has used it already")) << thrown.text;
}

TEST(UniqueIds, AreRefusedWhenDamaged) {
  const UniqueId id = make_unique_id();
  for (std::size_t i = 0; i < id.bytes.size(); ++i) {
    UniqueId damaged = id;
    damaged.bytes[i] ^= 0x10;
    const Thrown thrown = thrown_by([&] { make_group({.rank = 1, .size = 2, .id = damaged}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument) << i << thrown.text;
    EXPECT_EQ(thrown.text.find('\n'), std::string::npos);
  }
  const Thrown zeros = thrown_by([] { make_group({.rank = 1, .size = 2, .id = UniqueId{}}); });
  EXPECT_TRUE(holds(zeros.text, "are no id of dlrun")) << zeros.text;
}

TEST(UniqueIds, NeedNoStoreAndAreNotGivenWithOne) {
  rendezvous::MemoryStore store;
  const Thrown both =
      thrown_by([&] { make_group({.size = 2, .id = UniqueId{}, .store = &store}); });
  EXPECT_TRUE(holds(both.text, "an id and a store")) << both.text;
  const Thrown none = thrown_by([] { make_group({.size = 2}); });
  EXPECT_TRUE(holds(none.text, "no id and no store")) << none.text;
}

TEST(UniqueIds, TimeoutsNameTheMissingRanks) {
  const UniqueId id = make_unique_id();
  run_threads(2, [&](int rank) {
    const Thrown thrown =
        thrown_by([&] { make_group({.rank = rank, .size = 4, .id = id, .timeout = 3s}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kTimeout) << thrown.text;
    EXPECT_TRUE(holds(thrown.text, "ranks 2-3 of 4 have not come within")) << thrown.text;
    EXPECT_EQ(thrown.rank, 2);
  });
}

// The agent's end of a lifeline that this process's ranks share.
class Lifeline {
 public:
  Lifeline() {
    int line[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0) std::abort();
    ours_ = UniqueFd(line[0]);
    theirs_ = UniqueFd(line[1]);
    ::setenv("DLRUN_LIFELINE_FD", std::to_string(theirs_.get()).c_str(), 1);
  }
  ~Lifeline() { ::unsetenv("DLRUN_LIFELINE_FD"); }
  // The next report of a wait; nullopt if there is none.
  std::optional<rendezvous::Waiting> next(int flags = 0) {
    std::array<char, 8192> packet{};
    const ssize_t size = ::recv(ours_.get(), packet.data(), packet.size(), flags);
    if (size <= 0) return std::nullopt;
    return rendezvous::decode_waiting({packet.data(), static_cast<std::size_t>(size)});
  }

 private:
  UniqueFd ours_;
  UniqueFd theirs_;
};

TEST(UniqueIds, TheAgentHearsForWhomTheRanksWait) {
  for (const int late : {0, 2}) {
    Lifeline lifeline;
    const UniqueId id = make_unique_id();
    run_threads(3, [&](int rank) {
      if (rank == late) {
        // Both other ranks report this rank; a report that names rank 0 may come before.
        for (int reports = 0; reports < 2;) {
          const auto waiting = lifeline.next();
          if (!waiting) break;
          if (waiting->rank != late) continue;
          EXPECT_EQ(waiting->operation, "the making of group 'group'");
          ++reports;
        }
      }
      make_group({.rank = rank, .size = 3, .id = id});
    });
    int last = late;
    while (const auto waiting = lifeline.next(MSG_DONTWAIT)) last = waiting->rank;
    EXPECT_EQ(last, -1) << "the waits are over";
  }
}

// Rank 0 of the group may be any rank of the job, and rank 0 of the job may have ended.
TEST(UniqueIds, TheAgentHearsOnlyOfRanksThatAreKnownInTheJob) {
  Lifeline lifeline;
  const std::pair<const char*, const char*> kJob[] = {
      {"DLRUN_JOB_ID", "job"}, {"RANK", "3"}, {"WORLD_SIZE", "4"}};
  for (const auto& [name, value] : kJob) ::setenv(name, value, 1);
  const UniqueId id = make_unique_id();
  rendezvous::MemoryStore store;
  for (const bool has_id : {true, false}) {
    MakeGroupOptions options{.rank = 1, .size = 2, .timeout = 1s};
    if (has_id) {
      options.id = id;
    } else {
      options.store = &store;
    }
    const Thrown unknown = thrown_by([&] { make_group(options); });
    EXPECT_EQ(unknown.kind, ErrorKind::kTimeout);
    EXPECT_EQ(unknown.rank, -1);
    EXPECT_TRUE(holds(unknown.text, "rank 0 of the group has not come")) << unknown.text;
    EXPECT_FALSE(lifeline.next(MSG_DONTWAIT));
    options.job_ranks = {2, 3};
    const Thrown known = thrown_by([&] { make_group(options); });
    EXPECT_EQ(known.kind, ErrorKind::kTimeout);
    EXPECT_EQ(known.rank, 2);
    EXPECT_TRUE(holds(known.text, "rank 2 of the job has not come")) << known.text;
    const auto waiting = lifeline.next(MSG_DONTWAIT);
    EXPECT_TRUE(waiting && waiting->rank == 2);
    while (lifeline.next(MSG_DONTWAIT)) {
    }
    options.job_ranks = {3, 2};
    EXPECT_EQ(thrown_by([&] { make_group(options); }).text,
              "make_group: job_ranks says that rank 1 of the group is rank 2 of the job, and this "
              "process is rank 3");
  }
  for (const auto& [name, value] : kJob) ::unsetenv(name);
}

TEST(UniqueIds, ARankThatWaitsForRank0NamesIt) {
  const UniqueId id = make_unique_id();
  const Thrown late =
      thrown_by([&] { make_group({.rank = 1, .size = 2, .id = id, .timeout = 200ms}); });
  EXPECT_EQ(late.kind, ErrorKind::kTimeout) << late.text;
  EXPECT_TRUE(holds(late.text, "rank 0 of 2 has not come within")) << late.text;
  EXPECT_EQ(late.rank, 0);
  collectives::meet::forget_id(id);
  const Thrown gone = thrown_by([&] { make_group({.rank = 1, .size = 2, .id = id}); });
  EXPECT_EQ(gone.kind, ErrorKind::kConnection) << gone.text;
  EXPECT_TRUE(holds(gone.text, "rank 0 of 2 is gone")) << gone.text;
}

TEST(UniqueIds, RefuseAnotherWorldSizeOnAllRanks) {
  const UniqueId id = make_unique_id();
  run_threads(2, [&](int rank) {
    const Thrown thrown =
        thrown_by([&] { make_group({.rank = rank, .size = 2 + rank, .id = id}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch) << thrown.text;
    EXPECT_TRUE(holds(thrown.text, "has a world size of 3")) << thrown.text;
  });
}

TEST(UniqueIds, RefuseAnotherNameOnAllRanks) {
  const UniqueId id = make_unique_id();
  run_threads(2, [&](int rank) {
    const Thrown thrown = thrown_by([&] {
      make_group({.rank = rank, .size = 2, .name = rank == 0 ? "here" : "there", .id = id});
    });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch) << thrown.text;
    EXPECT_TRUE(holds(thrown.text, "calls it 'there'")) << thrown.text;
  });
}

TEST(MakeGroup, RefusesNumbersThatAreNone) {
  const UniqueId id = make_unique_id();
  const auto refusal = [&](MakeGroupOptions options) {
    options.id = id;
    return thrown_by([&] { make_group(options); }).text;
  };
  EXPECT_EQ(refusal({.rank = 0, .size = 0}), "make_group: size is 0, wanted 1 or more");
  EXPECT_EQ(refusal({.rank = 3, .size = 3}), "make_group: rank is 3, wanted 0 to 2, as size is 3");
  EXPECT_EQ(refusal({.size = 2, .job_ranks = {1}}),
            "make_group: job_ranks has 1 elements, wanted one for each of 2 ranks");
  EXPECT_EQ(refusal({.size = 2, .job_ranks = {1, -2}}),
            "make_group: job_ranks has -2, wanted 0 or more");
  EXPECT_EQ(refusal({.size = 2, .job_ranks = {1, 1}}), "make_group: job_ranks has 1 twice");
  EXPECT_EQ(refusal({.backend = "mpi"}),
            "make_group: backend is 'mpi', wanted auto, shm, tcp or hybrid");
}

TEST(MakeGroup, RefusesANameThatIsNone) {
  const auto refusal = [](const std::string& name) {
    return thrown_by([&] { make_group({.name = name}); }).text;
  };
  EXPECT_EQ(refusal("a\nb"), "a group's name is UTF-8 without control characters, got \"a\\x0ab\"");
  EXPECT_EQ(refusal("\xff"), "a group's name is UTF-8 without control characters, got \"\\xff\"");
  EXPECT_EQ(
      refusal(std::string(1000, 'x')),
      "a group's name has 1 to 128 bytes and no '/', got \"" + std::string(60, 'x') + "\"...");
}

TEST(MakeGroup, OfOneRankChecksItsOptions) {
  const auto refusal = [](MakeGroupOptions options) {
    return thrown_by([&] { make_group(options); }).text;
  };
  EXPECT_TRUE(holds(refusal({.plan = "/no/such/file"}), "/no/such/file"));
  EXPECT_TRUE(holds(refusal({.algorithm = "round"}), "round"));
  EXPECT_EQ(refusal({.backend = "shm", .algorithm = "ring"}),
            "algorithm 'ring' was asked for, and backend shm leaves no choice; wanted tcp or mpi");
  EXPECT_TRUE(holds(refusal({.backend = "udp"}), "backend is 'udp'"));
}

TEST(UniqueIds, AreForOneProcessARank) {
  const UniqueId id = make_unique_id();
  run_threads(3, [&](int process) {
    const Thrown thrown =
        thrown_by([&] { make_group({.rank = std::min(process, 1), .size = 3, .id = id}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch) << thrown.text;
    EXPECT_TRUE(holds(thrown.text, ") have both come as rank 1; ")) << thrown.text;
  });
}

TEST(UniqueIds, RefuseARankThatIsNone) {
  const UniqueId id = make_unique_id();
  run_threads(3, [&](int rank) {
    if (rank < 2) return expect_sum(*make_group({.rank = rank, .size = 2, .id = id}));
    const Thrown thrown = thrown_by([&] { make_group({.rank = 2, .size = 3, .id = id}); });
    // It may come when the others have gone on.
    EXPECT_TRUE(thrown.kind == ErrorKind::kMismatch || thrown.kind == ErrorKind::kConnection ||
                thrown.kind == ErrorKind::kPeerFailed)
        << thrown.text;
  });
}

// A store that counts what each rank asks of it.
class CountingStore final : public rendezvous::Store {
 public:
  explicit CountingStore(rendezvous::Store& store) : store_(store) {}
  void set(std::string_view key, std::string_view value, Deadline deadline) override {
    ++sets;
    store_.set(key, value, deadline);
  }
  std::string get(std::string_view key, Deadline deadline) override {
    std::string value = store_.get(key, deadline);
    ++gets;
    return value;
  }
  std::optional<std::string> try_get(std::string_view, Deadline) override { return refuse(); }
  void wait(std::span<const std::string>, Deadline) override { refuse(); }
  std::int64_t add(std::string_view, std::int64_t, Deadline) override {
    return refuse().has_value();
  }
  Swap compare_and_set(std::string_view, const std::optional<std::string>&, std::string_view,
                       Deadline) override {
    refuse();
    return {};
  }
  void close(std::string_view) noexcept override {}
  int sets = 0, gets = 0;

 private:
  static std::optional<std::string> refuse() {
    throw_error(ErrorKind::kInternal, "the caller's store has only set and get");
  }
  rendezvous::Store& store_;
};

TEST(MakeGroup, NeedsOneSetOfRank0AndOneGetOfTheOthers) {
  for (const char* const backend : {"auto", "tcp", "hybrid"}) {
    rendezvous::MemoryStore store;
    run_threads(3, [&](int rank) {
      CountingStore counting(store);
      expect_sum(*make_group({.rank = rank, .size = 3, .store = &counting, .backend = backend}));
      EXPECT_EQ(counting.sets, rank == 0 ? 1 : 0);
      EXPECT_EQ(counting.gets, rank == 0 ? 0 : 1);
    });
  }
}

TEST(MakeGroup, ProvesTheCallersKey) {
  rendezvous::MemoryStore store;
  const auto key = rendezvous::JobKey::generate();
  run_threads(3, [&](int rank) {
    if (rank < 2) {
      return expect_sum(*make_group({.rank = rank, .size = 2, .store = &store, .key = key}));
    }
    const Thrown thrown = thrown_by([&] {
      make_group({.rank = 1, .size = 2, .store = &store, .key = rendezvous::JobKey::generate()});
    });
    EXPECT_TRUE(thrown.kind == ErrorKind::kAuthentication || thrown.kind == ErrorKind::kConnection)
        << thrown.text;
  });
}

TEST(MakeGroup, SplitsAndTakesMessages) {
  const UniqueId id = make_unique_id();
  run_threads(4, [&](int rank) {
    const auto group = make_group({.rank = rank, .size = 4, .id = id});
    expect_sum(*group->split({.color = rank % 2}));
  });
}

}  // namespace
}  // namespace dl
