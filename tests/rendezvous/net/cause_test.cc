#include "rendezvous/net/cause.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "rendezvous/net/lifeline.h"

namespace dl::rendezvous {
namespace {

const Cause kCause{.kind = ErrorKind::kPeerFailed,
                   .blame = Blame::kUnreachable,
                   .rank = 3,
                   .found_by = 12,
                   .is_whole = true,
                   .sequence = 1042,
                   .operation = "all_reduce #1042",
                   .text = "all_reduce #1042: rank 3 is gone\n9 9 9"};

void expect_same(const Cause& a, const Cause& b) {
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.blame, b.blame);
  EXPECT_EQ(a.rank, b.rank);
  EXPECT_EQ(a.found_by, b.found_by);
  EXPECT_EQ(a.is_whole, b.is_whole);
  EXPECT_EQ(a.sequence, b.sequence);
  EXPECT_EQ(a.operation, b.operation);
  EXPECT_EQ(a.text, b.text);
}

TEST(Cause, ComesThroughItsBytes) {
  expect_same(decode_cause(encode(kCause, 4096)).value(), kCause);
  expect_same(decode_cause(encode(Cause{}, 4096)).value(), Cause{});
}

TEST(Cause, OfFewBytesLosesTheEndOfItsText) {
  const std::string bytes = encode(kCause, 64);
  EXPECT_LE(bytes.size(), 64U);
  const Cause cut = decode_cause(bytes).value();
  EXPECT_EQ(cut.rank, 3);
  EXPECT_TRUE(kCause.text.starts_with(cut.text));
}

TEST(Cause, IsNotReadFromOtherBytes) {
  const std::string good = encode(kCause, 4096);
  for (std::size_t size = 0; size < good.find("all_reduce #1042\n") + 17; ++size) {
    EXPECT_FALSE(decode_cause(good.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_cause("99 1 3 12 1 1042\nx\ny"));
  EXPECT_FALSE(decode_cause("1 99 3 12 1 1042\nx\ny"));
  EXPECT_FALSE(decode_cause("1 1 -7 12 1 1042\nx\ny"));
}

TEST(Blame, HasANameThatIsReadAgain) {
  for (int i = 0; i <= static_cast<int>(Blame::kMismatch); ++i) {
    EXPECT_EQ(blame_of(name_of(static_cast<Blame>(i))), static_cast<Blame>(i));
  }
  EXPECT_FALSE(blame_of("guilt"));
}

TEST(Lifeline, PacketsAreReadAsWhatTheyAre) {
  const auto failure =
      decode_peer_failure(encode_peer_failure({.cause = kCause, .call = "barrier #7"}));
  ASSERT_TRUE(failure);
  expect_same(failure->cause, kCause);
  EXPECT_EQ(failure->call, "barrier #7");
  const std::string waiting = encode_waiting({.rank = 5, .operation = "init"});
  EXPECT_FALSE(decode_peer_failure(waiting));
  EXPECT_EQ(decode_waiting(waiting)->rank, 5);
  EXPECT_EQ(decode_waiting(waiting)->operation, "init");
  EXPECT_FALSE(decode_waiting("waiting\nfive\ninit\n"));
  EXPECT_TRUE(is_renewal("renewal\n"));
  EXPECT_TRUE(is_recovery("recovery\n"));
  EXPECT_FALSE(is_recovery("renewal\n"));
}

// A recovery would take back a report that the program has not got over.
TEST(Lifeline, TakesBackNoReportOfAnotherThread) {
  int line[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), 0);
  const UniqueFd ours(line[0]);
  UniqueFd theirs(line[1]);
  ::setenv("DLRUN_LIFELINE_FD", std::to_string(theirs.get()).c_str(), 1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        report_recovery(standing_report());
        report_peer_failure({.cause = kCause});
        report_recovery(standing_report());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ::unsetenv("DLRUN_LIFELINE_FD");
  EXPECT_EQ(standing_report(), 0u) << "the last report of all was got over";
  theirs = UniqueFd();
  int reports = 0;
  bool stands = false;
  std::array<char, 8192> packet{};
  for (ssize_t n; (n = ::recv(ours.get(), packet.data(), packet.size(), 0)) > 0;) {
    const bool is_report = !is_recovery({packet.data(), static_cast<std::size_t>(n)});
    EXPECT_TRUE(is_report || stands) << "a second recovery from one report";
    stands = is_report;
    reports += is_report ? 1 : 0;
  }
  EXPECT_EQ(reports, 60);
  EXPECT_FALSE(stands);
}

}  // namespace
}  // namespace dl::rendezvous
