#include "rendezvous/net/connect/acceptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/connect/race.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/socket/local_socket.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Connections that were handed over, for a test to wait for.
class Inbox {
 public:
  Acceptor::Handler handler() {
    return [this](Connection connection) {
      const std::lock_guard lock(mutex_);
      connections_.push_back(std::move(connection));
      arrived_.notify_all();
    };
  }
  Connection next() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, 20s, [&] { return !connections_.empty(); })) {
      throw std::runtime_error("no connection was handed over");
    }
    Connection connection = std::move(connections_.front());
    connections_.erase(connections_.begin());
    return connection;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Connection> connections_;
};

class AcceptorTest : public ::testing::Test {
 protected:
  AcceptorTest()
      : key_(JobKey::generate()),
        acceptor_(Listener::bind({.host = "127.0.0.1"}), key_,
                  {.job = "j1", .generation = 2, .purpose = "", .from = "server", .rank = 0}),
        endpoint_{"127.0.0.1", acceptor_.address().port()} {
    log::set_level(log::Level::kOff);
  }
  ~AcceptorTest() override { log::set_level(log::Level::kWarning); }

  Hello hello(const std::string& purpose, std::uint64_t generation = 2) const {
    return {.job = "j1", .generation = generation, .purpose = purpose, .from = "rank 1", .rank = 1};
  }
  Connection connect(const Hello& hello) const {
    return connect_and_prove(endpoint_, hello, key_, Deadline::after(20s));
  }
  std::string refusal(const Hello& hello, const JobKey& key, ErrorKind kind) const {
    try {
      connect_and_prove(endpoint_, hello, key, Deadline::after(20s));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    return "not refused";
  }
  // Waits until the other side has closed the connection; false after 20 s.
  static bool wait_closed(int fd) {
    const Deadline deadline = Deadline::after(20s);
    char buffer[256];
    while (!deadline.has_passed()) {
      pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, deadline.poll_timeout());
      const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return true;
    }
    return false;
  }

  JobKey key_;
  Inbox inbox_;  // outlives the thread that puts into it
  Acceptor acceptor_;
  Endpoint endpoint_;
};

TEST_F(AcceptorTest, HandsConnectionsToTheHandlerOfTheirPurpose) {
  Inbox store;
  Inbox groups;
  Inbox world;
  acceptor_.serve("store", kAnyGeneration, store.handler());
  acceptor_.serve("group", 2, groups.handler());
  acceptor_.serve("group/world", 2, world.handler());
  acceptor_.start();

  const Connection a = connect(hello("store", kAnyGeneration));
  const Connection b = connect(hello("group/small"));
  const Connection c = connect(hello("group/world"));
  EXPECT_EQ(a.peer.from, "server");
  EXPECT_EQ(a.address, endpoint_.text());
  EXPECT_EQ(store.next().peer.from, "rank 1");
  EXPECT_EQ(groups.next().peer.purpose, "group/small");
  EXPECT_EQ(world.next().peer.purpose, "group/world");
}

TEST_F(AcceptorTest, BytesBehindTheHandshakeReachTheHandler) {
  Inbox store;
  acceptor_.serve("store", kAnyGeneration, store.handler());
  acceptor_.start();
  const Connection client = connect(hello("store"));
  const Connection server = store.next();
  ASSERT_EQ(::send(client.fd.get(), "ping", 4, 0), 4);
  pollfd entry{.fd = server.fd.get(), .events = POLLIN, .revents = 0};
  ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
  char buffer[8];
  EXPECT_EQ(::recv(server.fd.get(), buffer, sizeof buffer, 0), 4);
}

// The better addresses have no listener, a program that accepts connections and is silent, another
// job, and another rank of this job.
TEST_F(AcceptorTest, IsFoundBehindTheOneOfItsAddressesThatLeadsToIt) {
  std::uint16_t free_port = 0;
  {
    free_port = Listener::bind({.host = "127.0.0.1"}).port();
  }
  const Listener silent = Listener::bind({.host = "127.0.0.1"});
  Inbox strangers;
  Acceptor stranger(Listener::bind({.host = "127.0.0.1"}), JobKey::generate(), hello("x"));
  stranger.serve("group/world", 2, strangers.handler());
  stranger.start();
  Acceptor other(Listener::bind({.host = "127.0.0.1"}), key_, hello("x"));
  other.serve("group/world", 2, strangers.handler());
  other.start();
  acceptor_.serve("group/world", 2, inbox_.handler());
  acceptor_.start();
  const auto at = [](std::uint16_t port) { return Endpoint{"127.0.0.1", port}; };
  const std::vector<Endpoint> ways = {at(free_port), at(silent.port()),
                                      at(stranger.address().port()), at(other.address().port()),
                                      endpoint_};
  EXPECT_EQ(find_way(ways, 0, "rank 0", hello("group/world/way"), key_, Deadline::after(20s)),
            endpoint_);
  EXPECT_EQ(inbox_.next().peer.purpose, "group/world/way");
}

TEST_F(AcceptorTest, NoWorkingAddressIsAnErrorThatListsEach) {
  acceptor_.serve("group/world", 2, inbox_.handler());
  acceptor_.start();
  const Listener silent = Listener::bind({.host = "127.0.0.1"});
  const std::vector<Endpoint> ways = {endpoint_, {"127.0.0.1", silent.port()}};
  const auto reach = [&](std::span<const Endpoint> some, std::chrono::nanoseconds time) {
    return error_of([&] {
      find_way(some, 3, "rank 3", hello("group/world/way"), key_, Deadline::after(time));
    });
  };
  EXPECT_EQ(reach(std::span(ways).first(1), 20s), "connect to rank 3 for 'group/world/way': " +
                                                      endpoint_.text() + " (server answers there)");
  EXPECT_THAT(reach(ways, 600ms), AllOf(HasSubstr("gave up at the deadline: " + endpoint_.text()),
                                        HasSubstr(ways[1].text() + " (it does not answer)")));
}

TEST_F(AcceptorTest, RefusesWithASentence) {
  acceptor_.serve("group/world", 2, inbox_.handler());
  acceptor_.start();
  EXPECT_THAT(refusal(hello("group/world", 1), key_, ErrorKind::kMismatch),
              HasSubstr("connect to " + endpoint_.text() +
                        " for 'group/world': it is at generation 2, this process at generation 1"));
  EXPECT_THAT(refusal(hello("group/worldly"), key_, ErrorKind::kMismatch),
              HasSubstr("it does not serve 'group/worldly'"));
  EXPECT_THAT(refusal(hello("group/world"), JobKey::generate(), ErrorKind::kAuthentication),
              HasSubstr("wrong job key"));
  Hello other = hello("group/world");
  other.job = "j2";
  EXPECT_THAT(refusal(other, key_, ErrorKind::kMismatch), HasSubstr("belongs to job 'j1'"));
  EXPECT_EQ(inbox_.size(), 0U);
}

TEST_F(AcceptorTest, GarbageAndHalfOpenConnectionsDoNoHarm) {
  Inbox store;
  acceptor_.serve("store", kAnyGeneration, store.handler());
  acceptor_.start();
  std::mt19937 random(11);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 1000; ++i) {
    const UniqueFd fd = connect_to(endpoint_, Deadline::after(20s));
    std::vector<std::uint8_t> bytes(random() % 400);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::uint8_t>(random()); });
    ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (i % 50 == 0) {
      silent.push_back(connect_to(endpoint_, Deadline::after(20s)));
      const Connection fine = connect(hello("store"));
      EXPECT_EQ(store.next().peer.rank, 1);
    }
  }
  const Connection fine = connect(hello("store"));
  store.next();
  EXPECT_EQ(store.size(), 0U);
}

TEST_F(AcceptorTest, KeepsAtMost64PendingAndDropsTheOldest) {
  Inbox store;
  acceptor_.serve("store", kAnyGeneration, store.handler());
  acceptor_.start();
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < kMostPendingHandshakes + 1; ++i) {
    silent.push_back(connect_to(endpoint_, Deadline::after(20s)));
  }
  EXPECT_TRUE(wait_closed(silent.front().get()));
  const Connection fine = connect(hello("store"));
  store.next();
}

TEST_F(AcceptorTest, KeepsOneMoreForEachExpectedPeer) {
  constexpr std::size_t kPeers = 40;
  Inbox store;
  Acceptor acceptor(Listener::bind({.host = "127.0.0.1"}), key_, {.job = "j1", .from = "server"},
                    kPeers);
  acceptor.serve("store", kAnyGeneration, store.handler());
  acceptor.start();
  const Endpoint endpoint{"127.0.0.1", acceptor.address().port()};
  std::vector<UniqueFd> silent;
  for (std::size_t i = 0; i < kMostPendingHandshakes + kPeers; ++i) {
    silent.push_back(connect_to(endpoint, Deadline::after(20s)));
  }
  // By the time this one has its answer all before it have been accepted.
  connect_and_prove(endpoint, hello("store"), key_, Deadline::after(20s));
  store.next();
  const auto is_closed = [](const UniqueFd& fd) {
    char buffer[256];
    ssize_t n = 1;
    while (n > 0) n = ::recv(fd.get(), buffer, sizeof buffer, 0);
    return n == 0 || errno != EAGAIN;
  };
  EXPECT_EQ(std::ranges::count_if(silent, is_closed), 1);
}

TEST(LocalAcceptor, AClientThatIsRefusedForWantOfRoomTriesAgain) {
  const JobKey key = JobKey::generate();
  const Hello self{.job = "j1", .from = "rank 0", .rank = 0};
  Listener listener = listen_local();
  const std::string name = local_name(listener.fd());
  std::string answered;
  std::thread client([&] {
    answered = error_of([&] {
      connect_local_and_prove(name, {.job = "j1", .purpose = "shm", .from = "rank 1", .rank = 1},
                              key, Deadline::after(20s));
    });
  });
  {
    pollfd entry{.fd = listener.fd(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, -1);
    const auto first = listener.accept();
    HandshakeServer handshake(key, self, [](const Hello&) { return Verdict{}; });
    handshake.refuse(Refusal::kBusy);
    const auto words = handshake.output();
    ::send(first->fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  Inbox inbox;
  Acceptor acceptor(std::move(listener), key, self);
  acceptor.serve("shm", kAnyGeneration, inbox.handler());
  acceptor.start();
  client.join();
  EXPECT_EQ(answered, "no error");
}

TEST_F(AcceptorTest, HalfOpenConnectionIsDroppedAfterFiveSeconds) {
  acceptor_.start();
  const auto start = std::chrono::steady_clock::now();
  const UniqueFd silent = connect_to(endpoint_, Deadline::after(20s));
  EXPECT_TRUE(wait_closed(silent.get()));
  EXPECT_GE(std::chrono::steady_clock::now() - start, kHandshakeTime - 100ms);
}

TEST_F(AcceptorTest, HangupEndsAConnectionThatIsBeingMade) {
  // Without an accept() the system completes the connection, and the handshake gets no answer.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  std::thread closer([&] { writing.reset(); });
  try {
    connect_and_prove(endpoint_, hello("store"), key_, Deadline::after(20s),
                      {.hangup_fd = reading.get()});
    ADD_FAILURE() << "connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kAborted) << error.what();
  }
  closer.join();
}

TEST_F(AcceptorTest, ForgottenPurposeIsRefusedAndServedAgainLater) {
  Inbox store;
  acceptor_.serve("store", kAnyGeneration, store.handler());
  EXPECT_THROW(acceptor_.serve("store", kAnyGeneration, store.handler()), Error);
  acceptor_.start();
  acceptor_.forget("store");
  EXPECT_THAT(refusal(hello("store"), key_, ErrorKind::kMismatch), HasSubstr("does not serve"));
  acceptor_.serve("store", kAnyGeneration, store.handler());
  connect(hello("store"));
  store.next();
}

TEST_F(AcceptorTest, ThrowingHandlerClosesItsConnectionOnly) {
  Inbox store;
  acceptor_.serve("bad", kAnyGeneration,
                  [](Connection) { throw_error(ErrorKind::kInternal, "on purpose"); });
  acceptor_.serve("store", kAnyGeneration, store.handler());
  acceptor_.start();
  const Connection bad = connect(hello("bad"));
  EXPECT_TRUE(wait_closed(bad.fd.get()));
  connect(hello("store"));
  store.next();
}

TEST_F(AcceptorTest, RunsInsideAnotherEventLoop) {
  bool handed_over = false;
  acceptor_.serve("store", kAnyGeneration, [&](Connection) { handed_over = true; });
  std::thread client([&] { connect(hello("store")); });
  const Deadline deadline = Deadline::after(20s);
  while (!handed_over && !deadline.has_passed()) {
    pollfd entry{.fd = acceptor_.poll_fd(), .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, deadline.poll_timeout());
    acceptor_.process();
  }
  client.join();
  EXPECT_TRUE(handed_over);
}

TEST_F(AcceptorTest, GivesUpItsAddressForAllCopiesOfTheListener) {
  UniqueFd descriptor(::dup(Listener::bind({.host = "127.0.0.1"}).fd()));
  Acceptor acceptor(Listener::from_fd(UniqueFd(::dup(descriptor.get()))), key_, {});
  acceptor.start();
  const std::uint16_t port = acceptor.address().port();
  EXPECT_THAT(error_of([&] { Listener::bind({.host = "127.0.0.1", .port = port}); }),
              HasSubstr("another program has this port"));
  acceptor.give_up_address();
  EXPECT_EQ(Listener::bind({.host = "127.0.0.1", .port = port}).address().port(), port);
}

TEST_F(AcceptorTest, TwoJobsOnOneMachineDoNotMeet) {
  const JobKey other_key = JobKey::generate();
  Acceptor other(Listener::bind({.host = "127.0.0.1"}), other_key, {.job = "j2", .purpose = ""});
  Inbox mine;
  Inbox theirs;
  acceptor_.serve("store", kAnyGeneration, mine.handler());
  other.serve("store", kAnyGeneration, theirs.handler());
  acceptor_.start();
  other.start();
  Hello their_hello = hello("store");
  their_hello.job = "j2";
  const Endpoint their_endpoint{"127.0.0.1", other.address().port()};
  connect(hello("store"));
  connect_and_prove(their_endpoint, their_hello, other_key, Deadline::after(20s));
  EXPECT_EQ(mine.next().peer.job, "j1");
  EXPECT_EQ(theirs.next().peer.job, "j2");
  EXPECT_THAT(refusal(their_hello, other_key, ErrorKind::kMismatch), HasSubstr("'j1'"));
}

TEST(ConnectAndProve, ServerThatNeverAnswersEndsAtTheDeadline) {
  const Listener listener = Listener::bind({.host = "127.0.0.1"});
  const JobKey key = JobKey::generate();
  try {
    // The connection itself must be there by then.
    connect_and_prove({"127.0.0.1", listener.port()}, {.job = "j", .purpose = "store"}, key,
                      Deadline::after(400ms));
    FAIL() << "it connected";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
    EXPECT_THAT(error.what(), HasSubstr("did not answer by the deadline"));
  }
}

// Serves handshakes one after the other and keeps the first acceptance back for three turns of the
// client, or until the client has gone; how many clients proved the key until one stayed.
int proofs_until_one_stays(Listener& listener, const JobKey& key,
                           std::chrono::milliseconds three_turns) {
  for (int proofs = 0;;) {
    poll_one(listener.fd(), POLLIN, Deadline::after(60s), -1);
    std::optional<Listener::Accepted> accepted = listener.accept();
    if (!accepted) continue;
    const int fd = accepted->fd.get();
    HandshakeServer handshake(key, {.job = "j", .purpose = ""},
                              [](const Hello&) { return Verdict{}; });
    std::array<std::uint8_t, 256> buffer;
    while (handshake.state() == Handshake::State::kRunning) {
      while (!handshake.output().empty()) {
        const ssize_t n =
            ::send(fd, handshake.output().data(), handshake.output().size(), MSG_NOSIGNAL);
        if (n < 0) break;
        handshake.sent(static_cast<std::size_t>(n));
      }
      poll_one(fd, POLLIN, Deadline::after(60s), -1);
      const ssize_t n = ::recv(fd, buffer.data(), std::min(handshake.wanted(), buffer.size()), 0);
      if (n <= 0) break;
      handshake.feed(std::span(buffer).first(static_cast<std::size_t>(n)));
    }
    if (handshake.state() != Handshake::State::kProved) continue;
    ++proofs;
    if (proofs == 1) poll_one(fd, POLLIN, Deadline::after(three_turns), -1);
    std::uint8_t byte = 0;
    if (::recv(fd, &byte, 1, MSG_DONTWAIT) == 0) continue;  // it has gone
    ::send(fd, handshake.output().data(), handshake.output().size(), MSG_NOSIGNAL);
    return proofs;
  }
}

// A connecting rank checks from time to time whether the other one lives. Its proof may have been
// accepted by then: the other counts it as there, and would refuse a second connection.
TEST(ConnectAndProve, WaitsOnForTheAnswerToAProofWhenATurnIsOver) {
  constexpr auto kTurn = 200ms;
  Listener listener = Listener::bind({.host = "127.0.0.1"});
  const JobKey key = JobKey::generate();
  int proofs = 0;
  std::thread server([&] { proofs = proofs_until_one_stays(listener, key, 3 * kTurn); });
  for (bool is_there = false; !is_there;) {
    try {
      connect_and_prove({"127.0.0.1", listener.port()}, {.job = "j", .purpose = "side"}, key,
                        Deadline::after(kTurn), {.acceptance = Deadline::after(60s)});
      is_there = true;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kTimeout) << error.what();
    }
  }
  server.join();
  EXPECT_EQ(proofs, 1);
}

}  // namespace
}  // namespace dl::rendezvous
