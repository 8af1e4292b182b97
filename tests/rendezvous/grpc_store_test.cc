#include "rendezvous/grpc/grpc_store.h"
#include "core/base/sanitizers.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <utility>

#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/net/connect/acceptor.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/service/grpc_store_server.h"
#include "rendezvous/service/rendezvous_service.h"
#include "rendezvous/stores/prefix_store.h"
#include "tests/rendezvous/cutting_proxy.h"
#include "tests/rendezvous/store_conformance.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

class Server {
 public:
  explicit Server(const JobKey& key, Listener listener = Listener::bind({.host = "127.0.0.1"}))
      : acceptor_(std::move(listener), key,
                  {.job = "j1", .purpose = "", .from = "rank 0", .rank = 0}),
        server_(acceptor_) {
    acceptor_.start();
  }
  Endpoint endpoint() const { return {"127.0.0.1", acceptor_.address().port()}; }
  Store& local() { return server_.local(); }

 private:
  Acceptor acceptor_;
  GrpcStoreServer server_;
};

GrpcStoreOptions options(const Server& server, const JobKey& key,
                         std::chrono::nanoseconds warn_after = kWarnAfter) {
  return {.endpoint = server.endpoint(),
          .key = key,
          .hello = {.job = "j1", .from = "rank 1"},
          .warn_after = warn_after};
}
Deadline soon() {
  return Deadline::after(30s);
}

// A loopback port that stays the test's own although no socket listens on it.
class HeldPort {
 public:
  HeldPort() : held_(bound_to(resolve({"127.0.0.1", 0}, Deadline::never())[0])) {}
  Listener listen() const {
    UniqueFd fd = bound_to(local_address(held_.get()));
    if (::listen(fd.get(), 8) != 0) throw_errno(errno, "listen");
    return Listener::from_fd(std::move(fd));
  }

 private:
  // Sockets that allow it share a port until one of them listens.
  static UniqueFd bound_to(const Address& address) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(fd.get(), address.data(), address.size()) != 0) {
      throw_errno(errno, "bind " + address.text());
    }
    return fd;
  }

  UniqueFd held_;
};

// Clients 0 and 1 come over the network, client 2 is the hosting process itself.
class GrpcWorld final : public StoreWorld {
 public:
  explicit GrpcWorld(std::chrono::nanoseconds warn_after) : warn_after_(warn_after) {}
  Store& client(int number) override {
    return number == 0 ? static_cast<Store&>(first_) : number == 1 ? second_ : server_.local();
  }

 private:
  std::chrono::nanoseconds warn_after_;
  JobKey key_ = JobKey::generate();
  Server server_{key_};
  GrpcStore first_{options(server_, key_, warn_after_), Deadline::after(30s)};
  GrpcStore second_{options(server_, key_, warn_after_), Deadline::after(30s)};
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance,
                         ::testing::Values(StoreParam{
                             "Grpc",
                             [](auto after) { return std::make_unique<GrpcWorld>(after); }}),
                         store_param_name);

class GrpcStoreTest : public ::testing::Test {
 protected:
  GrpcStoreTest() { log::set_level(log::Level::kOff); }
  ~GrpcStoreTest() override { log::set_level(log::Level::kWarning); }

  template <typename Call>
  static std::string error_of(ErrorKind kind, Call call) {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error";
    return "";
  }

  JobKey key_ = JobKey::generate();
};

TEST_F(GrpcStoreTest, ClientMayStartBeforeTheServer) {
  // Bound and not listening: the port is ours, and connections to it are refused.
  UniqueFd bound(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address any = resolve({"127.0.0.1", 0}, Deadline::never())[0];
  ASSERT_EQ(::bind(bound.get(), any.data(), any.size()), 0);
  GrpcStoreOptions wanted{.endpoint = {"127.0.0.1", local_address(bound.get()).port()},
                          .key = key_,
                          .hello = {.job = "j1"}};
  std::unique_ptr<GrpcStore> store;
  std::thread client([&] { store = std::make_unique<GrpcStore>(wanted, soon()); });
  ASSERT_EQ(::listen(bound.get(), 8), 0);
  Server server(key_, Listener::from_fd(std::move(bound)));
  client.join();
  store->set("k", "v", soon());
  EXPECT_EQ(server.local().get("k", soon()), "v");
}

TEST_F(GrpcStoreTest, ReconnectsAndAppliesEachChangeOnce) {
  Server server(key_);
  tests::CuttingProxy proxy(server.endpoint());
  GrpcStoreOptions wanted = options(server, key_);
  wanted.endpoint = proxy.endpoint();
  wanted.reconnect_for = 60s;
  GrpcStore store(wanted, soon());
  const Deadline end = Deadline::after(240s);
  std::thread waiter([&] { EXPECT_EQ(store.get("end", end), "over"); });
  std::vector<std::thread> adders;
  for (int i = 0; i < 2; ++i) {
    adders.emplace_back([&] {
      for (int k = 0; k < 100; ++k) store.add("n", 1, end);
    });
  }
  // Once a number: who is cut off again and again never gets to change it.
  std::int64_t cut_at = -1;
  for (std::int64_t seen = 0; seen < 200; seen = server.local().add("n", 0, soon())) {
    if (seen % 7 == 3 && std::exchange(cut_at, seen) != seen) proxy.cut();
    std::this_thread::yield();
  }
  for (std::thread& adder : adders) adder.join();
  proxy.cut();
  EXPECT_EQ(store.add("n", 0, soon()), 200);
  proxy.cut();
  server.local().set("end", "over", soon());
  waiter.join();
}

// The pause in which a wait says what it waits for must not cut the time for a new connection.
TEST_F(GrpcStoreTest, WaitOutlivesABreakLongerThanItsPatience) {
  Server server(key_);
  tests::CuttingProxy proxy(server.endpoint());
  GrpcStoreOptions wanted = options(server, key_);
  wanted.endpoint = proxy.endpoint();
  wanted.reconnect_for = 60s;
  wanted.warn_after = 200ms;
  GrpcStore store(wanted, soon());
  std::string value;
  std::thread waiter([&] { value = store.get("end", Deadline::after(60s)); });
  proxy.break_down();
  EXPECT_THROW(server.local().get("never", Deadline::after(700ms)), Error);
  proxy.mend();
  server.local().set("end", "over", soon());
  waiter.join();
  EXPECT_EQ(value, "over");
}

TEST_F(GrpcStoreTest, CallKeepsItsDeadlineWhileAnotherConnects) {
  Server server(key_);
  tests::CuttingProxy proxy(server.endpoint());
  GrpcStoreOptions wanted = options(server, key_);
  wanted.endpoint = proxy.endpoint();
  wanted.reconnect_for = 600s;
  GrpcStore store(wanted, soon());
  proxy.break_down();
  std::atomic<bool> has_set{false};
  std::thread patient([&] {
    store.set("k", "v", Deadline::after(600s));
    has_set = true;
  });
  // Whichever of the two made the connection first, the other one does in the end.
  for (int i = 0; i < 5; ++i) {
    EXPECT_THROW(store.try_get("k", Deadline::after(50ms)), Error);
  }
  EXPECT_FALSE(has_set);
  proxy.mend();
  patient.join();
  EXPECT_EQ(server.local().get("k", soon()), "v");
}

TEST_F(GrpcStoreTest, WrongKeyAndWrongJobAreRefusedWithASentence) {
  const Server server(key_);
  EXPECT_THAT(error_of(ErrorKind::kAuthentication,
                       [&] { GrpcStore(options(server, JobKey::generate()), soon()); }),
              HasSubstr("wrong job key"));
  GrpcStoreOptions other = options(server, key_);
  other.hello.job = "j2";
  EXPECT_THAT(error_of(ErrorKind::kMismatch, [&] { GrpcStore(other, soon()); }),
              HasSubstr("it belongs to job 'j1', this process to job 'j2'"));
}

TEST_F(GrpcStoreTest, WaitingCallsEndWhenTheServerEnds) {
  const HeldPort port;
  auto server = std::make_unique<Server>(key_, port.listen());
  GrpcStoreOptions wanted = options(*server, key_);
  wanted.reconnect_for = 200ms;
  GrpcStore store(wanted, soon());
  std::string text;
  std::thread waiter([&] {
    try {
      store.get("never", Deadline::after(120s));
    } catch (const Error& error) {
      text = error.what();
    }
  });
  store.set("k", "v", soon());
  server.reset();
  waiter.join();
  // The first text if the call had reached the server by then.
  EXPECT_THAT(text, ::testing::AnyOf(HasSubstr("the process that hosts the store has ended"),
                                     HasSubstr("could not be made again")));
  EXPECT_THAT(
      error_of(ErrorKind::kConnection, [&] { store.set("k", "w", soon()); }),
      ::testing::AllOf(HasSubstr("set 'k': the connection to 127.0.0.1"),
                       HasSubstr("could not be made again"), HasSubstr("Connection refused")));
}

TEST_F(GrpcStoreTest, ClosingTheServersStoreEndsWaitsWithItsReason) {
  Server server(key_);
  GrpcStore store(options(server, key_), soon());
  std::thread closer([&] { server.local().close("the job is over"); });
  EXPECT_EQ(error_of(ErrorKind::kAborted, [&] { store.get("never", soon()); }),
            "store: closed: the job is over");
  closer.join();
}

TEST_F(GrpcStoreTest, ServerThatWasStartedAnewHasLostTheKeys) {
  Listener listener = Listener::bind({.host = "127.0.0.1"});
  // A second descriptor of the same socket keeps the port in between.
  UniqueFd again(::dup(listener.fd()));
  auto server = std::make_unique<Server>(key_, std::move(listener));
  GrpcStore store(options(*server, key_), soon());
  store.set("k", "v", soon());
  server.reset();
  server = std::make_unique<Server>(key_, Listener::from_fd(std::move(again)));
  EXPECT_THAT(error_of(ErrorKind::kConnection, [&] { store.try_get("k", soon()); }),
              HasSubstr("was started anew and has lost the job's keys"));
}

TEST_F(GrpcStoreTest, ProxiesInTheEnvironmentAreNotAsked) {
  ::setenv("http_proxy", "http://192.0.2.1:9", 1);
  ::setenv("grpc_proxy", "http://192.0.2.1:9", 1);
  const Server server(key_);
  GrpcStore store(options(server, key_), soon());
  store.set("k", "v", soon());
  EXPECT_EQ(store.get("k", soon()), "v");
  ::unsetenv("http_proxy");
  ::unsetenv("grpc_proxy");
}

TEST(GrpcThreads, ThatTheSystemRefusesAreAnErrorAndNoWaitForEver) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer lets no forked process have threads";
#endif
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string said = "this process may not give up being root";
    const rlimit none{};
    if (::geteuid() != 0 || ::setresuid(65534, 65534, 65534) == 0) {
      try {
        ::setrlimit(RLIMIT_NPROC, &none);
        const GrpcUse use;
        said = "nothing";
      } catch (const Error& error) {
        said = error.what();
      }
    }
    [[maybe_unused]] const auto written = ::write(ends[1], said.data(), said.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string said(4096, '\0');
  said.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], said.data(), 4096))));
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  if (said.starts_with("this process")) GTEST_SKIP() << said;
  EXPECT_THAT(said, ::testing::StartsWith(
                        "store: 8 threads are needed, and the system gives 0: Resource "
                        "temporarily unavailable; no process or thread more: the limit of this "
                        "user (ulimit -u) is 0"));
}

TEST_F(GrpcStoreTest, HundredsOfWaitsNeedNoThreadEachInTheServer) {
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
  };
  Server server(key_);
  GrpcStore store(options(server, key_), soon());
  constexpr int kWaits = 200;
  const auto before = threads();
  std::vector<std::thread> waiting;
  std::atomic<int> done = 0;
  for (int i = 0; i < kWaits; ++i) {
    waiting.emplace_back([&] {
      store.get("go", soon());
      ++done;
    });
  }
  EXPECT_LT(threads() - before - kWaits, kWaits / 2) << "gRPC's own grow with the cores";
  EXPECT_EQ(done, 0);
  server.local().set("go", "", soon());
  for (std::thread& thread : waiting) thread.join();
  EXPECT_EQ(done, kWaits);
}

// A node that comes while node 0 ends tries again, for node 0 may be started anew.
TEST(RendezvousService, EndingDuringAHandshakeRefusesNoNode) {
  const JobKey key = JobKey::generate();
  Listener listener = Listener::bind({.host = "127.0.0.1"});
  const Endpoint endpoint{"127.0.0.1", listener.port()};
  RendezvousService service(std::move(listener), key, "j1");
  const UniqueFd fd = connect_to(endpoint, soon());
  HandshakeClient node(key,
                       {.job = "j1", .purpose = std::string(kMembershipPurpose), .from = "node 1"},
                       fresh_nonce());
  const auto send_all = [&] {
    const auto bytes = node.output();
    const ssize_t n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) node.sent(static_cast<std::size_t>(n));
    return n > 0;
  };
  pollfd answer{fd.get(), POLLIN, 0};
  ASSERT_TRUE(send_all());
  ASSERT_EQ(::poll(&answer, 1, -1), 1);  // the service has the hello, and waits for the proof
  service.shutdown(soon());
  std::array<std::uint8_t, 1024> bytes;
  while (node.wanted() > 0 && (node.output().empty() || send_all())) {
    ::poll(&answer, 1, -1);
    const ssize_t n =
        ::recv(fd.get(), bytes.data(), std::min(node.wanted(), bytes.size()), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) break;
    if (n > 0) node.feed(std::span(bytes).first(static_cast<std::size_t>(n)));
  }
  EXPECT_EQ(node.state(), Handshake::State::kRunning) << node.reason();
}

TEST(StoreFence, RefusesLateChangesAndForgetsOldKeys) {
  const JobKey key = JobKey::generate();
  Listener listener = Listener::bind({.host = "127.0.0.1"});
  const Endpoint endpoint{"127.0.0.1", listener.port()};
  RendezvousService service(std::move(listener), key, "j1");
  const auto client = [&](std::uint64_t generation) {
    return GrpcStore({.endpoint = endpoint,
                      .key = key,
                      .hello = {.job = "j1", .generation = generation, .from = "rank 1"}},
                     soon());
  };
  GrpcStore old = client(0);
  old.set("gen0/a", "1", soon());
  old.set("own", "1", soon());
  service.begin_generation(1);
  const auto refusal = [](const auto& change) -> std::string {
    try {
      change();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kAborted);
      return error.what();
    }
    return "done";
  };
  for (const auto& text :
       {refusal([&] { old.set("own", "2", soon()); }), refusal([&] { old.add("n", 1, soon()); }),
        refusal([&] { old.compare_and_set("x", std::nullopt, "1", soon()); })}) {
    EXPECT_NE(text.find("this process is of generation 0, and generation 1 runs"),
              std::string::npos)
        << text;
  }
  GrpcStore young = client(1);
  EXPECT_EQ(young.try_get("own", soon()), "1");
  EXPECT_EQ(young.try_get("gen0/a", soon()), std::nullopt);
  young.set("own", "3", soon());
  GrpcStore agent = client(kAnyGeneration);  // of no generation
  agent.set("own", "4", soon());
}

TEST(StoreFence, ForgetsKeysOfEarlierGenerationsOnly) {
  EXPECT_TRUE(PrefixStore::is_of_generation_before(2, "gen0/x"));
  EXPECT_TRUE(PrefixStore::is_of_generation_before(2, "gen1/"));
  for (const char* key : {"gen2/x", "gen10/x", "gen1", "gen/x", "gen1x/y", "general/1", "x"}) {
    EXPECT_FALSE(PrefixStore::is_of_generation_before(2, key)) << key;
  }
}

}  // namespace
}  // namespace dl::rendezvous
