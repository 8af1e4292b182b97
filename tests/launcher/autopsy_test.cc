// The rules of `dlrun autopsy`, on recorders that are written here.
#include "launcher/autopsy/diagnosis.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "collectives/record/recorder.h"
#include "launcher/autopsy/autopsy.h"
#include "tests/support/temp_dir.h"

namespace dl::launcher::autopsy {
namespace {

using namespace collectives::record;
using Kind = Finding::Kind;

constexpr std::string_view kOps[] = {"all_reduce", "broadcast", "send", "recv", "barrier"};
constexpr std::string_view kDTypes[] = {"f32", "f64"};
constexpr std::string_view kReduces[] = {"sum", "max"};
constexpr Names kNamed{.ops = kOps, .dtypes = kDTypes, .reduces = kReduces};
constexpr int kExitedWith1 = 1 << 8;

// Ranks of one job that write their recorders as a back-end does.
class Job {
 public:
  explicit Job(int size) : size_(size) {
    for (int rank = 0; rank < size; ++rank) {
      recorders_.push_back(Recorder::make(
          {.rank = rank, .world_size = size, .host = "box", .job = "j"}, kNamed, {}));
      worlds_.push_back(add("world", rank));
    }
  }

  GroupRecorder add(std::string_view name, int rank) {
    return recorders_[static_cast<std::size_t>(rank)]->add_group(
        {.name = name, .backend = "tcp", .rank = rank, .size = size_});
  }
  GroupRecorder add(std::string_view name, int rank, int rank_in_group, int size) {
    return recorders_[static_cast<std::size_t>(rank)]->add_group(
        {.name = name, .backend = "tcp", .rank = rank_in_group, .size = size});
  }
  GroupRecorder& world(int rank) { return worlds_[static_cast<std::size_t>(rank)]; }
  void done(int rank, std::uint64_t sequence) {
    world(rank).finish(world(rank).begin({.sequence = sequence, .count = 8, .hash = 1}));
  }
  Slot* begin(int rank, std::uint64_t sequence, std::uint64_t count = 8, std::uint16_t hash = 1) {
    return world(rank).begin({.sequence = sequence, .count = count, .hash = hash});
  }

  std::unique_ptr<Memory> copy(int rank) const {
    return take_snapshot(recorders_[static_cast<std::size_t>(rank)]->memory());
  }
  // What dlrun adds.
  static void ended(Memory& copy, int status, bool is_cause, bool was_stopped = false) {
    copy.header.end = End::kEnded;
    copy.header.status = status;
    copy.header.is_cause = is_cause ? 1 : 0;
    copy.header.was_stopped = was_stopped ? 1 : 0;
    copy.header.ended_at = copy.header.copied_at;
  }

 private:
  int size_;
  std::vector<std::shared_ptr<Recorder>> recorders_;
  std::vector<GroupRecorder> worlds_;
};

void add(Case& to, const Memory& copy) {
  to.add(std::as_bytes(std::span(&copy, 1)), "a copy");
}

// As if the copy had been taken so much later.
void age(Memory& copy, double seconds) {
  Header& h = copy.header;
  const double rate = static_cast<double>(h.copied_at - h.opened_at) /
                      static_cast<double>(h.copied_at_ns - h.opened_at_ns);
  h.copied_at += static_cast<std::uint64_t>(seconds * 1e9 * rate);
  h.copied_at_ns += static_cast<std::uint64_t>(seconds * 1e9);
}

Case of(const Job& job, int ranks, double waited = 7) {
  Case found;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto copy = job.copy(rank);
    copy->header.end = End::kRunning;
    copy->header.process_state = 'S';
    age(*copy, waited);
    add(found, *copy);
  }
  return found;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

void expect_says(const std::vector<std::string>& lines, const std::string& what) {
  EXPECT_NE(joined(lines).find(what), std::string::npos) << what << "\nis not in\n"
                                                         << joined(lines);
}

TEST(Autopsy, NamesTheRankThatDiedAndWhoWaitedForIt) {
  Job job(3);
  for (int rank = 0; rank < 3; ++rank) job.done(rank, 1);
  job.begin(0, 2);
  job.begin(2, 2);
  Case found;
  for (int rank = 0; rank < 3; ++rank) {
    const auto copy = job.copy(rank);
    Job::ended(*copy, rank == 1 ? SIGKILL : kExitedWith1, rank == 1, rank != 1);
    add(found, *copy);
  }
  const Diagnosis diagnosis = diagnose(found);
  EXPECT_EQ(diagnosis.finding.kind, Kind::kDied);
  EXPECT_EQ(diagnosis.finding.culprits, std::vector<int>{1});
  expect_says(diagnosis.finding.lines, "was killed by signal 9 (SIGKILL), after all_reduce #1");
  expect_says(diagnosis.finding.lines,
              "ranks 0 and 2 waited for it in all_reduce #2 (f32[8] sum) of group 'world'");
}

TEST(Autopsy, SaysHowARankEndedInTheWordsOfTheFailedJobsPage) {
  Job job(2);
  Case found;
  for (int rank = 0; rank < 2; ++rank) {
    const auto copy = job.copy(rank);
    Job::ended(*copy, kExitedWith1, rank == 1, rank == 0);
    if (rank == 0) std::strcpy(copy->header.fate, "failed because of rank 1 in barrier #2");
    add(found, *copy);
  }
  expect_says(page(found), "  failed because of rank 1 in barrier #2  ");
  const auto ranks = nlohmann::json::parse(json(found)).at("ranks");
  EXPECT_EQ(ranks[0].at("fate"), "failed because of rank 1 in barrier #2");
  EXPECT_EQ(ranks[1].at("fate"), "ended with exit code 1");  // the copy has no words
}

TEST(Autopsy, AWaitThatHasJustBegunAccusesNoRank) {
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) job.done(rank, 1);
  job.begin(0, 2);  // rank 1 will call it in a moment
  const Case healthy = of(job, 2, 0.001);
  const Diagnosis moment = diagnose(healthy);
  EXPECT_EQ(moment.finding.kind, Kind::kNothing);
  EXPECT_TRUE(moment.finding.culprits.empty());
  expect_says(moment.finding.lines,
              "no rank has waited for long, the job moves: the longest wait is rank 0's, for ");
  expect_says(moment.finding.lines, " in all_reduce #2 (f32[8] sum) of group 'world'");
  const Case hanging = of(job, 2, 2);
  EXPECT_EQ(diagnose(hanging).finding.kind, Kind::kBehind);
  // Both are in it: its data is under way, and may well be.
  job.begin(1, 2);
  const Case moving = of(job, 2, 0.001);
  EXPECT_EQ(diagnose(moving).finding.kind, Kind::kNothing);
}

TEST(Autopsy, ARankThatGaveUpWithItsGroupIsNotTheCulprit) {
  Job job(3);
  for (const int rank : {0, 1}) {
    Slot* const slot = job.begin(rank, 1);
    job.world(rank).broken("timeout", "waiting for rank 2");
    job.world(rank).fail(slot);
  }
  Case found;
  for (int rank = 0; rank < 3; ++rank) {
    const auto copy = job.copy(rank);
    Job::ended(*copy, rank == 2 ? SIGKILL : kExitedWith1, rank == 0, rank == 2);
    if (rank == 0) copy->header.copied_at_ns += 20'000'000;  // it waited for a CPU before
    add(found, *copy);
  }
  const Diagnosis diagnosis = diagnose(found);
  EXPECT_EQ(diagnosis.finding.kind, Kind::kBehind);
  EXPECT_EQ(diagnosis.finding.culprits, std::vector<int>{2});
  expect_says(diagnosis.finding.lines, "was ended by dlrun, before its first operation");
  expect_says(page(found), "the first error, on rank 0 (timeout): waiting for rank 2");
}

TEST(Autopsy, ShowsBothSidesOfAMismatch) {
  Job job(3);
  job.begin(0, 7, 1000, 11);
  job.begin(1, 7, 1024, 12);
  job.begin(2, 7, 1000, 11);
  const Diagnosis diagnosis = diagnose(of(job, 3));
  EXPECT_EQ(diagnosis.finding.kind, Kind::kMismatch);
  EXPECT_EQ(diagnosis.finding.culprits, std::vector<int>{1});
  expect_says(diagnosis.finding.lines, "rank 1 called all_reduce #7 (f32[1024] sum)");
  expect_says(diagnosis.finding.lines, "ranks 0 and 2 called all_reduce #7 (f32[1000] sum)");
}

TEST(Autopsy, ANumberThatNoHashVouchesForIsComparedByItsCount) {
  Job job(2);
  job.begin(0, 7, 1000, 0);
  job.begin(1, 7, 1024, 0);
  const Case found = of(job, 2);
  EXPECT_EQ(diagnose(found).finding.culprits, (std::vector<int>{0, 1})) << "neither is the odd one";
}

TEST(Autopsy, NamesAStoppedProcess) {
  Job job(2);
  job.begin(0, 1);
  Case found;
  for (int rank = 0; rank < 2; ++rank) {
    const auto copy = job.copy(rank);
    copy->header.end = End::kRunning;
    age(*copy, 7);
    copy->header.process_state = rank == 1 ? 'T' : 'S';
    add(found, *copy);
  }
  const Diagnosis diagnosis = diagnose(found);
  EXPECT_EQ(diagnosis.finding.kind, Kind::kStopped);
  EXPECT_EQ(diagnosis.finding.culprits, std::vector<int>{1});
  expect_says(diagnosis.finding.lines, "`kill -CONT");
  expect_says(diagnosis.finding.lines, "rank 0 waited for it in all_reduce #1");
}

TEST(Autopsy, NamesTheRankThatHasNotCalledIt) {
  Job job(4);
  for (const int rank : {0, 1, 3}) job.begin(rank, 1);
  const Diagnosis diagnosis = diagnose(of(job, 4));
  EXPECT_EQ(diagnosis.finding.kind, Kind::kBehind);
  EXPECT_EQ(diagnosis.finding.culprits, std::vector<int>{2});
  expect_says(diagnosis.finding.lines, "ranks 0-1 and 3 waited for it in all_reduce #1");
}

TEST(Autopsy, ARankOfAnotherNodeMayBeTheCulprit) {
  Job job(3);
  for (const int rank : {0, 1}) job.world(rank).wait_for(job.begin(rank, 1), 2);
  const Case found = of(job, 2);
  const Diagnosis diagnosis = diagnose(found);
  EXPECT_EQ(diagnosis.finding.kind, Kind::kBehind);
  EXPECT_EQ(diagnosis.finding.culprits, std::vector<int>{2});
  expect_says(diagnosis.finding.lines, "rank 2 is waited for, and its recorder is not here");
  EXPECT_EQ(found.absent(), std::vector<int>{2});
}

TEST(Autopsy, FindsGroupsThatAreUsedInDifferentOrders) {
  Job job(2);
  GroupRecorder other0 = job.add("other", 0);
  GroupRecorder other1 = job.add("other", 1);
  job.begin(0, 1);
  other1.begin({.sequence = 1, .count = 8});
  const Diagnosis diagnosis = diagnose(of(job, 2));
  EXPECT_EQ(diagnosis.finding.kind, Kind::kCircle);
  EXPECT_EQ(diagnosis.finding.culprits, (std::vector<int>{0, 1}));
  expect_says(diagnosis.finding.lines,
              "rank 0 waited in all_reduce #1 (f32[8] sum) of group "
              "'world' for rank 1");
}

TEST(Autopsy, ReceiversThatWaitForEachOtherAreACircle) {
  Job job(2);
  job.world(0).begin(
      {.sequence = 1, .count = 5, .root = 42, .op = 3, .is_message = true, .peer = 1});
  job.world(1).begin(
      {.sequence = 1, .count = 5, .root = 42, .op = 3, .is_message = true, .peer = 0});
  const Diagnosis diagnosis = diagnose(of(job, 2));
  EXPECT_EQ(diagnosis.finding.kind, Kind::kCircle);
  expect_says(diagnosis.finding.lines, "recv #1 (f32[5], tag 42)");
}

TEST(Autopsy, GroupsThatShareANameAreNotTakenForOne) {
  Job job(4);
  std::vector<GroupRecorder> pairs;
  for (int rank = 0; rank < 4; ++rank) pairs.push_back(job.add("pair", rank, rank % 2, 2));
  // The first pair is at its second operation, the other one has not begun.
  for (const std::size_t rank : {0, 1}) {
    pairs[rank].finish(pairs[rank].begin({.sequence = 1, .count = 8}));
    pairs[rank].begin({.sequence = 2, .count = 8});
  }
  const Diagnosis diagnosis = diagnose(of(job, 4));
  EXPECT_EQ(diagnosis.finding.kind, Kind::kSlow) << joined(diagnosis.finding.lines);
}

TEST(Autopsy, TellsASlowRankFromAnIdleJob) {
  Job slow(2);
  slow.begin(0, 1);
  slow.begin(1, 1);
  EXPECT_EQ(diagnose(of(slow, 2)).finding.kind, Kind::kSlow);
  Job idle(2);
  idle.done(0, 1);
  idle.done(1, 1);
  EXPECT_EQ(diagnose(of(idle, 2)).finding.kind, Kind::kNothing);
}

TEST(Autopsy, PutsTheCulpritFirstAndARankALine) {
  Job job(3);
  for (int rank = 0; rank < 3; ++rank) job.done(rank, 1);
  job.begin(0, 2);
  job.begin(1, 2);
  const std::vector<std::string> lines = page(of(job, 3));
  ASSERT_EQ(lines.size(), 7u) << joined(lines);
  EXPECT_EQ(lines[0].find("rank 2 (box, pid "), 0u) << lines[0];
  EXPECT_EQ(lines[2], "");
  EXPECT_EQ(lines[3].find("rank  process"), 0u) << lines[3];
  EXPECT_NE(lines[4].find("waiting for rank 2"), std::string::npos) << lines[4];
  EXPECT_NE(lines[6].find("all_reduce #1 (f32[8] sum)"), std::string::npos) << lines[6];
}

TEST(Autopsy, IsJsonThatNoTerminalObeysWhateverNamesSay) {
  // CSI of 8 bits, DEL, a quote, a backslash, ESC, bytes that are no UTF-8, a cut character.
  const std::string name =
      "a\xc2\x9b"
      "2J\x7f\"\\\x1b[31m\xff\xc3(\xc3\xa9\xc3";
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) {
    GroupRecorder group = job.add(name, rank);
    group.begin({.sequence = 1, .count = 8, .hash = 1});
  }
  Case found = of(job, 2);
  found.unusable.push_back({name, name});
  const std::string text = json(found);
  EXPECT_TRUE(
      std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= ' ' && c < '\x7f'); }));
  const auto parsed = nlohmann::json::parse(text);
  EXPECT_EQ(parsed.at("unusable").at(0).at("file").get<std::string>(),
            "a\xc2\x9b"
            "2J\x7f\"\\\x1b[31m\xef\xbf\xbd\xef\xbf\xbd(\xc3\xa9\xef\xbf\xbd");
}

TEST(AutopsyFiles, AreReadFromALogDirectoryAndJudgedOneByOne) {
  const tests::TempDir directory;
  const std::filesystem::path root = directory.path();
  Job job(4);
  for (const int rank : {0, 1}) job.begin(rank, 1);
  for (const int rank : {0, 1}) EXPECT_EQ(write_snapshot(*job.copy(rank), root, rank), "");
  std::filesystem::resize_file(root / "1" / kFileName, 70'000);
  Job other(2);  // of another job, by its size
  EXPECT_EQ(write_snapshot(*other.copy(0), root, 2), "");
  for (const char* name : {"3", "4", "5", "6"}) std::filesystem::create_directory(root / name);
  std::ofstream(root / "3" / kFileName) << "garbage";
  EXPECT_EQ(::mkfifo((root / "4" / kFileName).c_str(), 0600), 0);
  std::filesystem::create_directory(root / "5" / kFileName);
  std::filesystem::create_symlink("nowhere", root / "6" / kFileName);
  std::ofstream(root / "stdout.log") << "no folder of a rank";

  Case found;
  found.add_path(root);
  ASSERT_EQ(found.ranks.size(), 2u);
  EXPECT_TRUE(found.ranks[1].truncated);
  EXPECT_EQ(found.absent(), (std::vector<int>{2, 3}));
  ASSERT_EQ(found.unusable.size(), 5u);
  const std::vector<std::string> lines = page(found);
  expect_says(lines, "it is of another run: job j, 2 ranks");
  expect_says(lines, "it is not a flight recorder");
  expect_says(lines, "it is no plain file");
  expect_says(lines, "No such file or directory");
  expect_says(lines, "rank 1: the file is cut short");
  expect_says(lines, "nothing is here of ranks 2-3");
}

TEST(AutopsyFiles, SayThatThereIsNothingToRead) {
  const tests::TempDir directory;
  Case found;
  found.add_path(directory.path());
  expect_says(page(found), "there is no flight recorder to read");
  expect_says(page(found), "dlrun writes them to --log-dir");
}

}  // namespace
}  // namespace dl::launcher::autopsy
