// RemoteNodes with agents that the test plays.
#include "launcher/remote/nodes/remote_nodes.h"

#include <fcntl.h>
#include <gmock/gmock.h>

#include <boost/asio/io_context.hpp>
#include <thread>

#include "core/base/version.h"
#include "launcher/frontend/job_state.h"
#include "launcher/process/start/rank_files.h"
#include "launcher/process/supervisor_channel.h"
#include "tests/support/process.h"

namespace dl::launcher::remote {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// The agent's end of a line, and what came on it.
class PlayedAgent {
 public:
  PlayedAgent() {
    Pipe to_agent = make_pipe();
    Pipe to_front = make_pipe();
    in_ = std::move(to_agent.read);
    out_ = std::move(to_front.write);
    fronts_in_ = std::move(to_front.read);
    fronts_out_ = std::move(to_agent.write);
    ::fcntl(in_.get(), F_SETFL, O_NONBLOCK);
  }
  void answer() {
    write(kMagic);
    say(Hello{.protocol = kProtocolVersion, .version = std::string(kVersion)});
  }
  void say(const Value& value) {
    const std::vector<std::uint8_t> frame = encode(value);
    write({reinterpret_cast<const char*>(frame.data()), frame.size()});
  }
  // Takes what has come; at its end, this agent ends.
  void listen() {
    std::array<std::uint8_t, 4096> part;
    for (ssize_t n; in_ && (n = ::read(in_.get(), part.data(), part.size())) >= 0;) {
      decoder_.feed(std::span(part).first(static_cast<std::size_t>(n)));
      while (const auto value = decoder_.next()) {
        beats_ += std::holds_alternative<Alive>(*value);
        if (const auto* stop = std::get_if<Stop>(&*value)) stops_.push_back(stop->text);
      }
      if (n == 0) end();
    }
  }
  void die() { end(); }
  int beats() const { return beats_; }
  const std::vector<std::string>& stops() const { return stops_; }
  bool has_ended() const { return !in_; }

 private:
  friend class PlayedLine;
  void write(std::string_view bytes) {
    ASSERT_EQ(::write(out_.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  void end() {
    in_.reset();
    out_.reset();
  }

  UniqueFd in_, out_, fronts_in_, fronts_out_;
  Decoder decoder_{/*after_magic=*/false};
  int beats_ = 0;
  std::vector<std::string> stops_;
};

class PlayedLine : public AgentLine {
 public:
  explicit PlayedLine(PlayedAgent& agent) : agent_(agent) {}
  void connect(Events events) override {
    events.on_open(std::move(agent_.fronts_in_), std::move(agent_.fronts_out_));
  }
  void on_closed() override {}
  void kill() override { agent_.end(); }
  bool has_ended() const override { return agent_.has_ended(); }
  std::string why_not_started(std::string_view noise) const override {
    return "not started: " + std::string(noise);
  }
  std::string how_it_was_lost() const override { return "lost"; }

 private:
  PlayedAgent& agent_;
};

// The frontend's other parts.
class PlayedFront : public AgentEvents, public FrameTaker {
 public:
  void on_sentence(const std::string& line) override { said.push_back(line); }
  void on_attempt(int attempt, const std::vector<int>& ranks) override {
    state.attempt_began(attempt, ranks, {});
  }
  void on_rank(const RankNews&) override {}
  rendezvous::Restart on_verdict(const Verdict&) override { return {}; }
  void on_begins_again(const Verdict& verdict, const rendezvous::Restart&) override {
    state.attempt_ended(verdict, {});
  }
  void on_over() override { is_over = true; }
  bool has_room(Stream) const override { return true; }
  void when_room(Stream, std::function<void()>) override {}
  void take(const Frame&) override {}

  std::vector<std::string> said;
  JobState state;
  bool is_over = false;
};

class RemoteNodesTest : public testing::Test {
 protected:
  // Both agents answer, and then begin an attempt.
  void begin(std::chrono::milliseconds most_silence = 50ms) {
    RemoteJob job;
    job.plan.hosts = {{"a", 1}, {"b", 1}};
    job.starts.resize(2);
    job.starts[0].host = "a";
    job.starts[1].host = "b";
    job.join_timeout = 60s;
    job.beat = 20ms;
    job.most_silence = most_silence;
    job.lines = [this](boost::asio::io_context&, WardenClient&) {
      std::vector<std::unique_ptr<AgentLine>> lines;
      for (PlayedAgent& agent : agents_) lines.push_back(std::make_unique<PlayedLine>(agent));
      return lines;
    };
    auto [ours, wardens] = make_channel();
    warden_ = std::move(wardens);
    nodes_ = std::make_unique<RemoteNodes>(
        AgentStart{io_, disk_, frontend_, frontend_, {}, ""}, std::move(job),
        WardenHandle{.pid = -1, .channel = std::move(ours), .first_supervisor = {}});
    nodes_->begin();
    for (PlayedAgent& agent : agents_) agent.answer();
    for (int i = 0; i < 2; ++i) agents_[static_cast<std::size_t>(i)].say(Attempt{0, {i}});
    ASSERT_TRUE(goes_on_until([&] { return frontend_.state.ranks().size() == 2; }));
  }
  // Goes on until `condition` holds.
  template <typename Condition>
  bool goes_on_until(Condition condition) {
    return tests::eventually([&] {
      io_.run_for(1ms);
      io_.restart();
      for (PlayedAgent& agent : agents_) agent.listen();
      return condition();
    });
  }

  boost::asio::io_context io_{1};
  DiskThread disk_{io_};
  PlayedFront frontend_;
  std::array<PlayedAgent, 2> agents_;
  UniqueFd warden_;
  std::unique_ptr<RemoteNodes> nodes_;
};

TEST_F(RemoteNodesTest, AnAgentThatSaysNothingOnceTheJobEndsIsLost) {
  begin();
  // While the job runs, the nodes notice each other's silence.
  EXPECT_TRUE(goes_on_until([&] { return agents_[1].beats() > 5; }));
  EXPECT_THAT(frontend_.said, ElementsAre());
  const Verdict verdict{.exit_code = 7, .page = {"rank 0 failed"}};
  agents_[0].say(Decided{verdict});
  agents_[0].say(Over{verdict, {}});
  EXPECT_TRUE(goes_on_until([&] { return frontend_.is_over; }));
  const Verdict shown = nodes_->finish();
  EXPECT_EQ(shown.exit_code, 7);
  EXPECT_THAT(shown.page, ElementsAre("rank 0 failed",
                                      "host b was lost: its dlrun has said nothing for 0.05 s"));
}

// The rendezvous may not reach a node.
TEST_F(RemoteNodesTest, ANodeThatHearsOfNoFailureIsToldToEnd) {
  begin(1h);
  const Verdict verdict{.exit_code = 7, .page = {"rank 0 failed"}};
  agents_[0].say(Decided{verdict});
  agents_[0].say(Over{verdict, {}});
  const std::string cause = "rank 0 failed; waiting for the end of host b";
  EXPECT_TRUE(goes_on_until([&] { return std::ranges::count(frontend_.said, cause) == 1; }));
  EXPECT_THAT(agents_[0].stops(), ElementsAre());
  EXPECT_THAT(agents_[1].stops(), ElementsAre("rank 0 failed"));
  agents_[1].say(Over{verdict, {}});
  EXPECT_TRUE(goes_on_until([&] { return frontend_.is_over; }));
  EXPECT_THAT(nodes_->finish().page, ElementsAre("rank 0 failed"));
}

TEST_F(RemoteNodesTest, ASilentAgentIsNamedAndASecondSignalGivesItUp) {
  begin(1h);
  nodes_->stop({143, "stopped by SIGTERM"}, SIGTERM);
  agents_[0].say(Over{{.exit_code = 143, .page = {}}, {}});
  EXPECT_TRUE(goes_on_until([&] { return !frontend_.said.empty(); }));
  EXPECT_THAT(
      frontend_.said,
      ElementsAre(AllOf(HasSubstr("waiting for host b, whose dlrun has said nothing for 0 s"),
                        HasSubstr(", and after 0.1 s if you stop dlrun again"))));
  EXPECT_FALSE(frontend_.is_over);
  nodes_->kill_now();
  EXPECT_TRUE(goes_on_until([&] { return frontend_.is_over; }));
  const Verdict shown = nodes_->finish();
  EXPECT_EQ(shown.exit_code, 143);
  EXPECT_THAT(shown.page, ElementsAre("stopped by SIGTERM",
                                      "host b was lost: its dlrun has said nothing for 0.1 s"));
}

TEST_F(RemoteNodesTest, AFrontendThatStoodStillSaysSo) {
  begin();
  std::this_thread::sleep_for(200ms);  // ten beats in which this process is stopped
  agents_[1].die();
  EXPECT_TRUE(goes_on_until([&] { return agents_[0].stops().size() == 1; }));
  EXPECT_THAT(
      agents_[0].stops().front(),
      AllOf(HasSubstr("this dlrun stood still for about 0 s (stopped, or its machine was paused"),
            HasSubstr("its hosts gave it up: lost")));
}

TEST_F(RemoteNodesTest, LogsEachAttemptsEndWithItsNumber) {
  const Verdict verdict{.exit_code = 7, .page = {"rank 0 failed"}, .attempt = 0};
  begin();
  agents_[1].say(BeginsAgain{verdict, 1, 3, 0});
  agents_[1].say(Attempt{1, {1}});
  EXPECT_TRUE(goes_on_until([&] { return frontend_.state.attempt() == 1; }));
  agents_[0].say(BeginsAgain{verdict, 1, 3, 0});
  agents_[0].say(Attempt{1, {0}});
  EXPECT_TRUE(goes_on_until([&] { return frontend_.state.ranks().size() == 2; }));
  EXPECT_THAT(frontend_.state.page({}),
              ElementsAre("attempt 0 ended 0.0 s ago: rank 0 failed",
                          "attempt 1, which began 0.0 s ago: ranks 0-1 are being started"));
}

}  // namespace
}  // namespace dl::launcher::remote
