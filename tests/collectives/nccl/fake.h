// A GPU and an NCCL for tests, all ranks of a test being threads of this process.
//
// A stream is a queue of steps, each a function that is asked again until it says that it is done;
// every call of the fake runtime runs the queues. An operation of the fake NCCL is a step that is
// done when all ranks of its communicator have come to theirs, a message's when both of its ranks
// have; a group of them is one step. A capture keeps what makes the steps, and each launch makes
// them anew. What a test wants to go wrong stands in Fault.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
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

#include <unistd.h>

#include "collectives/nccl/module.h"
#include "core/device/cuda/module/runtime.h"

namespace dl::collectives::testing {

inline constexpr int kInvalidUsage = 5;

using Step = std::function<bool()>;
using MakeStep = std::function<Step()>;

struct FakeStream {
  std::deque<Step> steps;
  FakeStream* captured_with = nullptr;  // the stream that a capture began on
  // By a capture that began here: what it makes, and the communicators that it holds work of.
  std::vector<MakeStep> recorded;
  std::set<void*> held;
};
struct FakeGraph {
  std::vector<MakeStep> recorded;
  std::set<void*> held;
  int running = 0;  // steps of its launches
  bool is_destroyed = false;
};
struct FakeEvent {
  std::uint64_t recorded = 0;
  FakeStream* captured_with = nullptr;
  // Streams hold it: an event may go before its stream has come to it.
  std::shared_ptr<std::uint64_t> passed = std::make_shared<std::uint64_t>(0);
};

class FakeRuntime : public cuda::Runtime {
 public:
  std::recursive_mutex mutex;
  std::set<FakeStream*> streams;
  int captured_queries = 0;     // of events that a capture recorded: CUDA would break the capture
  std::set<FakeGraph*> graphs;  // that live

  FakeRuntime() = default;
  ~FakeRuntime() override {
    for (FakeStream* stream : streams) delete stream;
    for (FakeGraph* graph : graphs) delete graph;
  }

  void pump() {
    for (bool moved = true; moved;) {
      moved = false;
      for (FakeStream* stream : streams) {
        while (!stream->steps.empty() && stream->steps.front()()) {
          stream->steps.pop_front();
          moved = true;
        }
      }
    }
    std::erase_if(graphs, [](FakeGraph* graph) {
      if (!graph->is_destroyed || graph->running > 0) return false;
      delete graph;
      return true;
    });
  }
  // What a capture leaves out.
  void push(void* stream, Step step) {
    const std::lock_guard lock(mutex);
    auto* const to = static_cast<FakeStream*>(stream);
    if (to->captured_with == nullptr) to->steps.push_back(std::move(step));
  }
  // What it records.
  void give(void* stream, const MakeStep& make) {
    const std::lock_guard lock(mutex);
    auto* const to = static_cast<FakeStream*>(stream);
    to->captured_with == nullptr ? to->steps.push_back(make())
                                 : to->captured_with->recorded.push_back(make);
  }

  int device_count() override { return 8; }
  cuda::DeviceProperties properties(int device) override {
    return {.name = "Fake", .uuid = "GPU-" + std::to_string(device)};
  }
  cuda::MemoryInfo memory_info(int) override { return {}; }
  void check_device(int) override {}
  void adopt_device(int device) noexcept override { device_of_thread() = device; }
  static int& device_of_thread() {
    thread_local int device = -1;
    return device;
  }
  void* allocate(int, std::size_t bytes) override { return ::operator new(bytes); }
  void deallocate(int, void* block) noexcept override { ::operator delete(block); }
  void* allocate_pinned(int, std::size_t bytes) override { return ::operator new(bytes); }
  void deallocate_pinned(void* block) noexcept override { ::operator delete(block); }
  void copy_async(void* to, const void* from, std::size_t bytes, void* stream) override {
    give(stream, [=] {
      return [=] {
        std::memcpy(to, from, bytes);
        return true;
      };
    });
  }
  void* make_stream(int, bool) override {
    const std::lock_guard lock(mutex);
    return *streams.insert(new FakeStream).first;
  }
  void destroy_stream(void* stream) noexcept override {
    const std::lock_guard lock(mutex);
    streams.erase(static_cast<FakeStream*>(stream));
    delete static_cast<FakeStream*>(stream);
  }
  void synchronize_stream(void* stream) override {
    while (true) {
      {
        const std::lock_guard lock(mutex);
        pump();
        if (static_cast<FakeStream*>(stream)->steps.empty()) return;
      }
      let_others_in();
    }
  }
  // A mutex goes to the first thread that asks, and that would be this thread again.
  static void let_others_in() { ::usleep(20); }
  void synchronize_device(int) override {}
  void* make_event(int, bool) override { return new FakeEvent; }
  void destroy_event(void* event) noexcept override { delete static_cast<FakeEvent*>(event); }
  void record_event(void* event, void* stream) override {
    const std::lock_guard lock(mutex);
    auto* const e = static_cast<FakeEvent*>(event);
    e->captured_with = static_cast<FakeStream*>(stream)->captured_with;
    const std::uint64_t number = ++e->recorded;
    push(stream, [passed = e->passed, number] {
      *passed = std::max(*passed, number);
      return true;
    });
  }
  bool query_event(void* event) override {
    const std::lock_guard lock(mutex);
    auto* const e = static_cast<FakeEvent*>(event);
    if (e->captured_with != nullptr) ++captured_queries;
    pump();
    return *e->passed == e->recorded;
  }
  void synchronize_event(void* event) override {
    while (!query_event(event)) let_others_in();
  }
  void wait_event(void* stream, void* event) override {
    const std::lock_guard lock(mutex);
    auto* const e = static_cast<FakeEvent*>(event);
    // A stream that waits for a capturing one is captured with it.
    if (e->captured_with != nullptr) {
      static_cast<FakeStream*>(stream)->captured_with = e->captured_with;
    }
    push(stream, [passed = e->passed, number = e->recorded] { return *passed >= number; });
  }
  float elapsed_ms(void*, void*) override { return 0; }
  cuda::CaptureState capture_state(void* stream) override {
    const std::lock_guard lock(mutex);
    return static_cast<FakeStream*>(stream)->captured_with != nullptr ? cuda::CaptureState::kActive
                                                                      : cuda::CaptureState::kNone;
  }
  void begin_capture(void* stream) override {
    const std::lock_guard lock(mutex);
    static_cast<FakeStream*>(stream)->captured_with = static_cast<FakeStream*>(stream);
  }
  void* end_capture(void* stream) override {
    const std::lock_guard lock(mutex);
    for (FakeStream* each : streams) {
      if (each->captured_with == stream) each->captured_with = nullptr;
    }
    auto* const origin = static_cast<FakeStream*>(stream);
    return *graphs
                .insert(new FakeGraph{std::exchange(origin->recorded, {}),
                                      std::exchange(origin->held, {})})
                .first;
  }
  void launch_graph(void* graph, void* stream) override {
    const std::lock_guard lock(mutex);
    auto* const launched = static_cast<FakeGraph*>(graph);
    for (const MakeStep& make : launched->recorded) {
      ++launched->running;
      push(stream, [step = make(), launched] {
        const bool is_over = step();
        if (is_over) --launched->running;
        return is_over;
      });
    }
  }
  // CUDA returns at once, and keeps what the graph holds until its launches are over.
  void destroy_graph(void* graph) noexcept override {
    const std::lock_guard lock(mutex);
    static_cast<FakeGraph*>(graph)->is_destroyed = true;
    pump();
  }
};

// What shall go wrong, for every communicator of the test.
struct Fault {
  std::atomic<int> busy_polls{0};  // init and starts take so many polls each
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
  FakeRuntime runtime;
  Fault fault;
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
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (alive > 0) {
      if (std::chrono::steady_clock::now() > end) return false;
      ::usleep(200);
    }
    return true;
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
    if (FakeStream* const origin = static_cast<FakeStream*>(stream)->captured_with) {
      origin->held.insert(comm);
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
      const std::lock_guard lock(now->runtime.mutex);
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
      while (now->fault.destroy_waits && world.destroyed < world.size) ::usleep(1000);
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
      const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
      while (is_in_a_graph(comm) && std::chrono::steady_clock::now() < end) ::usleep(200);
      if (is_in_a_graph(comm)) ++now->fault.ends_with_graphs;
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
