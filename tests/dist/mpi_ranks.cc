// One rank of mpi_test: what is MPI's own, beside what every backend promises (mpi_conformance.cc).
//   mpirun -n N mpi_ranks operations   all go well; MPI is finalised
//   mpirun -n N mpi_ranks failures     each in a group of its own; MPI is left with what it holds
//   mpirun -n N mpi_ranks own LEVEL    the program starts and ends MPI, with this level of threads
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cerrno>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "collectives/call/descriptor.h"
#include "collectives/compose/custom_reduce.h"
#include "collectives/compose/objects.h"
#include "collectives/init/init.h"
#include "core/base/error.h"
#include "tests/collectives/patterns.h"
#include "tests/support/eventually.h"

namespace dl::collectives {
namespace {

using namespace std::chrono_literals;
using namespace testing;

void expect(bool is_right, const std::string& what) {
  DL_CHECK(is_right, kInternal, "rank {}: wrong: {}", rank(), what);
}

std::string thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return fmt::format("{}: {}", name_of(error.kind()), error.what());
  }
  return "nothing was thrown";
}

// One write, so that the lines of several ranks are not torn.
void say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::size_t z(int n) {
  return static_cast<std::size_t>(n);
}

// What rank `from` sends to rank `to`.
Bytes part(int from, int to, std::size_t count) {
  return filled(DType::kI32, from * 10 + to, count);
}

// An operation of several slices, and one with a part for each pair.
void exchange(ProcessGroup& g, std::size_t count) {
  Bytes x = filled(DType::kF32, g.rank(), count);
  g.all_reduce({.input = x.data(), .output = x.data(), .count = count})->wait();
  for (std::size_t i = 0; i < count; i = next_look(i, count)) {
    expect(get(x, DType::kF32, i) == expected(DType::kF32, ReduceOp::kSum, g.size(), i),
           fmt::format("all_reduce of {} at {}", count, i));
  }
  Bytes out, wanted;
  for (int r = 0; r < g.size(); ++r) {
    const Bytes to = part(g.rank(), r, count);
    const Bytes from = part(r, g.rank(), count);
    out.insert(out.end(), to.begin(), to.end());
    wanted.insert(wanted.end(), from.begin(), from.end());
  }
  Bytes in(wanted.size());
  g.all_to_all({.input = out.data(), .output = in.data(), .count = count, .dtype = DType::kI32})
      ->wait();
  expect(in == wanted, fmt::format("all_to_all of {}", count));
}

void messages(ProcessGroup& g) {
  const int p = g.size();
  const int right = (g.rank() + 1) % p;
  const int left = (g.rank() + p - 1) % p;
  // Small and large, sent before anybody asks, taken in another order than sent, by tag.
  constexpr std::uint32_t kTag = 0x80000001;  // more than MPI's tags hold
  const std::size_t counts[] = {0, 1, 10'000, 700'000};
  std::vector<Bytes> sent, got;
  std::vector<Ref<Work>> works;
  for (std::uint32_t i = 0; i < 4; ++i) {
    sent.push_back(part(g.rank(), right, counts[i]));
    got.emplace_back(sent.back().size());
    works.push_back(g.send({.buffer = sent[i].data(),
                            .count = counts[i],
                            .dtype = DType::kI32,
                            .peer = right,
                            .tag = kTag + i}));
    if (counts[i] <= 10'000) expect(works.back()->is_completed(), "a small send without its recv");
  }
  for (std::uint32_t i = 4; i-- > 0;) {
    const auto work = g.recv({.buffer = got[i].data(),
                              .count = counts[i],
                              .dtype = DType::kI32,
                              .peer = i % 2 == 0 ? left : kAnySource,
                              .tag = kTag + i});
    work->wait();
    expect(work->source() == left && got[i] == part(left, g.rank(), counts[i]),
           fmt::format("message {}", i));
  }
  for (const Ref<Work>& work : works) work->wait();
  // More small ones than the credit covers: the rest waits for its receives and loses nothing.
  works.clear();
  const Bytes one = part(g.rank(), right, 15'000);
  for (int i = 0; i < 30; ++i) {
    works.push_back(
        g.send({.buffer = one.data(), .count = 15'000, .dtype = DType::kI32, .peer = right}));
  }
  expect(!works.back()->is_completed(), "a send beyond the credit is not over");
  g.barrier()->wait();  // until then no rank receives, which would return credit
  for (int i = 0; i < 30; ++i) {
    Bytes other(one.size());
    g.recv({.buffer = other.data(), .count = 15'000, .dtype = DType::kI32, .peer = left})->wait();
    expect(other == part(left, g.rank(), 15'000), "a message within or beyond the credit");
  }
  for (const Ref<Work>& work : works) work->wait();
  int out = g.rank();
  int in = -1;
  g.sendrecv({.buffer = &out, .count = 1, .dtype = DType::kI32, .peer = right},
             {.buffer = &in, .count = 1, .dtype = DType::kI32, .peer = left})
      ->wait();
  expect(in == left, "sendrecv");
}

void groups(ProcessGroup& g) {
  // Without rank 0; in the opposite order.
  const Ref<ProcessGroup> some =
      g.split({.color = g.rank() == 0 ? kNoColor : 7, .key = -g.rank(), .name = "some"});
  expect((some.get() == nullptr) == (g.rank() == 0), "who is in the split");
  if (some) {
    expect(some->size() == g.size() - 1 && some->rank() == g.size() - 1 - g.rank(), "split");
    exchange(*some, 100);
  }
  // Two groups at once, from two threads, results waited for out of order.
  const Ref<ProcessGroup> a = g.split({.name = "a"});
  const Ref<ProcessGroup> b = g.split({.key = g.rank(), .name = "b"});
  std::thread other([&] { exchange(*a, 1'100'003); });
  float x = 1;
  float y = 2;
  const AllReduceOptions first{.input = &x, .output = &x, .count = 1};
  const AllReduceOptions second{.input = &y, .output = &y, .count = 1};
  const Ref<Work> one = b->all_reduce(first);
  const Ref<Work> two = b->all_reduce(second);
  two->wait();
  one->wait();
  other.join();
  expect(x == static_cast<float>(g.size()) && y == static_cast<float>(2 * g.size()), "two at once");
  // No thread waits for it, and only MPI's own progress moves it.
  const Ref<Work> unattended = a->barrier();
  expect(tests::eventually([&] { return unattended->is_completed(); }), "unattended");

  const auto texts = all_gather_bytes(g, std::string(z(g.rank()) * 50, 'x'));
  expect(texts.size() == z(g.size()) && texts.back().size() == z(g.size() - 1) * 50, "bytes");
  float factor = 1;
  premul_all_reduce(g, {.input = &factor, .output = &factor, .count = 1}, g.rank())->wait();
  expect(factor == static_cast<float>(g.size() * (g.size() - 1) / 2), "premultiplied sum");

  // A mismatch leaves nothing with MPI, which can still be finalised.
  const std::string text = thrown_by([&] {
    std::vector<float> wrong(8 + z(g.rank()));
    b->all_reduce({.input = wrong.data(), .output = wrong.data(), .count = wrong.size()})->wait();
  });
  say(fmt::format("rank {}: {}", g.rank(), text));
}

// A child may not use what belongs to its parent's MPI.
void fork_a_child(ProcessGroup& g) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);  // it hangs
    const std::string text = thrown_by([&] { g.barrier()->wait(); });
    g.abort("a child says so");
    ::_exit(text.find("is a child that it forked") == std::string::npos ? 1 : 0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  say(fmt::format("rank {}: its child ended with {}", g.rank(), status));
  g.barrier()->wait();
}

void operations(ProcessGroup& g) {
  g.barrier()->wait();
  messages(g);
  groups(g);
  fork_a_child(g);
  say(fmt::format("rank {} of {}: all right over {}", g.rank(), g.size(), g.backend()));
}

void failures(ProcessGroup& g) {
  const auto in = [&](const std::string& name, const std::function<void(ProcessGroup&)>& run) {
    const Ref<ProcessGroup> group = g.split({.name = name});
    const std::string text = thrown_by([&] { run(*group); });
    // After an error the group throws its first cause.
    const std::string again = thrown_by([&] { group->barrier()->wait(); });
    expect(text == again, fmt::format("'{}' and then '{}'", text, again));
    say(fmt::format("rank {} {}: {}", g.rank(), name, text));
    g.barrier()->wait();  // other groups live on
  };
  const auto wait_until_broken = [](ProcessGroup& group) {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (!group.error() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    if (group.error()) std::rethrow_exception(group.error());
  };
  in("operation", [&](ProcessGroup& group) {
    float x = 0;
    if (group.rank() == 0) group.barrier()->wait();
    group.all_reduce({.input = &x, .output = &x, .count = 1})->wait();
  });
  in("parts", [&](ProcessGroup& group) {
    std::vector<float> own(4), all(40);
    const bool is_root = group.rank() == 0;
    group
        .gatherv({.input = own.data(),
                  .count = group.rank() == 1 ? 4u : 1u,
                  .output = all.data(),
                  .counts = std::vector<std::size_t>(is_root ? z(group.size()) : 0, 1)})
        ->wait();
    wait_until_broken(group);
  });
  in("message", [&](ProcessGroup& group) {
    std::vector<float> x(100'000);
    if (group.rank() == 0) {
      group.send({.buffer = x.data(), .count = x.size(), .peer = 1, .tag = 5})->wait();
    } else if (group.rank() == 1) {
      group.recv({.buffer = x.data(), .count = x.size() - 1, .peer = 0, .tag = 5})->wait();
    }
    wait_until_broken(group);
  });
  in("abort", [&](ProcessGroup& group) {
    if (group.rank() == 1) group.abort("the test says so");
    group.barrier()->wait();
  });
  in("receive", [&](ProcessGroup& group) {
    float x = 0;
    if (group.rank() == 0) {
      group.recv({.buffer = &x, .count = 1, .peer = 1, .tag = 3, .call = {.timeout = 1s}})->wait();
    }
    wait_until_broken(group);
  });
  in("deadline", [&](ProcessGroup& group) {
    if (group.rank() != 1) group.barrier({.call = {.timeout = 1s}})->wait();
    wait_until_broken(group);
  });
  say(fmt::format("rank {} reform: {}", g.rank(), thrown_by([] { reform(default_group()); })));
  {
    Ref<ProcessGroup> group = g.split({.name = "left"});
    if (g.rank() == 1) group = nullptr;
    if (group) {
      const std::string text = thrown_by([&] { group->barrier()->wait(); });
      say(fmt::format("rank {} left: {}", g.rank(), text));
    }
  }
  // A message that is never received, so that MPI holds something of every rank.
  in("unreceived", [&](ProcessGroup& group) {
    std::vector<float> x(100'000);
    const int right = (g.rank() + 1) % g.size();
    const auto work =
        group.send({.buffer = x.data(), .count = x.size(), .peer = right, .call = {.timeout = 1s}});
    g.barrier()->wait();
    static const std::vector<float> kept = std::move(x);  // MPI's until the process ends
    work->wait();
  });
}

// MPI as a program that is linked with it has it; 3 is MPI_THREAD_MULTIPLE in both.
template <typename Function>
Function* mpi(const char* name) {
  const bool is_open = std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  void* const library =
      ::dlopen(is_open ? "libmpi.so.40" : "libmpich.so.12", RTLD_NOW | RTLD_GLOBAL);
  auto* const found = library != nullptr ? ::dlsym(library, name) : nullptr;
  DL_CHECK(found != nullptr, kNotFound, "{} is not there", name);
  return reinterpret_cast<Function*>(found);
}

int run_in_own(int level) {
  int provided = 0;
  mpi<int(int*, char***, int, int*)>("MPI_Init_thread")(nullptr, nullptr, level, &provided);
  // Twice: the groups go, MPI stays.
  for (int i = 0; i < 2; ++i) {
    const std::string text = thrown_by([&] {
      init_process_group({.backend = "mpi", .timeout = 100s});
      default_group()->barrier()->wait();
      destroy_process_group();
    });
    say(text);
  }
  mpi<int()>("MPI_Finalize")();
  return 0;
}

int run(const std::string& what) {
  init_process_group({.backend = "mpi", .timeout = 100s});
  {
    const Ref<ProcessGroup> group = default_group();
    what == "failures" ? failures(*group) : operations(*group);
  }
  destroy_process_group();
  return 0;
}

}  // namespace
}  // namespace dl::collectives

int main(int argc, char** argv) {
  if (argc > 2) return dl::collectives::run_in_own(std::atoi(argv[2]));
  return dl::collectives::run(argc > 1 ? argv[1] : "operations");
}
