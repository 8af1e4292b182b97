// The agent store behind its socket.
#include "launcher/torch_store/torch_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>

#include "core/base/deadline.h"
#include "tests/launcher/torch_store/wire.h"

namespace dl::launcher {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Blocking, as PyTorch's.
class Client {
 public:
  explicit Client(std::uint16_t port) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    here.sin_port = htons(port);
    fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&here), sizeof here) == 0;
  }

  void send(const std::string& bytes) {
    EXPECT_TRUE(connected_);
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  // Fewer if the connection ends before.
  std::string receive(std::size_t size) {
    std::string bytes(size, '\0');
    const ssize_t n = ::recv(fd_.get(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    return bytes;
  }
  bool has_ended() { return receive(1).empty(); }
  // Whatever was sent before has been carried out.
  void be_heard() {
    send(wire::ping(77));
    EXPECT_EQ(receive(4), wire::number(std::uint32_t{77}));
  }
  void end() { fd_.reset(); }

 private:
  UniqueFd fd_;
  bool connected_ = false;
};

std::vector<rendezvous::Listener> on_loopback(std::uint16_t port = 0) {
  std::vector<rendezvous::Listener> listeners;
  listeners.push_back(rendezvous::Listener::bind({.host = "127.0.0.1", .port = port}));
  return listeners;
}

// A store with a thread of its own for its io_context.
class Served {
 public:
  explicit Served(TorchStoreOptions options = {}) {
    options.say = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      said_.push_back(line);
    };
    store_ = std::make_unique<TorchStore>(io_, on_loopback(), std::move(options));
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Served() {
    io_.stop();
    thread_.join();
  }

  Client client() { return Client(store_->port()); }
  Client greeted() {
    Client made = client();
    made.send(wire::hello());
    made.be_heard();
    return made;
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  // A new generation, on the same port.
  void begin_anew() {
    std::promise<void> done;
    boost::asio::post(io_, [&] {
      const std::uint16_t port = store_->port();
      store_.reset();
      store_ = std::make_unique<TorchStore>(io_, on_loopback(port),
                                            TorchStoreOptions{.say = [](const std::string&) {}});
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  boost::asio::io_context io_{1};
  std::mutex mutex_;
  std::vector<std::string> said_;
  std::unique_ptr<TorchStore> store_;
  std::thread thread_;
};

TEST(TorchStore, WakesAClientThatWaitsForAnothersKey) {
  Served store;
  Client waits = store.greeted();
  Client sets = store.greeted();
  waits.send(wire::wait("/k"));
  sets.send(wire::set("/k", "value"));
  EXPECT_EQ(waits.receive(1), std::string(1, '\0'));
  waits.send(wire::get("/k"));
  EXPECT_EQ(waits.receive(13), wire::text("value"));
  EXPECT_TRUE(store.said().empty());
}

TEST(TorchStore, ClosesAStrangersConnectionAndSaysSo) {
  Served store;
  Client stranger = store.client();
  stranger.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(stranger.has_ended());
  ASSERT_EQ(store.said().size(), 1U);
  EXPECT_THAT(
      store.said().front(),
      testing::MatchesRegex("PyTorch's store at 127.0.0.1:[0-9]+ closed a connection from "
                            "127.0.0.1:[0-9]+: its first byte is 0x47, wanted 0x00 .VALIDATE."));
  store.greeted();
}

// A dlrun that takes the port for that of the rendezvous tries again until it is.
TEST(TorchStore, SaysOnceThatADlrunConnects) {
  Served store;
  for (int i = 0; i < 3; ++i) {
    Client late = store.client();
    late.send(
        "\x89"
        "DLRUN\r\n");
    EXPECT_TRUE(late.has_ended());
  }
  ASSERT_EQ(store.said().size(), 1U);
  EXPECT_THAT(store.said().front(), testing::HasSubstr("; that dlrun tries again"));
}

TEST(TorchStore, ClosesWhatIsMalformedAndGoesOnWithOthers) {
  Served store;
  Client good = store.greeted();
  good.send(wire::set("/text", "abc"));
  good.be_heard();
  for (const std::string& bad :
       {std::string("\x42"), wire::query(QueryKind::kGet, wire::number(std::uint64_t{1} << 62)),
        wire::query(QueryKind::kAdd, wire::text("/text") + wire::number(std::int64_t{1})),
        wire::hello()}) {
    Client client = store.greeted();
    client.send(bad);
    EXPECT_TRUE(client.has_ended());
  }
  EXPECT_THAT(store.said(),
              ElementsAre(HasSubstr("query 66 is not known"), HasSubstr("GET has a key of"),
                          HasSubstr("whose value is no number"), HasSubstr("twice")));
  good.be_heard();
}

TEST(TorchStore, SaysNoMoreOfManyStrangersThanItShould) {
  Served store;
  for (int i = 0; i < 30; ++i) {
    Client stranger = store.client();
    stranger.send("x");
    EXPECT_TRUE(stranger.has_ended());
  }
  ASSERT_EQ(store.said().size(), 10U);
  EXPECT_THAT(store.said().back(), HasSubstr("; no more of this is said"));
}

TEST(TorchStore, IsSilentAboutClientsThatEnd) {
  Served store;
  Client other = store.greeted();
  {
    store.client();
    Client waits = store.greeted();
    waits.send(wire::wait("/k"));
    Client half = store.greeted();
    half.send(wire::set("/k", "value").substr(0, 9));
  }
  other.send(wire::set("/k", "value"));
  other.be_heard();
  EXPECT_TRUE(store.said().empty());
}

TEST(TorchStore, ServesOthersWhileOneTakesNoAnswer) {
  constexpr int kQuestions = 64;
  Served store;
  Client lazy = store.greeted();
  const std::string value(std::size_t{1} << 20, 'v');
  lazy.send(wire::set("/large", value));
  std::string questions;
  for (int i = 0; i < kQuestions; ++i) questions += wire::get("/large");
  lazy.send(questions);
  store.greeted();
  for (int i = 0; i < kQuestions; ++i) {
    ASSERT_EQ(lazy.receive(8 + value.size()), wire::text(value)) << i;
  }
  lazy.be_heard();
}

TEST(TorchStore, GivesAStrangersPlaceToAClient) {
  Served store({.most_connections = 3});
  Client stranger = store.client();
  Client first = store.greeted();
  Client second = store.greeted();
  Client third = store.greeted();
  EXPECT_TRUE(stranger.has_ended());
  Client fourth = store.client();
  EXPECT_TRUE(fourth.has_ended());
  EXPECT_THAT(store.said(), ElementsAre(HasSubstr("others want its place"),
                                        HasSubstr("it has 3, and at most so many")));
  for (Client* client : {&first, &second, &third}) client->be_heard();
}

TEST(TorchStore, OfANewGenerationHasNoKeysAndNoClients) {
  Served store;
  Client old = store.greeted();
  old.send(wire::set("/k", "old"));
  old.be_heard();
  Client waits = store.greeted();
  waits.send(wire::wait("/never"));
  store.begin_anew();
  EXPECT_TRUE(old.has_ended());
  EXPECT_TRUE(waits.has_ended());
  Client now = store.greeted();
  now.send(wire::query(QueryKind::kNumKeys));
  EXPECT_EQ(now.receive(8), wire::number(std::int64_t{0}));
}

// What a connection has to say may be queued in the event loop when the store ends.
TEST(TorchStore, MayEndWhileItsHandlersAreQueued) {
  boost::asio::io_context io{1};
  auto store = std::make_unique<TorchStore>(io, on_loopback(),
                                            TorchStoreOptions{.say = [](const std::string&) {}});
  Client first(store->port());
  Client second(store->port());
  io.run_one();
  first.send(wire::hello());
  second.send(wire::hello());
  boost::asio::post(io, [&] { store.reset(); });
  const rendezvous::Deadline deadline = rendezvous::Deadline::after(std::chrono::minutes(2));
  while (store && !deadline.has_passed()) io.poll();
  io.poll();
  EXPECT_TRUE(first.has_ended());
  EXPECT_TRUE(second.has_ended());
}

}  // namespace
}  // namespace dl::launcher
