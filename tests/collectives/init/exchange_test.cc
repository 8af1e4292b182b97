// What reaches the host of an exchange: twice, garbage, foreign, late.
#include "collectives/join/meet/exchange.h"
#include "collectives/join/meet/absent.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/socket/socket.h"
#include "rendezvous/net/wire.h"
#include "tests/collectives/ranks.h"

namespace dl::collectives::meet {
namespace {

using namespace std::chrono_literals;
using rendezvous::Connection;
using testing::run_threads;
using testing::Thrown;
using testing::thrown_by;

class Exchanges : public ::testing::Test {
 protected:
  ExchangeOptions options(int rank, int size) const {
    return {.group = "g",
            .rank = rank,
            .size = size,
            .timeout = 60s,
            .key = key_,
            .hello = {.job = "local",
                      .purpose = "meet",
                      .from = "rank " + std::to_string(rank),
                      .rank = rank}};
  }
  std::unique_ptr<Host> host(int size) {
    std::vector<rendezvous::Listener> listeners;
    listeners.push_back(rendezvous::Listener::bind({.host = "127.0.0.1"}));
    endpoint_.port = listeners.front().port();
    return std::make_unique<Host>(options(0, size), std::move(listeners));
  }
  Connection dial(int rank, int size) const {
    return rendezvous::connect_and_prove(endpoint_, options(rank, size).hello, key_,
                                         Deadline::after(60s));
  }
  Guest guest(int rank, int size) const { return {options(rank, size), dial(rank, size)}; }

  const rendezvous::JobKey key_ = rendezvous::JobKey::generate();
  rendezvous::Endpoint endpoint_{.host = "127.0.0.1"};  // of the last host
};

TEST_F(Exchanges, GatherLinesRoundByRound) {
  std::unique_ptr<Exchange> its_host = host(3);
  run_threads(3, [&](int rank) {
    std::unique_ptr<Exchange> exchange;
    if (rank == 0) {
      exchange = std::move(its_host);
    } else {
      exchange = std::make_unique<Guest>(guest(rank, 3));
    }
    for (int round = 0; round < 100; ++round) {
      const std::string mine(static_cast<std::size_t>(round * 100), static_cast<char>('0' + rank));
      const auto lines = exchange->all_gather(mine, Deadline::after(60s));
      ASSERT_EQ(lines.size(), 3u);
      EXPECT_EQ(lines[static_cast<std::size_t>(rank)], mine);
      EXPECT_EQ(lines[2].size(), mine.size());
    }
  });
}

// All ranks hear of it: each of the two processes may be the one with the wrong number.
TEST_F(Exchanges, EndIfTwoProcessesAreOneRank) {
  for (const int number : {0, 1}) {
    auto host = this->host(3);
    const auto expect_twice = [&](const Thrown& thrown) {
      EXPECT_EQ(thrown.kind, ErrorKind::kMismatch) << thrown.text;
      EXPECT_NE(thrown.text.find(number == 0 ? "rank 0 and a twin have both come as rank 0"
                                             : "have both come as rank 1"),
                std::string::npos)
          << thrown.text;
      EXPECT_NE(thrown.text.find("a twin"), std::string::npos) << thrown.text;
    };
    const auto come = [&](int rank, const std::string& from) {
      ExchangeOptions own = options(rank, 3);
      own.hello.from = from;
      Guest guest(own,
                  rendezvous::connect_and_prove(endpoint_, own.hello, key_, Deadline::after(60s)));
      expect_twice(thrown_by([&] { guest.all_gather("", Deadline::after(60s)); }));
    };
    std::thread first([&] { come(1, "rank 1"); });
    std::thread twin([&] { come(number, "a twin"); });
    expect_twice(thrown_by([&] { host->all_gather("", Deadline::after(60s)); }));
    first.join();
    twin.join();
  }
}

TEST_F(Exchanges, RefuseATwinOfARankOnceTheyAreComplete) {
  auto host = this->host(2);
  std::thread other([&] {
    Guest first = guest(1, 2);
    EXPECT_EQ(first.all_gather("a", Deadline::after(60s))[1], "a");
    const Thrown thrown = thrown_by([&] { guest(1, 2).all_gather("", Deadline::after(60s)); });
    EXPECT_EQ(thrown.kind, ErrorKind::kMismatch) << thrown.text;
    EXPECT_NE(thrown.text.find("have both come as rank 1"), std::string::npos) << thrown.text;
    EXPECT_EQ(first.all_gather("b", Deadline::after(60s))[1], "b");
  });
  for (const std::string line : {"a", "b"}) {
    EXPECT_EQ(host->all_gather("", Deadline::after(60s))[1], line);
  }
  other.join();
}

// Garbage of a rank that has proved the key ends the exchange in one sentence, on all ranks.
TEST_F(Exchanges, EndWithARankThatSendsGarbage) {
  for (const std::string& garbage :
       {std::string(100, '\xff'), std::string("\0\0\0\0\x63", 5), std::string("\0\0\0\0\x01", 5),
        std::string("\x08\0\0\0\x02"
                    "12345678",
                    13)}) {
    auto host = this->host(3);
    std::thread others([&] {
      Guest good = guest(1, 3);
      std::thread bad([&] {
        const Connection connection = dial(2, 3);
        ::send(connection.fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
        char byte = 0;
        rendezvous::poll_one(connection.fd.get(), POLLIN, Deadline::after(60s), -1);
        ::recv(connection.fd.get(), &byte, 1, 0);
      });
      const Thrown thrown = thrown_by([&] { good.all_gather("", Deadline::after(60s)); });
      EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed) << thrown.text;
      bad.join();
    });
    const Thrown thrown = thrown_by([&] { host->all_gather("", Deadline::after(60s)); });
    EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed) << thrown.text;
    EXPECT_NE(thrown.text.find("rank 2: "), std::string::npos) << thrown.text;
    host.reset();
    others.join();
  }
}

TEST_F(Exchanges, EndWithARankThatLeaves) {
  auto host = this->host(3);
  std::thread others([&] {
    Guest stays = guest(1, 3);
    {
      const Connection leaves = dial(2, 3);
    }
    const Thrown thrown = thrown_by([&] { stays.all_gather("", Deadline::after(60s)); });
    EXPECT_NE(thrown.text.find("rank 2: its connection has ended"), std::string::npos)
        << thrown.text;
  });
  const Thrown thrown = thrown_by([&] { host->all_gather("", Deadline::after(60s)); });
  EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed) << thrown.text;
  others.join();
}

TEST_F(Exchanges, KeepTheRanksNamesWhenTheyGoOnWithFewer) {
  ExchangeOptions named = options(0, 3);
  named.names = {"a", "b", "c"};
  named.job_ranks = {10, 11, 12};
  std::vector<rendezvous::Listener> listeners;
  listeners.push_back(rendezvous::Listener::bind({.host = "127.0.0.1"}));
  Host host(named, std::move(listeners));
  host.narrow({0, 2});
  const GroupError late = late_error(host.options(), {1});
  EXPECT_NE(std::string(late.what()).find("c of 2"), std::string::npos) << late.what();
  EXPECT_EQ(late.cause().rank, 12);
}

// Whichever rank's deadline comes first, all say whom it waited for.
TEST_F(Exchanges, EndWithTheReasonOfARankThatGivesUp) {
  auto host = this->host(3);
  std::thread other([&] {
    Guest impatient = guest(1, 3);
    const Thrown thrown = thrown_by([&] { impatient.all_gather("", Deadline::after(50ms)); });
    EXPECT_EQ(thrown.kind, ErrorKind::kTimeout) << thrown.text;
  });
  const Thrown thrown = thrown_by([&] { host->all_gather("", Deadline::after(1h)); });
  EXPECT_EQ(thrown.kind, ErrorKind::kTimeout) << thrown.text;
  EXPECT_NE(thrown.text.find("rank 2 of the group has not come"), std::string::npos) << thrown.text;
  other.join();
}

TEST_F(Exchanges, GiveAbsentRanksOfTheJobTheNumbersThatNoOtherHas) {
  ExchangeOptions whole = options(0, 4);
  whole.job_ranks = {3, -1, -1, 0};
  EXPECT_EQ(absent_of(whole, {1, 2}).list, "ranks 1-2 of 4");
  EXPECT_EQ(absent_of(whole, {1, 2}).first, 1);
  EXPECT_EQ(absent_of(whole, {2}).list, "rank 2 of the group") << "rank 1 may be either";
  EXPECT_EQ(absent_of(whole, {2}).first, -1);
  whole.job_ranks[1] = 2;
  EXPECT_EQ(absent_of(whole, {2}).list, "rank 1 of the job");
  EXPECT_EQ(absent_of(whole, {2}).first, 1);
}

TEST_F(Exchanges, EndWithTheHost) {
  auto host = this->host(2);
  std::thread other([&] {
    Guest guest = this->guest(1, 2);
    const Thrown thrown = thrown_by([&] { guest.all_gather("", Deadline::after(60s)); });
    EXPECT_EQ(thrown.kind, ErrorKind::kPeerFailed) << thrown.text;
    EXPECT_TRUE(guest.is_host_gone());
  });
  while (!host->line_of(1)) host->step({}, Deadline::after(60s));
  host.reset();
  other.join();
}

}  // namespace
}  // namespace dl::collectives::meet
