// dlrun-rendezvous as dlrun uses it: processes, pipes and JSON lines.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/sanitizers.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/grpc/grpc_store.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/socket.h"
#include "tests/rendezvous/cutting_proxy.h"
#include "tests/support/process.h"
#include "tests/support/program.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// A child with a pipe to its standard input and one from its standard output; killed at the end.
class Child {
 public:
  // `inherited` keep their numbers in the child.
  Child(const std::vector<std::string>& arguments, const std::vector<int>& inherited) {
    const std::string path = tests::program("dlrun-rendezvous");
    // Before the fork: other threads of this process may hold what allocating needs.
    std::vector<char*> values;
    for (const std::string& argument : arguments) {
      if (!argument.empty()) values.push_back(const_cast<char*>(argument.c_str()));
    }
    values.push_back(nullptr);
    int in[2];
    int out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw_errno(errno, "pipe2");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], 0);
      ::dup2(out[1], 1);
      for (const int fd : inherited) ::fcntl(fd, F_SETFD, 0);
      ::execv(path.c_str(), values.data());
      ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    in_.reset(in[1]);
    out_.reset(out[0]);
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void close_input() { in_.reset(); }
  void say(const json& message) {
    const std::string line = message.dump() + "\n";
    ASSERT_EQ(::write(in_.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  // The next message that is neither `waiting` nor `notice`; {} at the end of the output.
  json hear() {
    for (;;) {
      const json message = hear_any();
      if (!message.contains("waiting") && !message.contains("notice")) return message;
    }
  }
  json hear_any() {
    const Deadline deadline = Deadline::after(40s);
    for (;;) {
      const std::size_t end = buffer_.find('\n');
      if (end != std::string::npos) {
        const json message = json::parse(buffer_.substr(0, end));
        buffer_.erase(0, end + 1);
        return message;
      }
      pollfd entry{.fd = out_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&entry, 1, deadline.poll_timeout()) == 0) throw std::runtime_error("it is silent");
      char bytes[4096];
      const ssize_t n = ::read(out_.get(), bytes, sizeof bytes);
      if (n <= 0) return json::object();
      buffer_.append(bytes, static_cast<std::size_t>(n));
    }
  }
  std::string read_all() {
    char bytes[4096];
    for (ssize_t n = 0; (n = ::read(out_.get(), bytes, sizeof bytes)) > 0;) {
      buffer_.append(bytes, static_cast<std::size_t>(n));
    }
    return std::move(buffer_);
  }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  UniqueFd in_;
  UniqueFd out_;
  std::string buffer_;
};

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() { ::setenv("DLRUN_KEY_FD", std::to_string(key_fd_.get()).c_str(), 1); }
  ~ProgramTest() override { ::unsetenv("DLRUN_KEY_FD"); }

  std::unique_ptr<Child> serve() {
    auto child = std::make_unique<Child>(
        std::vector<std::string>{"dlrun-rendezvous", "serve", "--fd",
                                 std::to_string(listener_.fd()), "--job", "j1"},
        std::vector<int>{listener_.fd(), key_fd_.get()});
    return child;
  }
  std::unique_ptr<Child> node(const std::vector<std::string>& more = {},
                              const std::string& job = "j1") {
    std::vector<std::string> arguments{"dlrun-rendezvous", "join",  "--endpoint",
                                       endpoint(),         "--job", job};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return std::make_unique<Child>(arguments, std::vector<int>{listener_.fd(), key_fd_.get()});
  }
  std::string endpoint() const { return listener_.address().text(); }
  static json join(const std::string& id, int rank, int nnodes = 2) {
    return {{"join",
             {{"node_id", id},
              {"host", "host-" + id},
              {"slots", 2},
              {"node_rank", rank},
              {"nnodes", nnodes},
              {"master_port", 20000 + rank},
              {"pid", 4711}}}};
  }

  // A job of these two nodes has begun.
  static void begin(Child& a, Child& b) {
    a.say(join("a", 0));
    b.say(join("b", 1));
    ASSERT_TRUE(a.hear().contains("generation"));
    ASSERT_TRUE(b.hear().contains("generation"));
  }

  JobKey key_ = JobKey::generate();
  UniqueFd key_fd_ = key_.to_memfd();
  Listener listener_ = Listener::bind({.host = "127.0.0.1"});
};

TEST_F(ProgramTest, TwoNodesAgreeMeetAndEnd) {
  const auto service = serve();
  const auto a = node();
  const auto b = node();
  b->say(join("b", 1));
  a->say(join("a", 0));
  const json first = a->hear()["generation"];
  EXPECT_EQ(first["group_rank"], 0);
  EXPECT_EQ(first["world_size"], 4);
  EXPECT_EQ(first["master_addr"], "127.0.0.1");
  EXPECT_EQ(first["master_port"], 20000);
  EXPECT_EQ(first["store"], endpoint());
  EXPECT_EQ(first["members"][1]["host"], "host-b");
  const json second = b->hear()["generation"];
  EXPECT_EQ(second["group_rank"], 1);
  EXPECT_EQ(second["first_rank"], 2);

  a->say({{"barrier", {{"name", "start"}}}});
  b->say({{"barrier", {{"name", "start"}}}});
  EXPECT_EQ(a->hear()["barrier_done"]["name"], "start");
  EXPECT_EQ(b->hear()["barrier_done"]["name"], "start");

  GrpcStore store({.endpoint = Endpoint::parse(endpoint()), .key = key_, .hello = {.job = "j1"}},
                  Deadline::after(20s));
  store.set("k", "v", Deadline::after(20s));
  EXPECT_EQ(store.get("k", Deadline::after(20s)), "v");

  b->say({{"done", json::object()}});
  a->say({{"done", json::object()}});
  EXPECT_TRUE(a->hear().contains("all_done"));
  EXPECT_TRUE(b->hear().contains("all_done"));
  a->close_input();
  b->close_input();
  EXPECT_EQ(a->wait(), 0);
  EXPECT_EQ(b->wait(), 0);
  service->close_input();
  EXPECT_EQ(service->wait(), 0);
}

TEST_F(ProgramTest, FirstNodeMayServeTheRendezvousItself) {
  const auto b = node();
  b->say(join("b", 1));
  const auto a = node({"--listen-fd", std::to_string(listener_.fd())});
  a->say(join("a", 0));
  EXPECT_EQ(a->hear()["generation"]["group_rank"], 0);
  EXPECT_EQ(b->hear()["generation"]["group_rank"], 1);
  // The worst page that dlrun may send: 40 KiB that JSON has to escape.
  const std::string page(std::size_t{40} * 1024, '\x01');
  b->say({{"failed",
           {{"rank", 3}, {"exit_code", 7}, {"text", "rank 3 exited with 7"}, {"detail", page}}}});
  for (Child* child : {a.get(), b.get()}) {
    const json cause = child->hear()["failed"];
    EXPECT_EQ(cause["rank"], 3);
    EXPECT_EQ(cause["exit_code"], 7);
    EXPECT_EQ(cause["detail"], page);
    EXPECT_EQ(cause["host"], "host-b");
    EXPECT_EQ(cause["group_rank"], 1);
    EXPECT_EQ(cause["node_lost"], false);
  }
  b->close_input();
  a->close_input();
  EXPECT_EQ(b->wait(), 0);
  EXPECT_EQ(a->wait(), 0);
}

TEST_F(ProgramTest, KilledNodeIsNoticedAtOnceAndNamed) {
  const auto service = serve();
  const auto a = node();
  const auto b = node();
  ASSERT_NO_FATAL_FAILURE(begin(*a, *b));
  ::kill(b->pid(), SIGKILL);
  const json cause = a->hear()["failed"];
  EXPECT_EQ(cause["node_lost"], true);
  EXPECT_EQ(
      cause["text"],
      "lost the connection to node rank 1 (host host-b, pid 4711): it was closed or reset; its "
      "dlrun-rendezvous has ended, or something between them ends connections");
}

TEST_F(ProgramTest, DlrunThatEndsTakesItsNodeOut) {
  const auto service = serve();
  const auto a = node();
  const auto b = node();
  ASSERT_NO_FATAL_FAILURE(begin(*a, *b));
  b->close_input();
  const json cause = a->hear()["failed"];
  EXPECT_EQ(cause["node_lost"], true);
  EXPECT_EQ(cause["text"], "node rank 1 (host host-b, pid 4711) was lost: its dlrun has ended");
  b->wait();
}

TEST_F(ProgramTest, KilledServiceIsAnErrorForEveryNode) {
  const auto service = serve();
  const auto a = node();
  const auto b = node();
  ASSERT_NO_FATAL_FAILURE(begin(*a, *b));
  ::kill(service->pid(), SIGKILL);
  for (Child* child : {a.get(), b.get()}) {
    const json error = child->hear()["error"];
    EXPECT_EQ(error["kind"], "connection");
    EXPECT_THAT(error["text"].get<std::string>(),
                HasSubstr("and the rendezvous at " + endpoint() +
                          " lost each other: their connection was closed or reset; "));
    EXPECT_EQ(child->wait(), 1);
  }
}

// No process has ended, and no text of gRPC tells what has happened.
TEST_F(ProgramTest, AConnectionThatIsCutIsSaidOnBothSides) {
  tests::CuttingProxy proxy(Endpoint::parse(endpoint()));
  const auto service = serve();
  const auto a = node();
  Child b({"dlrun-rendezvous", "join", "--endpoint", proxy.endpoint().text(), "--job", "j1"},
          {key_fd_.get()});
  ASSERT_NO_FATAL_FAILURE(begin(*a, b));
  proxy.cut();
  const json error = b.hear()["error"];
  EXPECT_EQ(error["kind"], "connection");
  EXPECT_EQ(error["text"], "host host-b and the rendezvous at " + proxy.endpoint().text() +
                               " lost each other: their connection was closed or reset; does the "
                               "rendezvous run, and does something between them end connections?");
  EXPECT_THAT(a->hear()["failed"]["text"].get<std::string>(),
              HasSubstr("lost the connection to node rank 1 (host host-b, pid 4711): it was closed "
                        "or reset"));
}

// The service stops with its host's node; the other node says that the service is silent.
TEST_F(ProgramTest, AResumedHostDoesNotBlameTheOthers) {
  const auto a = node({"--listen-fd", std::to_string(listener_.fd()), "--dead-after", "3"});
  const auto b = node({"--dead-after", "3"});
  ASSERT_NO_FATAL_FAILURE(begin(*a, *b));
  ::kill(a->pid(), SIGSTOP);
  EXPECT_EQ(
      b->hear()["error"]["text"],
      "host host-b and the rendezvous at " + endpoint() +
          " lost each other: silent for 3 s; is the network between them up, and does it run?");
  EXPECT_EQ(b->wait(), 1);
  ::kill(a->pid(), SIGCONT);
  const json cause = a->hear()["failed"];
  EXPECT_THAT(cause["text"].get<std::string>(),
              AllOf(HasSubstr("the rendezvous stood still for "),
                    EndsWith(" s, and node rank 1 (host host-b, pid 4711) gave it up")));
}

TEST_F(ProgramTest, ANodeThatWasStoppedKnowsItWhenItGoesOn) {
  const auto a = node({"--listen-fd", std::to_string(listener_.fd()), "--dead-after", "3"});
  const auto b = node({"--dead-after", "3"});
  ASSERT_NO_FATAL_FAILURE(begin(*a, *b));
  ::kill(b->pid(), SIGSTOP);
  EXPECT_EQ(
      a->hear()["failed"]["text"],
      "hosts host-a (node 0) and host-b (node 1) lost each other: no heartbeat for 3 s; is the "
      "network between them up, and do both run?");
  ::kill(b->pid(), SIGCONT);
  EXPECT_THAT(b->hear()["error"]["text"].get<std::string>(),
              HasSubstr("this node stood still for "));
}

TEST_F(ProgramTest, ADlrunThatSaysNothingIsNamedAndThenGivenUp) {
  const auto a = node({"--listen-fd", std::to_string(listener_.fd()), "--dead-after", "4"});
  const auto b = node({"--dead-after", "4", "--agent-timeout", "5"});
  a->say(join("a", 0));
  b->say(join("b", 1));
  ASSERT_TRUE(a->hear().contains("generation"));
  const json notice = a->hear_any();
  EXPECT_THAT(notice["notice"]["text"].get<std::string>(),
              HasSubstr("node rank 1 (host host-b, pid 4711): its dlrun has not run its event loop "
                        "for "));
  const json cause = a->hear()["failed"];
  EXPECT_THAT(cause["text"].get<std::string>(),
              HasSubstr("was lost: its dlrun has not run its event loop for "));
  EXPECT_EQ(cause["exit_code"], 124);
  ASSERT_TRUE(b->hear().contains("generation"));
  EXPECT_EQ(b->hear()["error"]["kind"], "timeout");
  EXPECT_EQ(b->wait(), 1);
}

// dlrun notices a dlrun-rendezvous that stands still.
TEST_F(ProgramTest, AnswersEachReportOfDlrun) {
  const auto a = node({"--listen-fd", std::to_string(listener_.fd())});
  const auto b = node();
  ASSERT_NO_FATAL_FAILURE(begin(*a, *b));
  for (const char* const state : {"TURNS", "SUSPENDED"}) {
    b->say({{"agent", {{"state", state}}}});
    EXPECT_TRUE(b->hear().contains("heartbeat"));
  }
}

TEST_F(ProgramTest, StoreClientsOfAKilledServiceFail) {
  const auto service = serve();
  GrpcStore store({.endpoint = Endpoint::parse(endpoint()),
                   .key = key_,
                   .hello = {.job = "j1"},
                   .reconnect_for = 300ms},
                  Deadline::after(20s));
  store.set("k", "v", Deadline::after(20s));
  listener_.release();
  ::kill(service->pid(), SIGKILL);
  try {
    store.get("never", Deadline::after(120s));
    FAIL() << "it returned";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConnection) << error.what();
    EXPECT_THAT(error.what(),
                HasSubstr("get 'never': the connection to " + endpoint() + " was lost"));
  }
}

TEST_F(ProgramTest, RefusalsAreSaidAndEndTheNode) {
  const auto service = serve();
  const auto a = node();
  a->say(join("a", 5));
  EXPECT_EQ(a->hear()["refused"]["reason"], "there is no node rank 5 in a job of 2 nodes (0 to 1)");
  EXPECT_EQ(a->wait(), 1);

  const auto foreigner = node({}, "j2");
  foreigner->say(join("c", 1));
  const json error = foreigner->hear()["error"];
  EXPECT_EQ(error["kind"], "mismatch");
  EXPECT_THAT(error["text"].get<std::string>(), HasSubstr("it belongs to job 'j1'"));
  EXPECT_EQ(foreigner->wait(), 1);
}

TEST_F(ProgramTest, WrongKeyIsSaid) {
  const auto service = serve();
  const UniqueFd other = JobKey::generate().to_memfd();
  ::setenv("DLRUN_KEY_FD", std::to_string(other.get()).c_str(), 1);
  Child stranger({"dlrun-rendezvous", "join", "--endpoint", endpoint(), "--job", "j1"},
                 {other.get()});
  stranger.say(join("a", 0));
  const json error = stranger.hear()["error"];
  EXPECT_EQ(error["kind"], "authentication");
  EXPECT_THAT(error["text"].get<std::string>(), HasSubstr("wrong job key"));
  EXPECT_EQ(stranger.wait(), 1);
}

TEST_F(ProgramTest, GarbageAndHalfOpenConnectionsDoNoHarm) {
  ::setenv("DLRUN_LOG", "off", 1);
  const auto service = serve();
  ::unsetenv("DLRUN_LOG");
  std::mt19937 random(5);
  std::vector<UniqueFd> open;
  for (int i = 0; i < 40; ++i) {
    open.push_back(connect_to(Endpoint::parse(endpoint()), Deadline::after(20s)));
    std::string bytes(random() % 300, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    if (i % 2 == 0) ::send(open.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  const auto a = node();
  const auto b = node();
  a->say(join("a", 0));
  b->say(join("b", 1));
  EXPECT_TRUE(a->hear().contains("generation"));
  EXPECT_TRUE(b->hear().contains("generation"));
}

TEST_F(ProgramTest, NodeThatStaysAwayIsNamedAtTheDeadline) {
  const auto service = serve();
  {
    // The node's second is not for the service to come up.
    const GrpcStore store(
        {.endpoint = Endpoint::parse(endpoint()), .key = key_, .hello = {.job = "j1"}},
        Deadline::after(20s));
  }
  const auto a = node({"--timeout", "1"});
  a->say(join("a", 0));
  const json error = a->hear()["error"];
  EXPECT_EQ(error["kind"], "timeout");
  // The second text if the service did not run for all of the node's second.
  EXPECT_THAT(error["text"].get<std::string>(),
              AnyOf("the other nodes did not join within 1 s: waiting for node rank 1",
                    AllOf(HasSubstr("connect to " + endpoint() + " for the rendezvous"),
                          EndsWith("did not answer by the deadline"))));
  EXPECT_EQ(a->wait(), 1);
}

TEST_F(ProgramTest, GarbageFromDlrunIsAnErrorAndNotACrash) {
  const auto service = serve();
  for (const json& line :
       {json("text"), json::array(), json{{"unknown", 1}}, json{{"join", {{"slots", "x"}}}},
        json{{"barrier", {{"name", "early"}}}}}) {
    const auto child = node();
    child->say(line);
    EXPECT_EQ(child->hear()["error"]["kind"], "parse") << line;
    EXPECT_EQ(child->wait(), 1);
  }
}

TEST_F(ProgramTest, NextGenerationFollowsAFailure) {
  const auto service = serve();
  const auto a = node();
  const auto b = node();
  a->say(join("a", -1));
  b->say(join("b", -1));
  EXPECT_EQ(a->hear()["generation"]["number"], 0);
  b->hear();
  a->say({{"failed", {{"rank", 0}, {"signal", 9}}}});
  EXPECT_EQ(a->hear()["failed"]["signal"], 9);
  b->hear();
  a->say(join("a", -1));
  b->say(join("b", -1));
  EXPECT_EQ(a->hear()["generation"]["number"], 1);
  EXPECT_EQ(b->hear()["generation"]["number"], 1);
}

TEST_F(ProgramTest, ReferenceHoldsItsHelp) {
  std::ifstream file(std::string(std::getenv("DLRUN_TEST_SOURCE")) +
                     "/docs/reference/dlrun-rendezvous.md");
  std::stringstream reference;
  reference << file.rdbuf();
  for (const char* subcommand : {"", "serve", "join"}) {
    Child child({"dlrun-rendezvous", subcommand, "--help"}, {});
    const std::string help = child.read_all();
    EXPECT_EQ(child.wait(), 0);
    std::size_t begin = 0;
    for (std::size_t end = help.find('\n'); end != std::string::npos;
         end = help.find('\n', begin)) {
      EXPECT_THAT(reference.str(), HasSubstr(help.substr(begin, end - begin) + "\n"));
      begin = end + 1;
    }
    EXPECT_GT(begin, 100U);
  }
}

TEST_F(ProgramTest, HelpThatFindsNoRoomIsAnError) {
  for (const char* to : {">/dev/full", ">&-"}) {
    tests::Process help({"sh", "-c", tests::program("dlrun-rendezvous") + " --help " + to});
    EXPECT_EQ(help.wait(), 1);
    EXPECT_THAT(help.err(), HasSubstr("dlrun-rendezvous: write to standard output: "));
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map terabytes
// Whatever there is room for: it serves, or it ends with a sentence, and keeps no client waiting.
TEST_F(ProgramTest, UnderALimitOfMemoryItServesOrEndsWithTheLimit) {
  ::fcntl(key_fd_.get(), F_SETFD, 0);
  for (const int megabytes : {30, 60, 100, 200, 300, 400, 500, 700}) {
    SCOPED_TRACE(std::to_string(megabytes) + " MB");
    int stdin_pipe[2];
    ASSERT_EQ(::pipe2(stdin_pipe, O_CLOEXEC), 0);
    const UniqueFd read_end(stdin_pipe[0]);
    const UniqueFd lifeline(stdin_pipe[1]);
    Listener listener = Listener::bind({.host = "127.0.0.1"});
    const Endpoint endpoint = Endpoint::parse(listener.address().text());
    ::fcntl(listener.fd(), F_SETFD, 0);
    tests::Process service({"sh", "-c",
                            "ulimit -v $((" + std::to_string(megabytes) + " * 1000)); exec " +
                                tests::program("dlrun-rendezvous") + " serve --job j1 --fd " +
                                std::to_string(listener.fd())},
                           {.stdin_fd = read_end.get()});
    {
      const Listener only_the_service_listens = std::move(listener);
    }
    bool is_served = false;
    const auto has_ended = [&] {
      const char state = tests::state_of(service.pid());
      return state == 'Z' || state == '\0';
    };
    EXPECT_TRUE(tests::eventually([&] {
      try {
        GrpcStore store({.endpoint = endpoint, .key = key_, .hello = {.job = "j1", .from = "test"}},
                        Deadline::after(2s));
        store.set("x", "y", Deadline::after(2s));
        is_served = store.get("x", Deadline::after(2s)) == "y";
      } catch (const Error&) {
        // Tried again until it has ended.
      }
      return is_served || has_ended();
    }));
    if (is_served) continue;
    service.wait();
    EXPECT_THAT(service.err(), AnyOf(HasSubstr("(ulimit -v)"), HasSubstr("shared libraries")));
  }
}
#endif

TEST_F(ProgramTest, SecondsOutOfRangeAreNamedWithTheRange) {
  for (const char* value : {"0", "-1", "1.5", "9999999999", "x"}) {
    tests::Process bad({tests::program("dlrun-rendezvous"), "join", "--endpoint", "a:1", "--job",
                        "j", "--timeout", value});
    EXPECT_EQ(bad.wait(), 2);
    EXPECT_THAT(bad.err(), HasSubstr(std::string("--timeout: '") + value +
                                     "' is no whole number from 1 to 1000000000\n"));
  }
}

TEST_F(ProgramTest, ANode0WhoseHostHasNotTheEndpointsAddressSaysSo) {
  tests::Process job({"env", "-u", "DLRUN_KEY_FD", tests::program("dlrun"), "--nnodes", "2",
                      "--node-rank", "0", "--rdzv-endpoint", "[fe80::2%lo]:29400", "--join-timeout",
                      "1", "true"});
  EXPECT_EQ(job.wait(), 124);
  EXPECT_THAT(job.err(), HasSubstr("connect to [fe80::2%lo]:29400 for the rendezvous: "));
  EXPECT_THAT(job.err(), HasSubstr("(this is node 0, which serves the rendezvous, and its host has "
                                   "no address fe80::2%lo)\n"));
}

TEST_F(ProgramTest, BadUsageIsExitCode2) {
  Child child({"dlrun-rendezvous", "join", "--endpoint", "a:1"}, {});
  EXPECT_EQ(child.wait(), 2);
}

}  // namespace
}  // namespace dl::rendezvous
