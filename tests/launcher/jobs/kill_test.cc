// `dlrun kill`, on jobs that run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "core/base/error.h"
#include "launcher/jobs/choice.h"
#include "launcher/jobs/end_jobs.h"
#include "launcher/jobs/find/processes.h"
#include "tests/launcher/jobs/support.h"
#include "tests/support/ssh_hosts.h"

namespace dl::launcher::jobs {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using tests::all_ranks_are;
using tests::dlrun;
using tests::job_of;
using tests::ran;

// A job of this name whose ranks wait.
std::vector<std::string> sleeper(const std::string& name) {
  return dlrun({"-n", "2", "--rdzv-id", name, "sleep", "1000"});
}

// A name that no other test's job has.
std::string unique_name() {
  static int next = 0;
  return "kill " + std::to_string(::getpid()) + " " + std::to_string(next++);
}

TEST(KillJob, EndsItAndSaysSoWhenItHasEnded) {
  const std::string name = unique_name();
  tests::Process run(sleeper(name));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  const tests::Ran kill = ran(dlrun({"kill", name}));
  EXPECT_EQ(kill.code, 0) << kill.err;
  EXPECT_THAT(kill.out, AllOf(HasSubstr("\"" + name + "\" (dlrun " + std::to_string(run.pid())),
                              HasSubstr("has ended, "), HasSubstr(" s after SIGTERM")));
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
  EXPECT_TRUE(tests::processes_with(run.mark()).empty());
  const tests::Ran again = ran(dlrun({"kill", name}));
  EXPECT_EQ(again.code, 1);
  EXPECT_EQ(again.err, "dlrun: you have no job \"" + name + "\"; `dlrun ps` lists your jobs\n");
  const tests::Ran as_json = ran(dlrun({"kill", name, "--json"}));
  EXPECT_EQ(as_json.code, 1);
  EXPECT_EQ(json::parse(as_json.out).dump(), R"({"jobs":[]})");
  EXPECT_EQ(as_json.err, again.err);
}

TEST(KillJob, TakesAPidOrAnIdAndAnswersInJson) {
  for (const bool by_pid : {true, false}) {
    tests::Process run(sleeper(unique_name()));
    ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
    const std::string id = job_of(run.pid()).at("id");
    const tests::Ran kill =
        ran(dlrun({"kill", by_pid ? std::to_string(run.pid()) : id, "--json", "--signal=SIGKILL"}));
    EXPECT_EQ(kill.code, 0) << kill.err;
    const json outcome = json::parse(kill.out).at("jobs").at(0);
    EXPECT_EQ(outcome.at("result"), "ended");
    EXPECT_EQ(outcome.at("id"), id);
    // Its warden has ended, and so has everything below it.
    EXPECT_TRUE(tests::processes_with(run.mark()).empty());
    EXPECT_EQ(run.wait(), 128 + SIGKILL);
  }
}

TEST(KillJob, ListsSeveralJobsOfANameAndEndsThemOnlyWithAll) {
  const std::string name = unique_name();
  tests::Process first(sleeper(name));
  tests::Process second(sleeper(name));
  ASSERT_TRUE(all_ranks_are(first.pid(), "running"));
  ASSERT_TRUE(all_ranks_are(second.pid(), "running"));
  const tests::Ran refused = ran(dlrun({"kill", name}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err,
              AllOf(HasSubstr("names 2 jobs"), HasSubstr("dlrun " + std::to_string(first.pid())),
                    HasSubstr("dlrun " + std::to_string(second.pid()))));
  const tests::Ran as_json = ran(dlrun({"kill", name, "--json"}));
  EXPECT_EQ(as_json.code, 2);
  EXPECT_EQ(json::parse(as_json.out).dump(), R"({"jobs":[]})");
  EXPECT_EQ(as_json.err, refused.err);
  EXPECT_FALSE(first.has_ended());
  const tests::Ran all = ran(dlrun({"kill", "--all", name}));
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(first.wait(), 128 + SIGTERM);
  EXPECT_EQ(second.wait(), 128 + SIGTERM);
}

TEST(KillJob, ContinuesAStoppedDlrunSoThatItEnds) {
  tests::Process run(sleeper(unique_name()));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  run.signal(SIGSTOP);
  ASSERT_TRUE(tests::eventually([&] { return tests::state_of(run.pid()) == 'T'; }));
  EXPECT_EQ(ran(dlrun({"kill", std::to_string(run.pid())})).code, 0);
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

TEST(KillJob, SaysForWhichRanksItWaitsIfTheyIgnoreTheSignal) {
  tests::Process run(dlrun({"-n", "2", "--grace", "1000", "sh", "-c",
                            "trap '' TERM; echo up; while :; do sleep 0.1; done"}));
  ASSERT_TRUE(run.wait_for_out("[rank 0] up"));
  ASSERT_TRUE(run.wait_for_out("[rank 1] up"));
  const tests::Ran kill = ran(dlrun({"kill", std::to_string(run.pid()), "--timeout", "6"}));
  EXPECT_EQ(kill.code, 1);
  EXPECT_THAT(kill.err,
              AllOf(HasSubstr("dlrun: waiting for "), HasSubstr(": ranks 0-1 run"),
                    HasSubstr("has not ended within 6 s of SIGTERM; `--signal KILL` ends it")));
  EXPECT_EQ(job_of(run.pid()).at("state"), "ending");
  EXPECT_EQ(ran(dlrun({"kill", std::to_string(run.pid()), "-s", "KILL"})).code, 0);
}

TEST(KillJob, SaysIfADlrunWasStartedToIgnoreTheSignal) {
  const std::string name = unique_name();
  tests::Process run(
      {"sh", "-c",
       "trap '' TERM; exec " + tests::program("dlrun") + " --rdzv-id '" + name + "' sleep 1000"});
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  const tests::Ran kill = ran(dlrun({"kill", name}));
  EXPECT_EQ(kill.code, 1);
  EXPECT_THAT(kill.err, HasSubstr("was started with SIGTERM ignored, as nohup does"));
  EXPECT_EQ(ran(dlrun({"kill", name, "-s", "INT"})).code, 0);
}

TEST(KillJob, SendsASignalThatEndsNothingAndDoesNotWait) {
  tests::Process run(sleeper(unique_name()));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  const tests::Ran kill = ran(dlrun({"kill", std::to_string(run.pid()), "--signal", "USR1"}));
  EXPECT_EQ(kill.code, 0);
  EXPECT_THAT(kill.out, HasSubstr("got SIGUSR1"));
  EXPECT_TRUE(run.wait_for_err("dlrun: attempt 0, "));
  EXPECT_FALSE(run.has_ended());
}

TEST(KillJob, NeverSignalsAProcessThatIsNotTheDlrunThatWasFound) {
  tests::Process other({"sleep", "1000"});
  JobView job;
  job.name = "gone";
  // As after its end, with its pid given to another process.
  job.pid = other.pid();
  job.id = id_of(other.pid(), 1);
  tests::Process run(sleeper(unique_name()));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  JobView recycled;
  recycled.pid = run.pid();
  recycled.id = id_of(run.pid(), 1);
  for (const JobView& one : {job, recycled}) {
    const std::vector<Outcome> outcomes =
        end_here({{.host = "here", .job = one}},
                 {.signal = SIGKILL, .patience = std::chrono::seconds(60), .on_waiting = {}});
    EXPECT_THAT(outcomes.at(0).text, HasSubstr("had ended already"));
  }
  EXPECT_FALSE(other.has_ended());
  EXPECT_FALSE(run.has_ended());
  EXPECT_EQ(ran(dlrun({"kill", std::to_string(other.pid())})).code, 1);
}

TEST(KillJob, FindsNoJobOfAnotherUserEvenAsRoot) {
  if (::geteuid() != 0) GTEST_SKIP() << "another user needs root";
  tests::Process others({"setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups",
                         tests::program("dlrun"), "-n", "1", "sh", "-c", "echo up; sleep 1000"});
  ASSERT_TRUE(others.wait_for_out("up")) << others.err();
  const tests::Ran kill = ran(dlrun({"kill", std::to_string(others.pid())}));
  EXPECT_EQ(kill.code, 1);
  EXPECT_THAT(kill.err, HasSubstr("you have no job "));
  EXPECT_FALSE(others.has_ended());
}

TEST(KillJob, RefusesBadUsage) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{},
                                             {"a", "b"},
                                             {"a", "--signal", "NONE"},
                                             {"a", "--timeout", "-1"},
                                             {"a", "--timeout", "soon"},
                                             {"a", "--what"},
                                             {"a", "--all=1"}}) {
    std::vector<std::string> line = dlrun({"kill"});
    line.insert(line.end(), words.begin(), words.end());
    EXPECT_EQ(ran(line).code, 2);
  }
  const std::string odd = "\x1b[2J\n$(x)";
  EXPECT_EQ(ran(dlrun({"kill", odd})).err,
            "dlrun: you have no job \"\\x1b[2J\\x0a$(x)\"; `dlrun ps` lists your jobs\n");
}

TEST(KillJob, TakesTheDlrunsOfOneJobOnSeveralHostsForOneJob) {
  JobView node;
  node.name = "n";
  node.nodes = 2;
  node.node = 0;
  JobView other = node;
  other.node = 1;
  EXPECT_TRUE(is_one_job({{"a", node}, {"b", other}}));
  EXPECT_FALSE(is_one_job({{"a", node}, {"b", node}}));
  // Nodes that wait have no number yet.
  JobView waiting = node;
  waiting.node.reset();
  EXPECT_TRUE(is_one_job({{"a", waiting}, {"a", waiting}}));
  EXPECT_TRUE(is_one_job({{"a", node}, {"a", waiting}}));
  EXPECT_FALSE(is_one_job({{"a", waiting}, {"a", waiting}, {"a", waiting}}));
  JobView front = waiting;
  front.hosts = {"a", "b"};
  EXPECT_FALSE(is_one_job({{"a", front}, {"a", front}}));
  other.nodes = 1;
  EXPECT_FALSE(is_one_job({{"a", node}, {"b", other}}));
  JobView agent = node;
  agent.is_agent = true;
  agent.pid = 7;
  try {
    matches({{.host = "a", .error = {}, .jobs = {agent}}}, "7");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "job 7 was started by a dlrun on another host, which ends it: run `dlrun kill n` "
                 "there");
  }
}

TEST(KillJob, ANameThatIsAlsoAPidIsTakenForTheNameWithAll) {
  JobView named;
  named.name = "134";
  named.pid = 7;
  JobView other;
  other.name = "train";
  other.pid = 134;
  const std::vector<HostJobs> hosts = {{.host = "a", .error = {}, .jobs = {named, other}}};
  std::vector<Chosen> chosen = matches(hosts, "134");
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_FALSE(is_one_job(chosen));
  EXPECT_EQ(why_several(chosen, "134"),
            "134 is the name of one job and the pid of another dlrun; give one by its id");
  EXPECT_EQ(why_several({{"a", other}, {"b", other}}, "134"),
            "134 names 2 jobs; give one by its id, or all of them with --all");
  keep_namesakes(chosen, "134");
  ASSERT_EQ(chosen.size(), 1u);
  EXPECT_EQ(chosen.front().job.pid, 7);
  chosen = matches(hosts, "7");
  keep_namesakes(chosen, "7");
  EXPECT_EQ(chosen.size(), 1u);
}

TEST(KillJob, EndsAJobOnAnotherHost) {
  DL_NEED_SSH_HOSTS();
  const tests::SshHosts hosts(1);
  const std::string name = unique_name();
  tests::Process run(sleeper(name));
  ASSERT_TRUE(all_ranks_are(run.pid(), "running"));
  // The host shares this machine's processes.
  const auto kill = [&](const std::vector<std::string>& words) {
    std::vector<std::string> line = dlrun({"kill", name, "--ssh", hosts.ssh()});
    line.insert(line.end(), words.begin(), words.end());
    return ran(hosts.from_front(line));
  };
  const tests::Ran unknown = kill({"--hosts", "nowhere"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("host nowhere: there is no host of this name"));
  EXPECT_FALSE(run.has_ended());
  const tests::Ran ended = kill({"--hosts", "a"});
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("has ended, "));
  EXPECT_EQ(run.wait(), 128 + SIGTERM);
}

}  // namespace
}  // namespace dl::launcher::jobs
