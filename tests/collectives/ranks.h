// N ranks as threads of one process, each with a group and connections of its own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "collectives/hybrid/hybrid_group.h"
#include "collectives/shm/shm_group.h"
#include "collectives/tcp/tcp_group.h"
#include "core/base/error.h"
#include "rendezvous/stores/memory_store.h"
#include "tests/collectives/thrown.h"

namespace dl::collectives::testing {

using namespace std::chrono_literals;

// Runs `body` once a rank and waits for all. An exception of a rank is a failure of the test.
inline void run_threads(int size, const std::function<void(int rank)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int rank = 0; rank < size; ++rank) {
    if (!errors[static_cast<std::size_t>(rank)]) continue;
    try {
      std::rethrow_exception(errors[static_cast<std::size_t>(rank)]);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << ": " << error.what();
    }
  }
}

// As RankOptions::warn_after: an operation asks its peers for a sign of life as soon as it waits,
// and not only in the last quarter of its deadline, so that a short one gives them longer.
inline constexpr std::chrono::milliseconds kAskAtOnce = 500ms;

struct RankOptions {
  std::chrono::nanoseconds timeout = 30s;
  std::string name = "world";
  std::chrono::nanoseconds warn_after = 5s;
  int lanes = 0;
  Plan plan{};              // over TCP
  Ref<TcpEngine> engine{};  // that groups of one rank share
};

// The same tests hold for every backend: ctest runs them once for each, under this variable.
inline std::string backend_under_test() {
  const char* const backend = std::getenv("DLRUN_TEST_BACKEND");
  return backend == nullptr ? "tcp" : backend;
}
inline bool tests_shared_memory() {
  return backend_under_test() == "shm";
}

inline Ref<ProcessGroup> make_group(std::string_view backend, GroupOptions how) {
  if (backend == "shm") return make_shm_group(how);
  if (backend != "hybrid") return make_tcp_group(how);
  // The ranks are said to be on two nodes, with one rank more on the first if their number is odd.
  how.key = rendezvous::JobKey::from_hex(std::string(64, '1'));
  how.node = "node" + std::to_string(how.rank * 2 / how.size);
  return make_hybrid_group(how);
}

inline Ref<ProcessGroup> join_group(rendezvous::Store& store, int rank, int size,
                                    const RankOptions& options = {}) {
  return make_group(backend_under_test(), {.rank = rank,
                                           .size = size,
                                           .name = options.name,
                                           .store = &store,
                                           .timeout = options.timeout,
                                           .connect_timeout = 30s,
                                           .warn_after = options.warn_after,
                                           .lanes = options.lanes,
                                           .plan = options.plan,
                                           .engine = options.engine});
}

// Every rank joins one group and runs `body` with it.
inline void run_ranks(int size, const std::function<void(ProcessGroup& group)>& body,
                      const RankOptions& options = {}) {
  rendezvous::MemoryStore store;
  run_threads(size, [&](int rank) {
    const Ref<ProcessGroup> group = join_group(store, rank, size, options);
    body(*group);
  });
}

// A rank with another key is refused, however long a rank 0 with the right key listens, and does
// not keep other ranks from joining. Its record alone is no rank.
inline void expect_strangers_refused(Ref<ProcessGroup> (*make)(const GroupOptions& options)) {
  rendezvous::MemoryStore store;
  const auto join = [&, key = rendezvous::JobKey::generate()](int rank) {
    return GroupOptions{
        .rank = rank, .size = 2, .store = &store, .key = key, .connect_timeout = 60s};
  };
  run_threads(2, [&](int rank) {
    GroupOptions how = join(rank);
    if (rank == 1) {
      how.key = rendezvous::JobKey::generate();
      const Thrown thrown = thrown_by([&] { make(how); });
      EXPECT_EQ(thrown.kind, ErrorKind::kAuthentication) << thrown.text;
    }
    make(join(rank))->barrier()->wait();
  });
  GroupOptions how = join(0);
  how.connect_timeout = 100ms;
  const Thrown thrown = thrown_by([&] { make(how); });
  EXPECT_EQ(thrown.kind, ErrorKind::kTimeout);
  EXPECT_NE(thrown.text.find("did not connect within"), std::string::npos) << thrown.text;
}

}  // namespace dl::collectives::testing
