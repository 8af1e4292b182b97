// `dlrun ps`, on jobs that run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/jobs/view/job.h"
#include "launcher/remote/ask/ask_hosts.h"
#include "tests/launcher/jobs/support.h"
#include "tests/support/free_port.h"
#include "tests/support/gate.h"
#include "tests/support/ssh_hosts.h"

namespace dl::launcher::jobs {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tests::all_ranks_are;
using tests::dlrun;
using tests::job_of;
using tests::ran;

std::vector<std::string> waiting(const tests::Gate& gate, std::vector<std::string> options) {
  options.insert(options.end(), {"sh", "-c", gate.wait()});
  return dlrun(options);
}

TEST(Ps, ShowsTheRanksOfAJobAndTheirProcesses) {
  const tests::Gate gate;
  tests::Process run(waiting(gate, {"-n", "2", "--rdzv-id", "ps of ranks"}));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  const json job = job_of(run.pid());
  EXPECT_EQ(job.at("job"), "ps of ranks");
  EXPECT_EQ(job.at("state"), "running");
  EXPECT_EQ(job.at("program").at(0), "sh");
  EXPECT_FALSE(job.at("is_agent"));
  ASSERT_EQ(job.at("ranks").size(), 2U);
  for (const json& rank : job.at("ranks")) {
    EXPECT_EQ(tests::name_of(rank.at("pid")), "sh") << rank;
  }
  const tests::Ran page = ran(dlrun({"ps"}));
  EXPECT_EQ(page.code, 0);
  EXPECT_THAT(page.out, AllOf(HasSubstr("\"ps of ranks\"  " + std::to_string(run.pid())),
                              HasSubstr("  rank  pid")));
  gate.open();
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(job_of(run.pid()), nullptr);
}

TEST(Ps, ShowsStoppedRanksAndAStoppedDlrun) {
  const tests::Gate gate;
  tests::Process run(waiting(gate, {"-n", "1"}));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  const pid_t rank = job_of(run.pid()).at("ranks").at(0).at("pid");
  ::kill(rank, SIGSTOP);
  EXPECT_TRUE(all_ranks_are(run.pid(), "stopped"));
  run.signal(SIGSTOP);
  EXPECT_TRUE(tests::eventually([&] { return job_of(run.pid()).at("state") == "stopped"; }));
  run.signal(SIGCONT);
  ::kill(rank, SIGCONT);
  EXPECT_TRUE(all_ranks_are(run.pid(), "running"));
}

TEST(Ps, ShowsThatARankHasEndedThoughItsDlrunIsStopped) {
  const tests::Gate gate;
  tests::Process run(waiting(gate, {"-n", "1"}));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  const pid_t rank = job_of(run.pid()).at("ranks").at(0).at("pid");
  run.signal(SIGSTOP);
  ASSERT_TRUE(tests::eventually([&] { return tests::state_of(run.pid()) == 'T'; }));
  ::kill(rank, SIGKILL);
  EXPECT_TRUE(all_ranks_are(run.pid(), "ended"));
  EXPECT_TRUE(job_of(run.pid()).at("ranks").at(0).at("ended").is_null());
  run.signal(SIGCONT);
  EXPECT_EQ(run.wait(), 128 + SIGKILL);
}

TEST(Ps, SaysForWhichRankTheOthersWait) {
  tests::Process run(
      dlrun({"--nproc-per-node", "3", tests::program("../tests/stuck_probe"), "loop", "300"}));
  ASSERT_TRUE(run.wait_for_out("round 20\n")) << run.err();
  const pid_t victim = job_of(run.pid()).at("ranks").at(1).at("pid");
  ::kill(victim, SIGSTOP);
  json ranks;
  EXPECT_TRUE(tests::eventually([&] {
    ranks = job_of(run.pid()).at("ranks");
    return ranks.at(0).at("waits_for") == json({1}) && ranks.at(2).at("waits_for") == json({1}) &&
           ranks.at(1).at("state") == "stopped";
  })) << ranks;
  EXPECT_EQ(ranks.at(0).at("state"), "in_operation");
  EXPECT_THAT(ranks.at(0).at("operation").get<std::string>(), HasSubstr("all_reduce #"));
  EXPECT_GT(ranks.at(0).at("operation_s"), 0);
  EXPECT_THAT(ran(dlrun({"ps"})).out, HasSubstr("rank 1\n"));
  ::kill(victim, SIGCONT);
}

TEST(Ps, ShowsRanksThatHaveEnded) {
  const tests::Gate gate;
  tests::Process run(dlrun(
      {"-n", "2", "--on-failure", "keep", "sh", "-c", "test $RANK = 0 || exit 7; " + gate.wait()}));
  EXPECT_TRUE(tests::eventually([&] {
    const json job = job_of(run.pid());
    return !job.is_null() && job.at("ranks").size() == 2 &&
           job.at("ranks").at(1).at("ended") == "ended with exit code 7";
  }));
  EXPECT_EQ(job_of(run.pid()).at("ranks").at(1).at("pid"), nullptr);
}

TEST(Ps, ShowsADlrunThatWaitsForItsNodes) {
  tests::Process run(
      dlrun({"--nnodes", "2", "--rdzv-endpoint", "127.0.0.1:" + std::to_string(tests::free_port()),
             "--rdzv-id", "early", "--node-rank", "0", "true"}));
  EXPECT_TRUE(tests::eventually([&] { return !job_of(run.pid()).is_null(); })) << run.err();
  const json job = job_of(run.pid());
  EXPECT_EQ(job.at("state"), "starting");
  EXPECT_EQ(job.at("nodes"), 2);
  EXPECT_EQ(job.at("node"), 0);
  EXPECT_THAT(ran(dlrun({"ps"})).out, HasSubstr("waits for its nodes"));
}

TEST(Ps, ShowsNothingOfOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "another user needs root";
  const std::vector<std::string> as_other = {"setpriv", "--reuid", "54321",
                                             "--regid", "54321",   "--clear-groups"};
  const tests::Gate gate;
  tests::Process own(waiting(gate, {"-n", "1"}));
  std::vector<std::string> line = as_other;
  line.insert(line.end(), {tests::program("dlrun"), "-n", "1", "sleep", "1000"});
  tests::Process others(line);
  const auto seen_by_other = [&](pid_t pid) {
    std::vector<std::string> ps = as_other;
    ps.insert(ps.end(), {tests::program("dlrun"), "ps", "--json"});
    return tests::job_in(ran(ps).out, pid);
  };
  ASSERT_TRUE(all_ranks_are(own.pid(), "running"));
  ASSERT_TRUE(tests::eventually([&] { return !seen_by_other(others.pid()).is_null(); }))
      << others.err();
  EXPECT_EQ(job_of(others.pid()), nullptr);
  EXPECT_EQ(seen_by_other(own.pid()), nullptr);
}

TEST(Ps, ShowsAJobInAPidNamespaceByTheNumbersOfThisOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "a PID namespace needs root";
  tests::Process run({"unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                      tests::program("dlrun"), "-n", "1", "--rdzv-id", "inside", "sleep", "1000"});
  json job;
  EXPECT_TRUE(tests::eventually([&] {
    const json all = json::parse(ran(dlrun({"ps", "--json"})).out);
    for (const json& one : all.at("hosts").at(0).at("jobs")) {
      if (one.at("job") == "inside") job = one;
    }
    return !job.is_null() && !job.at("ranks").empty() &&
           job.at("ranks").at(0).at("pid").is_number();
  })) << job;
  EXPECT_EQ(tests::name_of(job.at("pid")), "dlrun");
  EXPECT_EQ(tests::name_of(job.at("ranks").at(0).at("pid")), "sleep");
}

TEST(Ps, EscapesWhatCouldControlATerminal) {
  JobView job;
  job.id = "1@1";
  job.name = "a\x1b[2Jb\nc";
  job.host = "h";
  job.program = {"./x", "\x1b]0;title\a", "two words", "\xff"};
  const HostJobs host{.host = "h\x1b[0m", .error = {}, .jobs = {job}};
  std::string text;
  for (const std::string& line : page({host}, 0)) {
    EXPECT_EQ(line.find('\n'), std::string::npos);
    text += line + "\n";
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
  EXPECT_THAT(text, AllOf(HasSubstr("\"a\\x1b[2Jb\\x0ac\""), HasSubstr("\"two words\"")));
}

TEST(Ps, ReadsWhatAnotherDlrunHasWritten) {
  JobView job;
  job.id = "1@2";
  job.name = "n";
  job.node = 3;
  job.nodes = 4;
  job.is = JobView::Is::kEnding;
  RankView rank;
  rank.rank = 5;
  rank.is = RankView::Is::kInOperation;
  rank.operation = "barrier #1";
  rank.operation_s = 1.5;
  rank.waits_for = {1, 2};
  job.ranks = {rank};
  const std::vector<HostJobs> hosts = {{.host = "h", .error = {}, .jobs = {job}}};
  const auto read = read_jobs(json_of(hosts).dump());
  ASSERT_TRUE(read);
  EXPECT_EQ(json_of(*read), json_of(hosts));
  for (const char* text :
       {"", "{}", "[]", R"({"hosts":1})", R"({"hosts":[{"host":"a"}]})",
        R"({"hosts":[{"host":"a","error":null,"jobs":[{"id":7}]}]})", "\x1b[2J"}) {
    EXPECT_FALSE(read_jobs(text)) << text;
  }
}

TEST(Ps, IsASubcommandAsTheFirstWordOnly) {
  EXPECT_EQ(ran(dlrun({"ps", "extra"})).code, 2);
  EXPECT_EQ(ran(dlrun({"ps", "--hosts"})).code, 2);
  EXPECT_THAT(ran(dlrun({"ps", "--help"})).out, HasSubstr("Usage: dlrun ps"));
  EXPECT_THAT(ran(dlrun({"-n", "1", "--no-prefix", "ps"})).out, HasSubstr("PID"));
  for (const auto& [words, code] :
       {std::pair{" ps --json >/dev/full", 1}, {" ps >&-", 1}, {" ps extra 2>&-", 2}}) {
    EXPECT_EQ(ran({"sh", "-c", tests::program("dlrun") + words}).code, code) << words;
  }
}

TEST(Ps, SaysThatItMayOpenTooFewFilesToFindAJob) {
  const tests::Gate gate;
  tests::Process run(waiting(gate, {"-n", "1"}));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  bool was_refused = false;
  for (int files = 3; files < 16; ++files) {
    const tests::Ran ps =
        ran({"sh", "-c",
             "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n " + std::to_string(files) +
                 "; exec " + tests::program("dlrun") + " ps --json"});
    if (ps.code == 0) {
      EXPECT_FALSE(tests::job_in(ps.out, run.pid()).is_null()) << files;
      continue;
    }
    was_refused = true;
    EXPECT_NE(ps.err, "") << files;
  }
  EXPECT_TRUE(was_refused);
}

TEST(Ps, ShowsFortyJobs) {
  const tests::Gate gate;
  std::vector<std::unique_ptr<tests::Process>> all;
  for (int i = 0; i < 40; ++i) {
    all.push_back(std::make_unique<tests::Process>(waiting(gate, {"-n", "1"})));
  }
  EXPECT_TRUE(tests::eventually([&] {
    const std::string text = ran(dlrun({"ps", "--json"})).out;
    return std::ranges::none_of(
        all, [&](const auto& run) { return tests::job_in(text, run->pid()).is_null(); });
  }));
  // Ended while `ps` reads them.
  gate.open();
  EXPECT_TRUE(tests::eventually([&] {
    const tests::Ran ps = ran(dlrun({"ps", "--json"}));
    EXPECT_EQ(ps.code, 0) << ps.err;
    return std::ranges::all_of(
        all, [&](const auto& run) { return tests::job_in(ps.out, run->pid()).is_null(); });
  }));
}

TEST(AskHosts, GivesUpAnSshThatClosesItsStreamsAndLivesOn) {
  const auto answer_of = [](const std::string& script, std::chrono::seconds patience) {
    return remote::ask_hosts({{"a", {"ps"}}}, {.ssh = {"sh", "-c", script}, .patience = patience})
        .at(0);
  };
  EXPECT_EQ(answer_of("exec >&- 2>&-; exec sleep 1000", std::chrono::seconds(1)).error,
            "host a has not answered within 1 s");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "its process is not gone";
  const remote::HostAnswer late =
      answer_of("echo text; exec >&- 2>&-; exit 3", std::chrono::seconds(600));
  EXPECT_EQ(late.error, "");
  EXPECT_EQ(late.text, "text\n");
  EXPECT_EQ(late.exit_code, 3);
}

TEST(Ps, AsksHostsAndNamesOneThatDoesNotAnswer) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(2);
  const tests::Gate gate;
  tests::Process run(hosts.from_front(dlrun(
      {"--ssh", hosts.ssh(), "--hosts", "a:1,b:1", "--rdzv-id", "far", "sh", "-c", gate.wait()})));
  const auto ps = [&](const std::string& names) {
    return ran(hosts.from_front(dlrun({"ps", "--json", "--ssh", hosts.ssh(), "--hosts", names})));
  };
  json far;
  // The hosts share this machine's processes, so each shows the agents of both.
  EXPECT_TRUE(tests::eventually([&] {
    const json all = json::parse(ps("a,b").out);
    for (const json& job : all.at("hosts").at(1).at("jobs")) {
      if (job.at("job") == "far" && job.at("is_agent") && job.at("node") == 1 &&
          !job.at("ranks").empty()) {
        far = job;
      }
    }
    return !far.is_null();
  })) << run.err();
  EXPECT_EQ(far.at("ranks").at(0).at("rank"), 1);
  // The dlrun that was started here knows all ranks, but not their processes.
  const json front = job_of(run.pid());
  ASSERT_FALSE(front.is_null());
  EXPECT_EQ(front.at("hosts"), json({"a", "b"}));
  EXPECT_EQ(front.at("ranks").size(), 2U);
  EXPECT_EQ(front.at("ranks").at(0).at("pid"), nullptr);
  const tests::Ran missing = ps("a,nowhere");
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, HasSubstr("host nowhere: there is no host of this name"));
  EXPECT_EQ(json::parse(missing.out).at("hosts").at(0).at("error"), nullptr);
}

}  // namespace
}  // namespace dl::launcher::jobs
