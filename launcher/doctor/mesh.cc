#include "launcher/doctor/mesh.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/system/unique_fd.h"
#include "core/base/text/number.h"
#include "launcher/cli/table/readers.h"
#include "rendezvous/net/socket/address.h"
#include "rendezvous/net/socket/attempt.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::launcher::doctor {
namespace {

using Json = nlohmann::ordered_json;
using rendezvous::Deadline;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kTokenBytes = 16;
constexpr std::size_t kMessageBytes = 24;  // the token, and the sender's number in 8 digits
constexpr int kRoundTrips = 20;
constexpr std::chrono::seconds kPatienceWithPeer{2};
constexpr std::chrono::milliseconds kBetweenTries{100};
using Message = std::array<char, kMessageBytes>;

bool receive(int fd, Message& message, Deadline deadline) {
  std::size_t done = 0;
  while (done < message.size()) {
    if (deadline.has_passed()) return false;
    if (!rendezvous::poll_one(fd, POLLIN, deadline, -1)) continue;
    const ssize_t n = ::recv(fd, message.data() + done, message.size() - done, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return true;
}
// A message always fits into the socket's buffer.
bool send_whole(int fd, const Message& message) {
  return ::send(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(message.size());
}

class Mesh {
 public:
  Mesh(const MeshQuestion& question, std::chrono::milliseconds window)
      : question_(question), deadline_(Deadline::after(window)), heard_(question.hosts.size()) {
    heard_[question.self] = true;
    const std::string text = fmt::format("{}{:08}", question.token, question.self);
    std::copy_n(text.begin(), std::min(text.size(), own_.size()), own_.begin());
  }

  MeshAnswer run() {
    MeshAnswer answer;
    std::optional<rendezvous::Listener> listener;
    try {
      listener = rendezvous::Listener::bind({.host = {}, .port = question_.port});
    } catch (const Error& error) {
      answer.error = error.what();
    }
    std::vector<MeshLink> links(question_.hosts.size());
    {
      std::vector<std::jthread> callers;
      for (std::size_t i = 0; i < links.size(); ++i) {
        links[i].to = question_.hosts[i].name;
        if (i == question_.self) continue;
        callers.emplace_back([this, i, &link = links[i]] { call(question_.hosts[i], link); });
      }
      if (listener) serve(*listener);
    }
    links.erase(links.begin() + static_cast<std::ptrdiff_t>(question_.self));
    answer.links = std::move(links);
    return answer;
  }

 private:
  // The other host may come late. So each of its addresses is tried until the window ends.
  void call(const MeshHost& host, MeshLink& link) {
    link.was_tried = !host.addresses.empty();
    while (link.was_tried && !deadline_.has_passed()) {
      for (const std::string& address : host.addresses) {
        if (try_address(address, link)) return;
      }
      ::poll(nullptr, 0, static_cast<int>(kBetweenTries.count()));
    }
  }

  bool try_address(const std::string& address, MeshLink& link) {
    const Deadline deadline = Deadline::earlier(deadline_, Deadline::after(kPatienceWithPeer));
    UniqueFd fd;
    rendezvous::Obstacle obstacle;
    try {
      fd = rendezvous::try_addresses({address, question_.port}, deadline, /*hangup_fd=*/-1,
                                     obstacle);
      if (fd) rendezvous::tune_connection(fd.get());
    } catch (const Error& error) {
      fd.reset();
      obstacle.text = error.what();
    }
    if (!fd) {
      link.error = obstacle.text;
      return false;
    }
    double least = 0;
    for (int i = 0; i < kRoundTrips; ++i) {
      const auto began = Clock::now();
      Message echo{};
      if (!send_whole(fd.get(), own_) || !receive(fd.get(), echo, deadline) || echo != own_) {
        link.error = "another program answers at this port";
        return false;
      }
      const double us = std::chrono::duration<double, std::micro>(Clock::now() - began).count();
      least = i == 0 ? us : std::min(least, us);
    }
    link.address = address;
    link.round_trip_us = least;
    link.error.clear();
    return true;
  }

  // Echoes the messages of each peer, one peer after the other.
  void serve(rendezvous::Listener& listener) {
    while (!deadline_.has_passed() && std::ranges::find(heard_, false) != heard_.end()) {
      if (!rendezvous::poll_one(listener.fd(), POLLIN, deadline_, -1)) continue;
      const auto accepted = listener.accept();
      if (!accepted) continue;
      const int peer = accepted->fd.get();
      rendezvous::tune_connection(peer);
      const Deadline deadline = Deadline::earlier(deadline_, Deadline::after(kPatienceWithPeer));
      int echoed = 0;
      Message message{};
      std::optional<std::size_t> sender;
      while (echoed < kRoundTrips && receive(peer, message, deadline)) {
        const std::string_view text(message.data(), message.size());
        sender = read_number<std::size_t>(without_zeros(text.substr(kTokenBytes)));
        if (!text.starts_with(question_.token) || !sender || *sender >= heard_.size() ||
            !send_whole(peer, message)) {
          sender.reset();
          break;
        }
        ++echoed;
      }
      if (sender && echoed == kRoundTrips) heard_[*sender] = true;
    }
  }

  static std::string_view without_zeros(std::string_view digits) {
    const std::size_t begin = digits.find_first_not_of('0');
    return begin == std::string_view::npos ? digits.substr(0, 1) : digits.substr(begin);
  }

  const MeshQuestion& question_;
  Deadline deadline_;
  Message own_{};
  std::vector<bool> heard_;  // by host
};

}  // namespace

std::string text_of(const MeshQuestion& question) {
  std::vector<std::string> hosts;
  for (const MeshHost& host : question.hosts) {
    hosts.push_back(fmt::format("{}={}", host.name, fmt::join(host.addresses, "+")));
  }
  return fmt::format("{}/{}/{}/{}", question.port, question.token, question.self,
                     fmt::join(hosts, ","));
}

MeshQuestion read_question(std::string_view text) {
  const std::vector<std::string> parts = read::split(text, '/');
  const auto port = read_number<std::uint16_t>(parts.front());
  const auto self = parts.size() == 4 ? read_number<std::size_t>(parts[2]) : std::nullopt;
  DL_CHECK(port && *port > 0 && self && parts[1].size() == kTokenBytes, kInvalidArgument,
           "doctor: --mesh is what `dlrun doctor --hosts` asks of a host, and not for people");
  MeshQuestion question{.port = *port, .token = parts[1], .self = *self, .hosts = {}};
  for (const std::string& entry : read::split(parts[3], ',')) {
    const std::size_t equals = entry.find('=');
    MeshHost host{.name = entry.substr(0, equals), .addresses = {}};
    if (equals != std::string::npos && equals + 1 < entry.size()) {
      host.addresses = read::split(std::string_view(entry).substr(equals + 1), '+');
    }
    question.hosts.push_back(std::move(host));
  }
  DL_CHECK(question.self < question.hosts.size(), kInvalidArgument,
           "doctor: --mesh names host {} of {}", question.self, question.hosts.size());
  return question;
}

MeshAnswer meet(const MeshQuestion& question, std::chrono::milliseconds window) {
  return Mesh(question, window).run();
}

std::string json_text(const MeshAnswer& answer) {
  Json links = Json::array();
  for (const MeshLink& link : answer.links) {
    links.push_back({{"to", link.to},
                     {"address", link.address},
                     {"error", link.error},
                     {"was_tried", link.was_tried},
                     {"round_trip_us", link.round_trip_us}});
  }
  return Json{{"error", answer.error}, {"links", std::move(links)}}.dump(
      2, ' ', false, Json::error_handler_t::replace);
}

std::optional<MeshAnswer> read_answer(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    MeshAnswer answer{.error = json.at("error").get<std::string>(), .links = {}};
    for (const Json& one : json.at("links")) {
      answer.links.push_back({.to = one.at("to").get<std::string>(),
                              .address = one.at("address").get<std::string>(),
                              .error = one.at("error").get<std::string>(),
                              .was_tried = one.at("was_tried").get<bool>(),
                              .round_trip_us = one.at("round_trip_us").get<double>()});
    }
    return answer;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace dl::launcher::doctor
