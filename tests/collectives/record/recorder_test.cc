#include "collectives/record/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "collectives/record/clock.h"
#include "collectives/record/snapshot.h"
#include "tests/support/temp_dir.h"

namespace dl::collectives::record {
namespace {

constexpr std::string_view kOps[] = {"all_reduce", "barrier"};
constexpr std::string_view kDTypes[] = {"f16", "bf16", "f32"};
constexpr std::string_view kReduces[] = {"sum", "max"};
constexpr Names kNamed{.ops = kOps, .dtypes = kDTypes, .reduces = kReduces};

std::shared_ptr<Recorder> make(const std::string& directory = "") {
  return Recorder::make({.rank = 1, .world_size = 4, .generation = 3, .host = "box", .job = "j"},
                        kNamed, {.directory = directory});
}

RankFacts read(const Memory& memory) {
  const auto copy = take_snapshot(memory);
  std::string why;
  const auto facts = parse(std::as_bytes(std::span(copy.get(), 1)), why);
  if (!facts) ADD_FAILURE() << why;
  return facts.value_or(RankFacts());
}
RankFacts read(const Recorder& recorder) {
  return read(recorder.memory());
}

// As dlrun makes it.
int make_descriptor() {
  const int fd = ::memfd_create("recorder", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Header header{};
  describe(header, {.rank = 1, .world_size = 4, .generation = 3, .host = "box", .job = "j"});
  EXPECT_EQ(::ftruncate(fd, kBytes), 0);
  EXPECT_EQ(::pwrite(fd, &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  EXPECT_EQ(::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  return fd;
}

// A thread that is held up between two readings errs by as long: one good round of many is asked
// for.
TEST(TickTime, TurnsTicksIntoTimeAlsoLater) {
  using namespace std::chrono_literals;
  using Steady = TickTime::Steady;
  const TickTime clock;
  bool is_right = false;
  for (int round = 0; round < 100 && !is_right; ++round) {
    const auto before = Steady::now();
    const std::uint64_t tick = clock.now();
    const auto after = Steady::now();
    while (Steady::now() < after + 5ms) {
    }
    const auto at = clock.time_of(tick);
    is_right = at > before - 50us && at < after + 50us;
  }
  EXPECT_TRUE(is_right);
}

TEST(Recorder, KeepsWhatAGroupDid) {
  const auto recorder = make();
  GroupRecorder group = recorder->add_group(
      {.name = "world", .backend = "tcp", .generation = 3, .rank = 1, .size = 4});
  const std::uint8_t ring = recorder->algorithm("ring");
  EXPECT_EQ(recorder->algorithm("ring"), ring);
  EXPECT_NE(recorder->algorithm("direct"), ring);

  Slot* const first = group.enqueue(
      {.sequence = 7, .count = 1000, .op = 0, .dtype = 2, .reduce = 1, .hash = 0xbeef});
  group.start(first, ring);
  group.finish(first);
  Slot* const second = group.begin({.sequence = 8, .op = 1});
  group.wait_for(second, 3);
  Slot* const message =
      group.enqueue({.sequence = 1, .count = 5, .root = 42, .is_message = true, .peer = 2});
  group.fail(message);

  const RankFacts facts = read(*recorder);
  EXPECT_EQ(facts.rank, 1);
  EXPECT_EQ(facts.world_size, 4);
  EXPECT_EQ(facts.host, "box");
  EXPECT_TRUE(facts.opened);
  ASSERT_EQ(facts.groups.size(), 1u);
  EXPECT_EQ(facts.groups[0].name, "world");
  EXPECT_EQ(facts.groups[0].backend, "tcp");
  EXPECT_EQ(facts.groups[0].size, 4);
  EXPECT_EQ(facts.groups[0].state, GroupState::kOpen);
  EXPECT_EQ(facts.groups[0].last_called, 8u) << "messages are counted apart";
  ASSERT_EQ(facts.operations.size(), 3u);
  const Operation& a = facts.operations[0];
  EXPECT_EQ(a.state, State::kFinished);
  EXPECT_EQ(a.sequence, 7u);
  EXPECT_EQ(a.count, 1000u);
  EXPECT_EQ(a.op, "all_reduce");
  EXPECT_EQ(a.dtype, "f32");
  EXPECT_EQ(a.reduce, "max");
  EXPECT_EQ(a.algorithm, "ring");
  EXPECT_EQ(a.hash, 0xbeef);
  EXPECT_EQ(a.root, -1);
  EXPECT_EQ(a.waits_for, -1);
  EXPECT_EQ(a.group, facts.groups[0].number);
  ASSERT_TRUE(a.enqueued && a.started && a.ended);
  EXPECT_GE(*a.enqueued, *a.started);
  EXPECT_GE(*a.started, *a.ended);
  EXPECT_LT(*a.enqueued, 60);
  EXPECT_EQ(facts.operations[1].state, State::kStarted);
  EXPECT_EQ(facts.operations[1].waits_for, 3);
  EXPECT_EQ(facts.operations[2].state, State::kFailed);
  EXPECT_EQ(facts.operations[2].waits_for, 2);
  EXPECT_EQ(facts.operations[2].root, 42);
  EXPECT_TRUE(facts.operations[2].is_message);
  EXPECT_FALSE(facts.operations[1].is_message);
}

// As above: one good round.
TEST(Recorder, MeasuresTime) {
  double recorded = 0;
  double took = 0;
  const auto is_right = [&] { return recorded >= 0.049 && recorded <= took * 1.02; };
  for (int round = 0; round < 50 && !is_right(); ++round) {
    const auto recorder = make();
    GroupRecorder group = recorder->add_group({.name = "world"});
    const std::uint64_t before = monotonic_ns();
    Slot* const slot = group.begin({.sequence = 1});
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    group.finish(slot);
    took = static_cast<double>(monotonic_ns() - before) * 1e-9;
    const RankFacts facts = read(*recorder);
    ASSERT_EQ(facts.operations.size(), 1u);
    recorded = *facts.operations[0].started - *facts.operations[0].ended;
  }
  EXPECT_TRUE(is_right()) << recorded << " s of " << took;
}

TEST(Recorder, KeepsTheLastOperationsAndEveryOneUnderWay) {
  const auto recorder = make();
  GroupRecorder group = recorder->add_group({.name = "world"});
  GroupRecorder stuck = recorder->add_group({.name = "stuck"});
  Slot* const waits = stuck.begin({.sequence = 1});
  for (std::uint64_t i = 1; i <= 5 * kSlots; ++i) group.finish(group.begin({.sequence = i}));
  const RankFacts facts = read(*recorder);
  ASSERT_EQ(facts.operations.size(), kSlots);
  EXPECT_EQ(facts.operations.front().state, State::kStarted);
  EXPECT_EQ(facts.operations.front().group, facts.groups[1].number);
  EXPECT_EQ(facts.operations.back().sequence, 5 * kSlots);
  EXPECT_EQ(facts.operations[1].sequence, 4 * kSlots + 2);
  EXPECT_EQ(facts.dropped, 0u);
  stuck.finish(waits);
}

TEST(Recorder, CountsWhatFindsNoRoom) {
  const auto recorder = make();
  GroupRecorder group = recorder->add_group({.name = "world"});
  std::vector<Slot*> slots;
  for (std::uint64_t i = 1; i <= kSlots; ++i) slots.push_back(group.begin({.sequence = i}));
  EXPECT_EQ(group.begin({.sequence = kSlots + 1}), nullptr);
  group.start(nullptr);
  group.finish(nullptr);
  const RankFacts facts = read(*recorder);
  EXPECT_EQ(facts.dropped, 1u);
  EXPECT_EQ(facts.groups[0].last_called, kSlots + 1) << "where it is, it still says";
  for (Slot* const slot : slots) group.fail(slot);
  EXPECT_NE(group.begin({.sequence = kSlots + 2}), nullptr);
}

TEST(Recorder, TakesWritersOfSeveralGroupsAtOnce) {
  const auto recorder = make();
  constexpr int kThreads = 4;
  constexpr std::uint64_t kEach = 20'000;
  std::atomic<bool> over{false};
  std::vector<GroupRecorder> groups;
  for (int t = 0; t < kThreads; ++t) {
    groups.push_back(recorder->add_group({.name = std::to_string(t)}));
  }
  std::vector<std::thread> writers;
  for (int t = 0; t < kThreads; ++t) {
    writers.emplace_back([&, t] {
      GroupRecorder& group = groups[static_cast<std::size_t>(t)];
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        // All that an operation says must fit together.
        Slot* const slot = group.enqueue({.sequence = i,
                                          .count = i * 10 + static_cast<std::uint64_t>(t),
                                          .root = t,
                                          .hash = static_cast<std::uint16_t>(i)});
        group.start(slot);
        group.finish(slot);
      }
    });
  }
  std::thread reader([&] {
    while (!over.load()) {
      const RankFacts facts = read(*recorder);
      std::set<std::uint64_t> tickets;
      for (const Operation& o : facts.operations) {
        EXPECT_TRUE(tickets.insert(o.ticket).second);
        EXPECT_EQ(o.count, o.sequence * 10 + static_cast<std::uint64_t>(o.root));
        EXPECT_EQ(o.hash, static_cast<std::uint16_t>(o.sequence));
      }
      std::this_thread::yield();
    }
  });
  for (std::thread& writer : writers) writer.join();
  over.store(true);
  reader.join();
  const RankFacts facts = read(*recorder);
  EXPECT_EQ(facts.torn, 0u);
  EXPECT_EQ(recorder->memory().header.tickets.load() - facts.dropped >= kThreads * kEach, true);
  for (const GroupFacts& group : facts.groups) EXPECT_EQ(group.last_called, kEach);
}

TEST(Recorder, ReusesThePlacesOfGroupsThatLeft) {
  const auto recorder = make();
  for (std::size_t i = 0; i < 3 * kGroups; ++i) {
    GroupRecorder group = recorder->add_group({.name = "short"});
    EXPECT_NE(group.recorder(), nullptr);
  }
  std::vector<GroupRecorder> all;
  for (std::size_t i = 0; i < kGroups; ++i) all.push_back(recorder->add_group({.name = "long"}));
  EXPECT_NE(all.back().recorder(), nullptr);
  GroupRecorder one_too_many = recorder->add_group({.name = "more"});
  EXPECT_EQ(one_too_many.recorder(), nullptr);
  EXPECT_EQ(one_too_many.begin({.sequence = 1}), nullptr);
  one_too_many.broken("timeout", "nobody hears it");
  const RankFacts facts = read(*recorder);
  EXPECT_EQ(facts.groups.size(), kGroups);
  EXPECT_EQ(facts.groups.back().number, 4 * kGroups);
}

TEST(Recorder, KeepsTheFirstCauseAndWritesItsFileOnce) {
  const tests::TempDir directory;
  const auto recorder = make(directory.path());
  {
    GroupRecorder group = recorder->add_group({.name = "world"});
    Slot* const slot = group.begin({.sequence = 1});
    group.broken("timeout", "waiting for rank 2");
    group.broken("aborted", "too late");
    group.fail(slot);
  }
  std::ifstream file(directory.path() + "/1/flight.rec", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::string why;
  const auto facts = parse(std::as_bytes(std::span(bytes)), why);
  ASSERT_TRUE(facts) << why;
  ASSERT_EQ(facts->groups.size(), 1u);
  EXPECT_EQ(facts->groups[0].kind, "timeout");
  EXPECT_EQ(facts->groups[0].cause, "waiting for rank 2");
  ASSERT_EQ(facts->operations.size(), 1u);
  EXPECT_EQ(facts->operations[0].state, State::kStarted) << "as it was when the group broke";
  EXPECT_EQ(read(*recorder).groups[0].state, GroupState::kLeft);
  EXPECT_EQ(read(*recorder).groups[0].cause, "waiting for rank 2");
}

TEST(Recorder, TellsThatItsFileCannotBeWritten) {
  static std::string told;
  const auto recorder = Recorder::make(
      {}, kNamed,
      {.directory = "/proc/nowhere", .failed = [](const std::string& why) { told = why; }});
  recorder->add_group({.name = "world"}).broken("timeout", "late");
  EXPECT_EQ(told, "create /proc/nowhere: No such file or directory");
}

TEST(Recorder, OutlivesAKilledProcess) {
  const int fd = make_descriptor();
  const pid_t child = ::fork();
  if (child == 0) {
    std::string why;
    const auto recorder = Recorder::open(fd, kNamed, why);
    GroupRecorder group = recorder->add_group({.name = "world"});
    for (std::uint64_t i = 1; i <= 41; ++i) group.finish(group.begin({.sequence = i}));
    group.begin({.sequence = 42});
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  void* const at = ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd, 0);
  const RankFacts facts = read(*static_cast<Memory*>(at));
  EXPECT_EQ(facts.groups.at(0).last_called, 42u);
  EXPECT_EQ(facts.operations.size(), 42u);
  EXPECT_EQ(facts.operations.back().state, State::kStarted);
  EXPECT_EQ(facts.torn, 0u);

  // Its successor starts a new recording, and is its only writer.
  std::string why;
  const auto successor = Recorder::open(fd, kNamed, why);
  ASSERT_TRUE(successor) << why;
  EXPECT_TRUE(read(*successor).operations.empty());
  const pid_t second = ::fork();
  if (second == 0) {
    std::string refused;
    ::_exit(Recorder::open(fd, kNamed, refused) == nullptr &&
                    refused.find("process " + std::to_string(::getppid())) != std::string::npos
                ? 0
                : 1);
  }
  ::waitpid(second, &status, 0);
  EXPECT_EQ(status, 0);
  ::munmap(at, kBytes);
  ::close(fd);
}

TEST(Recorder, OpensOnlyWhatIsOne) {
  std::string why;
  EXPECT_EQ(Recorder::open(-1, kNamed, why), nullptr);
  EXPECT_NE(why.find("is not a recorder"), std::string::npos) << why;
  const int unsealed = ::memfd_create("x", MFD_CLOEXEC);
  EXPECT_EQ(::ftruncate(unsealed, kBytes), 0);
  EXPECT_EQ(Recorder::open(unsealed, kNamed, why), nullptr);
  ::close(unsealed);
  const int fd = make_descriptor();
  EXPECT_EQ(::pwrite(fd, "garbage", 7, 0), 7);
  EXPECT_EQ(Recorder::open(fd, kNamed, why), nullptr);
  EXPECT_NE(why.find("format"), std::string::npos) << why;
  ::close(fd);
}

TEST(Snapshot, MarksASlotThatIsBeingWritten) {
  const auto recorder = make();
  GroupRecorder group = recorder->add_group({.name = "world"});
  group.finish(group.begin({.sequence = 1}));
  Slot* const torn = group.begin({.sequence = 2});
  torn->word.store((torn->word.load() & ~std::uint64_t{0xff}) |
                   static_cast<std::uint64_t>(State::kWriting));
  const RankFacts facts = read(*recorder);
  EXPECT_EQ(facts.torn, 1u);
  ASSERT_EQ(facts.operations.size(), 1u);
  EXPECT_EQ(facts.operations[0].sequence, 1u);
}

std::string bytes_of(const Recorder& recorder) {
  const auto copy = take_snapshot(recorder.memory());
  return {reinterpret_cast<const char*>(copy.get()), sizeof *copy};
}

TEST(Parse, TakesWhatACutFileStillHolds) {
  const auto recorder = make();
  GroupRecorder group = recorder->add_group({.name = "world"});
  group.finish(group.begin({.sequence = 1}));
  const std::string whole = bytes_of(*recorder);
  for (std::size_t size = 0; size < whole.size(); size += 501) {
    std::string why;
    const auto facts = parse(std::as_bytes(std::span(whole.data(), size)), why);
    if (facts) {
      EXPECT_TRUE(facts->truncated);
      EXPECT_EQ(facts->rank, 1);
    } else {
      EXPECT_LT(size, 256u);
      EXPECT_FALSE(why.empty());
    }
  }
}

TEST(Parse, LetsNoControlCharacterThrough) {
  const auto recorder = make();
  GroupRecorder group = recorder->add_group({.name = "evil\033[2Jname\n"});
  group.broken("kind", std::string(2000, '\a'));
  const RankFacts facts = read(*recorder);
  EXPECT_EQ(facts.groups[0].name, "evil?[2Jname?");
  EXPECT_EQ(facts.groups[0].cause.find_first_not_of('?'), std::string::npos);
}

TEST(Parse, RefusesWhatIsNoRecorder) {
  const auto refusal = [](std::string bytes) {
    std::string why;
    EXPECT_FALSE(parse(std::as_bytes(std::span(bytes)), why));
    return why;
  };
  EXPECT_EQ(refusal(""), "it is not a flight recorder");
  EXPECT_EQ(refusal(std::string(kBytes, 'x')), "it is not a flight recorder");
  std::string bytes = bytes_of(*make());
  bytes[offsetof(Header, format)] = 9;
  EXPECT_EQ(refusal(bytes), "it has format 9, this dlrun reads 1");
  bytes[offsetof(Header, format)] = 1;
  bytes[offsetof(Header, rank)] = 77;
  EXPECT_EQ(refusal(bytes), "it says rank 77 of 4");
}

}  // namespace
}  // namespace dl::collectives::record
