// An NCCL for tests, over a fake CUDA (tests/support/fake_cuda.h); the ranks of a test are threads
// of this process.
//
// An operation is a step of its stream that is done when all ranks of its communicator have come to
// theirs, a message's when both of its ranks have; a group of them is one step. What a test wants
// to go wrong stands in Fault.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "collectives/nccl/library/module.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_cuda.h"

namespace dl::collectives::testing {

inline constexpr int kInvalidUsage = 5;

using test::FakeGraph;
using test::FakeRuntime;
using test::FakeStream;
using test::FakeWork;
using test::MakeStep;
using test::Step;

// What shall go wrong, for every communicator of the test.
struct Fault {
  std::atomic<int> busy_polls{0};  // init and starts take so many polls each
  std::atomic<int> poll_us{0};     // and each poll so long
  std::atomic<bool> never_connects{false};
  std::atomic<int> async_error{0};  // what async_error() says of rank 0
  std::atomic<int> call_error{0};   // of operations, at once
  std::atomic<bool> abort_hangs{false};
  std::atomic<bool> destroy_waits{false};  // for all ranks, as NCCL's proxies do
  std::atomic<int> overlaps{0};            // polls while another thread starts an operation
  std::atomic<int> without_device{0};      // ends of communicators in threads that have no device
  std::atomic<int> aborts{0}, destroys{0};
  // Communicators that were ended before a captured graph, for which NCCL waits.
  std::atomic<int> ends_with_graphs{0};
};

// Of one test; the table's functions find it here.
struct FakeNccl {
  struct World {
    int size = 0;
    bool aborted = false;
    std::atomic<int> destroyed{0};
    // By rank, by operation; copies, as a rank may leave while others still read.
    std::map<int, std::map<std::uint64_t, std::vector<std::byte>>> inputs;
    struct Message {
      std::vector<std::byte> bytes;
      std::shared_ptr<bool> taken = std::make_shared<bool>(false);
    };
    std::map<std::pair<int, int>, std::deque<Message>> messages;  // by sender and receiver
  };
  struct FakeComm {
    World* world;
    int rank;
    std::uint64_t operations = 0;
    int busy = 0;
    std::thread::id starter{};  // of the last operation
    bool blocks = false;
  };
  FakeRuntime runtime{std::size_t{1} << 40, FakeWork::kLater};
  Fault fault;
  // By rank: how often a thread with a device, which is a group's watcher, has asked for errors.
  std::array<std::atomic<int>, 8> looks{};
  std::map<std::string, std::unique_ptr<World>> worlds;
  std::atomic<int> alive{0};  // communicators; ending one changes this last
  static inline FakeNccl* now = nullptr;

  FakeNccl() { now = this; }
  ~FakeNccl() {
    fault.abort_hangs = false;
    all_ended();
    now = nullptr;
  }

  // Waits for the threads that a group has left behind to end its communicator; there is no other
  // wait for them. False if one has not ended within a minute.
  bool all_ended() const {
    return tests::eventually([this] { return alive == 0; });
  }

  static FakeComm& of(nccl::Comm comm) { return *static_cast<FakeComm*>(comm); }

  // Of this thread: the calls between group_start() and group_end().
  struct Group {
    int depth = 0;
    void* stream = nullptr;
    std::vector<MakeStep> made;
  };
  static Group& group() {
    static thread_local Group own;
    return own;
  }
  // Calls outside of a group, and of one that was never ended, are not what the group does.
  static int put(nccl::Comm comm, void* stream, MakeStep make) {
    const std::lock_guard lock(now->runtime.mutex);
    if (of(comm).blocks && group().depth == 0) {
      group().depth = 1;  // a group of its own
      put(comm, stream, std::move(make));
      return end_group();
    }
    if (group().depth != 1) return kInvalidUsage;
    if (now->fault.call_error != 0) return now->fault.call_error;
    of(comm).busy = now->fault.busy_polls;
    of(comm).starter = std::this_thread::get_id();
    group().stream = stream;
    FakeRuntime& runtime = now->runtime;
    if (void* const origin = runtime.stream_of(stream).captured_with) {
      runtime.stream_of(origin).held.insert(comm);
    }
    group().made.push_back(std::move(make));
    return of(comm).busy > 0 ? nccl::kInProgress : nccl::kSuccess;
  }
  static int end_group() {
    Group ended = std::exchange(group(), {});
    if (ended.depth != 1) return kInvalidUsage;
    if (ended.made.empty()) return nccl::kSuccess;
    now->runtime.give(ended.stream, [made = std::move(ended.made)] {
      std::vector<Step> steps;
      for (const MakeStep& make : made) steps.push_back(make());
      return [steps]() mutable {
        std::erase_if(steps, [](const Step& step) { return step(); });
        return steps.empty();
      };
    });
    return nccl::kSuccess;
  }

  // Done when all ranks have come to their operation of this number; then `act(inputs by rank)`.
  static int together(nccl::Comm comm, void* stream, const void* input, std::size_t bytes,
                      std::function<void(const std::vector<const void*>&)> act) {
    return put(comm, stream, [comm, input, bytes, act] {
      FakeComm& c = of(comm);
      World& world = *c.world;
      return [&world, number = c.operations++, input, bytes, rank = c.rank, act] {
        if (world.aborted) return true;
        if (!world.inputs[rank].contains(number)) {
          const auto* const begin = static_cast<const std::byte*>(input);
          world.inputs[rank][number].assign(begin, begin + bytes);
        }
        std::vector<const void*> inputs;
        for (int r = 0; r < world.size; ++r) {
          const auto found = world.inputs[r].find(number);
          if (found == world.inputs[r].end()) return false;
          inputs.push_back(found->second.data());
        }
        act(inputs);
        return true;
      };
    });
  }
  // As NCCL's: over when the other rank has taken it.
  static int send(const void* buffer, std::size_t bytes, int peer, nccl::Comm comm, void* stream) {
    return put(comm, stream, [comm, buffer, bytes, peer] {
      World& world = *of(comm).world;
      auto& line = world.messages[{of(comm).rank, peer}];
      return [&world, &line, buffer, bytes, taken = std::shared_ptr<bool>()]() mutable {
        if (!taken) {
          const auto* const begin = static_cast<const std::byte*>(buffer);
          taken = line.emplace_back(World::Message{.bytes = {begin, begin + bytes}}).taken;
        }
        return *taken || world.aborted;
      };
    });
  }
  static int receive(void* buffer, std::size_t bytes, int peer, nccl::Comm comm, void* stream) {
    return put(comm, stream, [comm, buffer, bytes, peer] {
      World& world = *of(comm).world;
      auto& line = world.messages[{peer, of(comm).rank}];
      return [&world, &line, buffer, bytes] {
        if (line.empty()) return world.aborted;
        std::memcpy(buffer, line.front().bytes.data(), std::min(bytes, line.front().bytes.size()));
        *line.front().taken = true;
        line.pop_front();
        return true;
      };
    });
  }

  static bool is_in_a_graph(nccl::Comm comm) {
    const std::lock_guard lock(now->runtime.mutex);
    now->runtime.pump();
    return std::ranges::any_of(
        now->runtime.graphs, [comm](const FakeGraph* graph) { return graph->held.contains(comm); });
  }

  // NCCL would go on to GPU 0 from a thread without a device.
  static void note_device() {
    if (FakeRuntime::device_of_thread() < 0) ++now->fault.without_device;
  }

  static nccl::Module table() {
    nccl::Module m{};
    m.version = nccl::kModuleVersion;
    m.built_with = 22809;
    m.get_version = [](int* version) { return *version = 22809, 0; };
    m.error_text = [](int code) {
      return code == nccl::kRemoteError ? "remote error" : "an error";
    };
    m.last_error = [] { return "link down"; };
    m.unique_id = [](nccl::UniqueId* id) {
      static std::atomic<int> next{0};
      std::snprintf(id->bytes, sizeof id->bytes, "id %d", next++);
      return nccl::kSuccess;
    };
    m.init = [](nccl::Comm* comm, int size, const nccl::UniqueId* id, int rank, int) {
      const std::lock_guard lock(now->runtime.mutex);
      auto& world = now->worlds[id->bytes];
      if (!world) world = std::make_unique<World>();
      world->size = size;
      auto* const made = new FakeComm{world.get(), rank};
      ++now->alive;
      made->busy = now->fault.busy_polls;
      made->starter = std::this_thread::get_id();
      *comm = made;
      return nccl::kInProgress;
    };
    m.init_blocking = [](nccl::Comm* comm, int size, const nccl::UniqueId* id, int rank, int) {
      const std::lock_guard lock(now->runtime.mutex);
      auto& world = now->worlds[id->bytes];
      if (!world) world = std::make_unique<World>();
      world->size = size;
      *comm = new FakeComm{.world = world.get(), .rank = rank, .blocks = true};
      ++now->alive;
      return nccl::kSuccess;
    };
    m.async_error = [](nccl::Comm comm, int* state) {
      FakeComm& c = of(comm);
      if (const int us = now->fault.poll_us) ::usleep(static_cast<useconds_t>(us));
      const std::lock_guard lock(now->runtime.mutex);
      if (FakeRuntime::device_of_thread() >= 0) ++now->looks.at(static_cast<std::size_t>(c.rank));
      *state = c.busy > 0 || now->fault.never_connects ? nccl::kInProgress : nccl::kSuccess;
      if (c.busy > 0 && c.starter != std::this_thread::get_id()) ++now->fault.overlaps;
      if (c.busy > 0) --c.busy;
      if (c.rank == 0 && now->fault.async_error != 0) *state = now->fault.async_error;
      return nccl::kSuccess;
    };
    m.finalize = [](nccl::Comm) {
      note_device();
      return nccl::kSuccess;
    };
    m.destroy = [](nccl::Comm comm) {
      note_device();
      if (is_in_a_graph(comm)) ++now->fault.ends_with_graphs;
      World& world = *of(comm).world;
      ++world.destroyed;
      if (now->fault.destroy_waits) {
        EXPECT_TRUE(tests::eventually([&] { return world.destroyed == world.size; }));
      }
      {
        const std::lock_guard lock(now->runtime.mutex);
        delete &of(comm);
      }
      ++now->fault.destroys;
      --now->alive;
      return nccl::kSuccess;
    };
    m.abort = [](nccl::Comm comm) {
      note_device();
      while (now->fault.abort_hangs) ::usleep(1000);
      {
        const std::lock_guard lock(now->runtime.mutex);
        of(comm).world->aborted = true;
      }
      if (!tests::eventually([comm] { return !is_in_a_graph(comm); }))
        ++now->fault.ends_with_graphs;
      {
        const std::lock_guard lock(now->runtime.mutex);
        delete &of(comm);
      }
      ++now->fault.aborts;
      --now->alive;
      return nccl::kSuccess;
    };
    m.group_start = [] {
      ++group().depth;
      return nccl::kSuccess;
    };
    m.group_end = end_group;
    m.send = send;
    m.receive = receive;
    m.all_reduce = [](const void* input, void* output, std::size_t count, DType dtype, ReduceOp,
                      nccl::Comm comm, void* stream) {
      // Floats: the sum of all. A barrier's byte has no meaning.
      const std::size_t bytes = count * size_of(dtype);
      return together(comm, stream, input, bytes, [=](const std::vector<const void*>& inputs) {
        if (dtype != DType::kF32) return;
        for (std::size_t i = 0; i < count; ++i) {
          float sum = 0;
          for (const void* each : inputs) sum += static_cast<const float*>(each)[i];
          static_cast<float*>(output)[i] = sum;
        }
      });
    };
    m.broadcast = [](void* buffer, std::size_t bytes, int root, nccl::Comm comm, void* stream) {
      return together(comm, stream, buffer, bytes, [=](const std::vector<const void*>& inputs) {
        const void* const from = inputs[static_cast<std::size_t>(root)];
        std::memcpy(buffer, from, bytes);
      });
    };
    m.all_gather = [](const void* input, void* output, std::size_t bytes, nccl::Comm comm,
                      void* stream) {
      return together(comm, stream, input, bytes, [=](const std::vector<const void*>& inputs) {
        for (std::size_t r = 0; r < inputs.size(); ++r) {
          std::memcpy(static_cast<std::byte*>(output) + r * bytes, inputs[r], bytes);
        }
      });
    };
    return m;
  }
};

}  // namespace dl::collectives::testing
