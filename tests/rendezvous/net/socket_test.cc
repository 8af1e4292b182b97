#include "rendezvous/net/socket/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "rendezvous/net/socket/local_socket.h"
#include "tests/support/no_threads.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

template <typename Call>
std::string error_of(ErrorKind kind, Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  return "no error";
}

// A loopback port without a listener. While this object lives, no other process can listen: it is
// bound.
class ClosedPort {
 public:
  ClosedPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const Address any = resolve({"127.0.0.1", 0}, Deadline::never())[0];
    EXPECT_EQ(::bind(fd_.get(), any.data(), any.size()), 0);
    endpoint_ = {"127.0.0.1", local_address(fd_.get()).port()};
  }
  const Endpoint& endpoint() const { return endpoint_; }
  void listen() const { EXPECT_EQ(::listen(fd_.get(), 1), 0); }

 private:
  UniqueFd fd_;
  Endpoint endpoint_;
};

// The connection of a client that has seen it made: the listener may see it a moment later.
std::optional<Listener::Accepted> accept_from(Listener& listener) {
  pollfd entry{.fd = listener.fd(), .events = POLLIN, .revents = 0};
  ::poll(&entry, 1, 30'000);
  return listener.accept();
}
std::string host_of_next(Listener& listener) {
  const std::optional<Listener::Accepted> accepted = accept_from(listener);
  return accepted ? accepted->peer.host() : "nobody";
}

TEST(Endpoint, ParsesNamesAndBothFamilies) {
  EXPECT_THAT(error_of(ErrorKind::kInvalidArgument, [&] { Endpoint::parse("http://node1:80"); }),
              HasSubstr("it is written without a scheme"));
  EXPECT_EQ(Endpoint::parse("node1:29500"), (Endpoint{"node1", 29500}));
  EXPECT_EQ(Endpoint::parse("10.0.0.2:1"), (Endpoint{"10.0.0.2", 1}));
  EXPECT_EQ(Endpoint::parse("[fe80::1%eth0]:65535"), (Endpoint{"fe80::1%eth0", 65535}));
  EXPECT_EQ(Endpoint::parse("[::1]:7").text(), "[::1]:7");
}

TEST(Endpoint, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "node1", "node1:", ":29500", "node1:65536", "node1:-1", "node1:1x",
                           "::1:29500", "[::1]", "[::1]29500", "[::1", "node1: 1"}) {
    EXPECT_THAT(error_of(ErrorKind::kInvalidArgument, [&] { Endpoint::parse(text); }),
                HasSubstr("is not an address"))
        << text;
  }
}

TEST(Address, PrintsLikeAnEndpoint) {
  EXPECT_EQ(resolve({"127.0.0.1", 80}, Deadline::never()).at(0).text(), "127.0.0.1:80");
  EXPECT_EQ(resolve({"::1", 80}, Deadline::never()).at(0).text(), "[::1]:80");
  EXPECT_EQ(resolve({"::ffff:10.0.0.2", 80}, Deadline::never()).at(0).text(), "10.0.0.2:80");
  EXPECT_TRUE(resolve({"127.8.0.1", 80}, Deadline::never()).at(0).is_loopback());
  EXPECT_TRUE(resolve({"::", 80}, Deadline::never()).at(0).is_any());
}

TEST(Address, IsNotLookedUpWithoutAThread) {
  const tests::NoThreads no_threads;
  const std::string text =
      error_of(ErrorKind::kIo, [] { resolve({"localhost", 1}, Deadline::never()); });
  EXPECT_EQ(text, "resolve localhost: no thread for it: " + spawn_error_text(EAGAIN));
}

TEST(Address, UnknownHostIsNamed) {
  try {
    resolve({"no-such-host.invalid", 1}, Deadline::after(20s));
    FAIL() << "it was found";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_THAT(text, HasSubstr("resolve no-such-host.invalid: "));
    // If this machine's name service does not answer, that is the error.
    const bool is_unknown = text.ends_with(::gai_strerror(EAI_NONAME));
    const bool is_silent = text.ends_with("no answer from the name service in time");
    EXPECT_EQ(error.kind(), is_unknown  ? ErrorKind::kNotFound
                            : is_silent ? ErrorKind::kTimeout
                                        : ErrorKind::kConnection)
        << text;
  }
}

TEST(Address, InterfaceIsFoundByNameAndByAddress) {
  EXPECT_TRUE(interface_addresses("lo").at(0).is_loopback());
  EXPECT_EQ(interface_addresses("127.0.0.1").at(0).host(), "127.0.0.1");
  EXPECT_THAT(error_of(ErrorKind::kNotFound, [] { interface_addresses("nosuch0"); }),
              HasSubstr("this host has: lo 127.0.0.1"));
  EXPECT_THAT(error_of(ErrorKind::kNotFound, [] { interface_addresses("240.0.0.1"); }),
              HasSubstr("'240.0.0.1' is not an address of this host"));
  EXPECT_TRUE(local_address_towards(resolve({"127.0.0.1", 9}, Deadline::never())[0]).is_loopback());
}

TEST(Address, InterfaceIsFoundByItsNetwork) {
  for (const char* const network : {"127.0.0.0/8", "127.0.0.1/32", "127.128.0.0/8"}) {
    EXPECT_EQ(interface_addresses(network).at(0).host(), "127.0.0.1") << network;
  }
  const std::vector<Address> everything = interface_addresses("0.0.0.0/0");
  EXPECT_TRUE(std::all_of(everything.begin(), everything.end(),
                          [](const Address& a) { return a.family() == AF_INET; }));
  for (const char* const network : {"127.0.0.2/31", "240.0.0.0/4", "64:ff9b::/96"}) {
    EXPECT_THAT(error_of(ErrorKind::kNotFound, [&] { interface_addresses(network); }),
                HasSubstr("is a network that this host has no address in"))
        << network;
  }
  for (const char* const network : {"127.0.0.0/33", "127.0.0.0/", "lo/8", "10.0.0.0/8x", "/8"}) {
    EXPECT_THAT(error_of(ErrorKind::kNotFound, [&] { interface_addresses(network); }),
                HasSubstr("is not a network; wanted one like"))
        << network;
  }
}

TEST(Socket, ConnectsAndKnowsBothEnds) {
  Listener listener = Listener::bind({.host = "127.0.0.1"});
  const UniqueFd client = connect_to({"127.0.0.1", listener.port()}, Deadline::after(30s));
  const std::optional<Listener::Accepted> accepted = accept_from(listener);
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(accepted->peer, local_address(client.get()));
  EXPECT_EQ(peer_address(client.get()), listener.address());
  EXPECT_FALSE(listener.accept().has_value());
  for (const int fd : {client.get(), accepted->fd.get()}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFL) & O_NONBLOCK);
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
  }
}

TEST(Address, OfThisHostAreThoseThatPacketsDoNotLeave) {
  const auto is_own = [](const char* host) {
    return is_of_this_host(resolve({host, 29400}, Deadline::never()).front());
  };
  for (const char* host : {"127.0.0.1", "127.0.1.1", "::1", "0.0.0.0", "::"}) {
    EXPECT_TRUE(is_own(host)) << host;
  }
  for (const char* host : {"192.0.2.1", "2001:db8::1"}) EXPECT_FALSE(is_own(host)) << host;
  for (const Address& address : all_addresses()) EXPECT_TRUE(is_of_this_host(address));
}

TEST(Address, Ipv4ComesFirstAndEachOnce) {
  std::vector<Address> addresses;
  for (const char* host : {"fd00::2", "10.0.0.2", "fd00::1", "10.0.0.1", "10.0.0.2"}) {
    addresses.push_back(resolve({host, 1}, Deadline::never()).front());
  }
  put_ipv4_first(addresses);
  std::vector<std::string> hosts;
  for (const Address& address : addresses) hosts.push_back(address.host());
  EXPECT_EQ(hosts, (std::vector<std::string>{"10.0.0.2", "10.0.0.1", "fd00::2", "fd00::1"}));
}

TEST(Socket, ListensOnBothFamiliesAtOnce) {
  Listener listener = Listener::bind();
  const UniqueFd v4 = connect_to({"127.0.0.1", listener.port()}, Deadline::after(30s));
  EXPECT_EQ(host_of_next(listener), "127.0.0.1");
  if (listener.address().family() != AF_INET6) GTEST_SKIP() << "this kernel has no IPv6";
  const Address own = resolve({"::1", 0}, Deadline::never())[0];
  const UniqueFd probe(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::bind(probe.get(), own.data(), own.size()) != 0) GTEST_SKIP() << "no interface has ::1";
  const UniqueFd v6 = connect_to({"::1", listener.port()}, Deadline::after(30s));
  EXPECT_EQ(host_of_next(listener), "::1");
}

TEST(Socket, RefusedConnectionNamesTheAddressAndThePurpose) {
  const ClosedPort closed;
  EXPECT_THAT(
      error_of(
          ErrorKind::kConnection,
          [&] { connect_to(closed.endpoint(), Deadline::after(30s), {.what_for = "the store"}); }),
      ::testing::AllOf(HasSubstr("connect to " + closed.endpoint().text() + " for the store"),
                       HasSubstr("Connection refused")));
}

TEST(Socket, RetriesUntilAServerListensOrTheDeadlinePasses) {
  const ClosedPort closed;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(
      error_of(ErrorKind::kTimeout,
               [&] { connect_to(closed.endpoint(), Deadline::after(100ms), {.retry = true}); }),
      HasSubstr("gave up at the deadline: Connection refused"));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 100ms);

  UniqueFd connected;
  std::thread client(
      [&] { connected = connect_to(closed.endpoint(), Deadline::after(30s), {.retry = true}); });
  closed.listen();
  client.join();
  EXPECT_TRUE(connected);
}

TEST(Socket, TakenPortIsSaid) {
  const Listener listener = Listener::bind({.host = "127.0.0.1"});
  EXPECT_THAT(error_of(ErrorKind::kConnection,
                       [&] { Listener::bind({.host = "127.0.0.1", .port = listener.port()}); }),
              ::testing::AllOf(HasSubstr("listen on " + listener.address().text()),
                               HasSubstr("Address already in use; another program has this port")));
  EXPECT_THAT(error_of(ErrorKind::kNotFound, [] { Listener::bind({.host = "240.0.0.1"}); }),
              HasSubstr("no network interface of this host"));
}

TEST(Socket, InheritedListenerMustListen) {
  Listener first = Listener::bind({.host = "127.0.0.1"});
  const Address address = first.address();
  Listener second = Listener::from_fd(first.release());
  EXPECT_EQ(second.address(), address);
  const UniqueFd client = connect_to({"127.0.0.1", second.port()}, Deadline::after(30s));
  EXPECT_TRUE(accept_from(second).has_value());

  EXPECT_THAT(
      error_of(ErrorKind::kInvalidArgument,
               [] { Listener::from_fd(UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC))); }),
      HasSubstr("is not a listening socket"));
}

TEST(LocalSocket, SaysThatAPassedDescriptorWasLost) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd near(ends[0]);
  const UniqueFd far(ends[1]);
  const std::byte word{7};
  std::byte got{};
  const auto pass = [&] {
    EXPECT_TRUE(send_passing(near.get(), std::span(&word, 1), near.get()));
    return receive_passing(far.get(), std::span(&got, 1));
  };
  const Received whole = pass();
  EXPECT_TRUE(whole.passed && !whole.lost_passed);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const Received lost = pass();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(!lost.passed && lost.lost_passed && lost.bytes == 1);
}

}  // namespace
}  // namespace dl::rendezvous
