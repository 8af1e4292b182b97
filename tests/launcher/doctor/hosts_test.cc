// `dlrun doctor --hosts`: what concerns several hosts.
#include "launcher/doctor/hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "launcher/doctor/measure.h"
#include "rendezvous/net/socket/socket.h"
#include "tests/support/free_port.h"
#include "tests/support/process.h"
#include "tests/support/ssh_hosts.h"

namespace dl::launcher::doctor {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using tests::dlrun;

constexpr std::int64_t kSecond = 1'000'000'000;

const Check& between(const Checks& checks, const std::string& name) {
  static const Check kNone{.name = "none", .found = "", .verdict = Verdict::kUnknown};
  const auto found = std::ranges::find(checks, name, &Check::name);
  if (found != checks.end()) return *found;
  ADD_FAILURE() << "there is no check " << name;
  return kNone;
}

// A host whose clock is ahead by this much, and whose answer took two seconds.
Asked host_with_clock(std::int64_t ahead_ns) {
  constexpr std::int64_t kBegan = 1000 * kSecond;
  return {.name = "a",
          .error = {},
          .report = {.host = "a",
                     .version = "1",
                     .began_ns = kBegan + kSecond + ahead_ns,
                     .ended_ns = kBegan + kSecond + 1 + ahead_ns,
                     .checks = {}},
          .began_ns = kBegan,
          .ended_ns = kBegan + 2 * kSecond};
}

TEST(DoctorHosts, AnswerBySsh) {
  Asked host = host_with_clock(0);
  EXPECT_EQ(between(check_answers({host}, "1"), "ssh to a").verdict, Verdict::kOk);
  host.error = "host a does not answer within 5 s";
  const Checks checks = check_answers({host}, "1");
  EXPECT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].verdict, Verdict::kWrong);
  EXPECT_THAT(checks[0].mend, HasSubstr("ssh a true"));
}

TEST(DoctorHosts, HaveOneVersion) {
  const Checks checks = check_answers({host_with_clock(0)}, "2");
  EXPECT_EQ(between(checks, "dlrun's version on a").verdict, Verdict::kWrong);
  EXPECT_EQ(between(check_answers({host_with_clock(0)}, "1"), "dlrun's version on a").verdict,
            Verdict::kOk);
}

TEST(DoctorHosts, HaveEqualClocks) {
  const auto clock = [](std::int64_t ahead_ns) {
    return between(check_answers({host_with_clock(ahead_ns)}, "1"), "clock of a");
  };
  EXPECT_EQ(clock(0).verdict, Verdict::kOk);
  // Within the time that the answer took, nothing can be said.
  EXPECT_EQ(clock(kSecond - 2).verdict, Verdict::kOk);
  EXPECT_EQ(clock(10 * kSecond).verdict, Verdict::kWarn);
  EXPECT_EQ(clock(10 * kSecond).found, "at least 9.0 s ahead of this host's");
  EXPECT_EQ(clock(-10 * kSecond).found, "at least 9.0 s behind this host's");
  EXPECT_EQ(clock(-3600 * kSecond).verdict, Verdict::kWrong);
}

TEST(DoctorHosts, ReachEachOther) {
  const MeshLink good{.to = "b", .address = "10.0.0.2", .error = {}, .round_trip_us = 50};
  const MeshLink slow{.to = "b", .address = "10.0.0.2", .error = {}, .round_trip_us = 30'000};
  const MeshLink cut{.to = "b", .address = "", .error = "timed out"};
  const MeshAnswer quiet{.error = {}, .links = {}};
  const auto verdict = [&](const MeshLink& link) {
    const Checks checks =
        check_links({"a", "b"}, {MeshAnswer{.error = {}, .links = {link}}, quiet});
    return between(checks, "connection a to b").verdict;
  };
  EXPECT_EQ(verdict(good), Verdict::kOk);
  EXPECT_EQ(verdict(slow), Verdict::kWarn);
  EXPECT_EQ(verdict(cut), Verdict::kWrong);
  MeshLink unaddressed = cut;
  unaddressed.was_tried = false;
  EXPECT_TRUE(
      check_links({"a", "b"}, {MeshAnswer{.error = {}, .links = {unaddressed}}, quiet}).empty());
  // Host b could not listen, so no check is about the way from a to b.
  const MeshAnswer deaf{.error = "port 1 is in use", .links = {}};
  const Checks checks = check_links({"a", "b"}, {MeshAnswer{.error = {}, .links = {cut}}, deaf});
  ASSERT_EQ(checks.size(), 1U);
  EXPECT_EQ(checks[0].name, "connections to b");
  EXPECT_EQ(checks[0].verdict, Verdict::kUnknown);
  EXPECT_EQ(check_links({"a", "b"}, {std::nullopt, quiet})[0].verdict, Verdict::kUnknown);
}

TEST(DoctorMeasure, JudgesWhatTwoRanksGet) {
  const std::string rows = R"({"bytes": 8, "p50_us": 5.5, "busbw": 0.001})"
                           "\n"
                           R"({"bytes": 8388608, "p50_us": 900, "busbw": 9.5})"
                           "\n";
  const Measured good = read_measured("dlrun: a remark\n" + rows, 0);
  EXPECT_EQ(check_one_host(good).verdict, Verdict::kOk);
  EXPECT_EQ(check_one_host(good).found, "8 bytes in 5.5 us, 8 MiB at 9.5 GB/s");
  EXPECT_EQ(check_two_hosts("a", "b", good).verdict, Verdict::kOk);
  Measured slow = good;
  slow.latency_us = 5000;
  EXPECT_EQ(check_one_host(slow).verdict, Verdict::kWarn);
  slow = good;
  slow.gb_per_s = 0.01;
  EXPECT_EQ(check_two_hosts("a", "b", slow).verdict, Verdict::kWarn);
  const Measured failed = read_measured("{}\nhost b has no dlrun\n", 1);
  EXPECT_EQ(check_two_hosts("a", "b", failed).verdict, Verdict::kWrong);
  EXPECT_EQ(failed.error, "dlbench ended with exit code 1: host b has no dlrun");
  EXPECT_NE(read_measured("", 0).error, "");
}

TEST(DoctorMeasure, RunsAJobOfTwoRanks) {
  tests::Process run(dlrun({"doctor", "--json", "--measure", "--ranks", "1"}));
  run.wait();
  const auto all = nlohmann::json::parse(run.out());
  for (const auto& check : all.at("hosts").at(0).at("checks")) {
    if (check.at("name") != "two ranks of this host") continue;
    EXPECT_NE(check.at("verdict"), "wrong") << check;
    return;
  }
  FAIL() << run.out();
}

TEST(Mesh, QuestionsAndAnswersAreReadBack) {
  const MeshQuestion question{.port = 40000,
                              .token = "0123456789abcdef",
                              .self = 1,
                              .hosts = {{.name = "a", .addresses = {"10.0.0.1", "fd00::1"}},
                                        {.name = "b", .addresses = {}}}};
  const MeshQuestion read = read_question(text_of(question));
  EXPECT_EQ(text_of(read), text_of(question));
  EXPECT_EQ(read.hosts[0].addresses.size(), 2U);
  EXPECT_TRUE(read.hosts[1].addresses.empty());
  for (const char* bad : {"", "x", "1/short/0/a=", "0/0123456789abcdef/0/a=1",
                          "40000/0123456789abcdef/2/a=1", "40000/0123456789abcdef/-1/a=1"}) {
    EXPECT_THROW(read_question(bad), Error) << bad;
  }
  const MeshAnswer answer{.error = "e", .links = {{.to = "b", .address = "1", .round_trip_us = 2}}};
  EXPECT_EQ(json_text(*read_answer(json_text(answer))), json_text(answer));
  EXPECT_FALSE(read_answer("{}"));
}

TEST(Mesh, MeasuresARoundTripToAHostThatEchoes) {
  // The second host is this one by another name.
  const MeshAnswer answer =
      meet({.port = tests::free_port(),
            .token = "0123456789abcdef",
            .self = 0,
            .hosts = {{.name = "a", .addresses = {}}, {.name = "b", .addresses = {"127.0.0.1"}}}},
           1s);
  EXPECT_EQ(answer.error, "");
  ASSERT_EQ(answer.links.size(), 1U);
  EXPECT_EQ(answer.links[0].address, "127.0.0.1") << answer.links[0].error;
  EXPECT_GT(answer.links[0].round_trip_us, 0);
}

TEST(Mesh, KnowsAnotherProgramAndAPortInUse) {
  auto other = rendezvous::Listener::bind({.host = {}, .port = tests::free_port()});
  const MeshAnswer answer = meet({.port = other.port(),
                                  .token = "0123456789abcdef",
                                  .self = 0,
                                  .hosts = {{.name = "a", .addresses = {}},
                                            {.name = "b", .addresses = {"127.0.0.1"}},
                                            {.name = "c", .addresses = {}}}},
                                 3s);
  EXPECT_THAT(answer.error, HasSubstr("Address already in use"));
  ASSERT_EQ(answer.links.size(), 2U);
  EXPECT_EQ(answer.links[0].error, "another program answers at this port");
  EXPECT_FALSE(answer.links[1].was_tried);
}

TEST(DoctorHosts, AreAskedBySshAndMeet) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  tests::Process run(hosts.from_front(dlrun({"doctor", "--json", "--ranks", "1", "--measure",
                                             "--ssh", hosts.ssh(), "--hosts", "a,b,nowhere"})));
  EXPECT_EQ(run.wait(), 1) << run.err();
  const auto all = nlohmann::json::parse(run.out());
  EXPECT_EQ(all.at("hosts").size(), 2U);
  const auto verdict = [&](const std::string& name) {
    for (const auto& check : all.at("between")) {
      if (check.at("name") == name) return check.at("verdict").get<std::string>();
    }
    return "there is no check " + name;
  };
  EXPECT_EQ(verdict("ssh to a"), "ok");
  EXPECT_EQ(verdict("ssh to nowhere"), "wrong");
  EXPECT_EQ(verdict("dlrun's version on b"), "ok");
  EXPECT_EQ(verdict("clock of b"), "ok");
  EXPECT_EQ(verdict("addresses of b"), "ok");
  EXPECT_EQ(verdict("connection a to b"), "ok") << all.at("between");
  EXPECT_EQ(verdict("connection b to a"), "ok") << all.at("between");
  EXPECT_NE(verdict("ranks on a and b"), "wrong") << all.at("between");
}

}  // namespace
}  // namespace dl::launcher::doctor
