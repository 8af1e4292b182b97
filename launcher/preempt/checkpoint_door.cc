#include "launcher/preempt/checkpoint_door.h"

#include <fmt/core.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/socket/local_socket.h"

namespace dl::launcher {
namespace {

using boost::asio::posix::stream_descriptor;
using rendezvous::CheckpointPage;
using rendezvous::kCheckpointPageBytes;

}  // namespace

struct CheckpointDoor::Client {
  Client(boost::asio::io_context& io, UniqueFd fd) : socket(io, fd.release()) {}
  ~Client() {
    if (page != nullptr) ::munmap(page, kCheckpointPageBytes);
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  stream_descriptor socket;
  std::string said;
  int local_rank = -1;
  CheckpointPage* page = nullptr;  // null: it has not said who it is
};

CheckpointDoor::CheckpointDoor(boost::asio::io_context& io, std::vector<int> ranks)
    : io_(io), ranks_(std::move(ranks)), listener_(io) {
  rendezvous::Listener listener = rendezvous::listen_local();
  name_ = rendezvous::local_name(listener.fd());
  listener_.assign(listener.release().release());
  wait();
}

// Closes the sockets, because a pending handler keeps its client.
CheckpointDoor::~CheckpointDoor() {
  boost::system::error_code ignored;
  for (const auto& client : clients_) {
    [[maybe_unused]] const auto same = client->socket.close(ignored);
  }
}

void CheckpointDoor::wait() {
  listener_.async_wait(stream_descriptor::wait_read, [this, alive = std::weak_ptr(alive_)](
                                                         const boost::system::error_code& error) {
    if (error || alive.expired()) return;
    accept();
    wait();
  });
}

void CheckpointDoor::accept() {
  for (;;) {
    UniqueFd fd(
        ::accept4(listener_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) return;  // none is left, or one has gone again
    try {
      rendezvous::check_same_user(fd.get());
    } catch (const Error&) {
      continue;  // any user's process can connect to an abstract name
    }
    wait_for_name(clients_.emplace_back(std::make_shared<Client>(io_, std::move(fd))));
  }
}

// Also waits for the client's end: a client sends its name and nothing more.
void CheckpointDoor::wait_for_name(const std::shared_ptr<Client>& client) {
  client->socket.async_wait(
      stream_descriptor::wait_read,
      [this, client, alive = std::weak_ptr(alive_)](const boost::system::error_code& error) {
        if (error || alive.expired()) return;
        if (admit(*client)) {
          wait_for_name(client);
        } else if (client->page == nullptr) {
          clients_.remove(client);
        } else {
          // Keeps the client: its calls count even after its end.
          boost::system::error_code ignored;
          [[maybe_unused]] const auto same = client->socket.close(ignored);
        }
      });
}

bool CheckpointDoor::admit(Client& client) {
  std::array<char, 64> part;
  const ssize_t n = ::recv(client.socket.native_handle(), part.data(), part.size(), MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (n == 0 || client.page != nullptr) return false;
  client.said.append(part.data(), static_cast<std::size_t>(n));
  const std::size_t end = client.said.find('\n');
  if (end == std::string::npos) return client.said.size() < part.size();
  const auto [stop, error] =
      std::from_chars(client.said.data(), client.said.data() + end, client.local_rank);
  if (error != std::errc() || stop != client.said.data() + end || client.local_rank < 0 ||
      client.local_rank >= std::ssize(ranks_)) {
    return false;
  }
  const UniqueFd memory(::memfd_create("dlrun-checkpoint", MFD_CLOEXEC));
  if (!memory || ::ftruncate(memory.get(), kCheckpointPageBytes) != 0) return false;
  void* const page =
      ::mmap(nullptr, kCheckpointPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
  if (page == MAP_FAILED) return false;
  client.page = static_cast<CheckpointPage*>(page);
  client.page->requested.store(requested_ ? 1 : 0);
  client.page->ends.store(ends_ ? 1 : 0);
  const std::array hello = {std::byte{rendezvous::kCheckpointHello}};
  if (!rendezvous::send_passing(client.socket.native_handle(), hello, memory.get())) return false;
  if (answer_) say_answer(client);
  return true;
}

void CheckpointDoor::say_answer(Client& client) const {
  const std::string line = fmt::format("{}\n", *answer_);
  if (client.socket.is_open()) {
    rendezvous::send_passing(client.socket.native_handle(), std::as_bytes(std::span(line)));
  }
}

void CheckpointDoor::request() {
  requested_ = true;
  for (const auto& client : clients_) {
    if (client->page != nullptr) client->page->requested.store(1, std::memory_order_seq_cst);
  }
  // For Python programs, which store and load without a memory barrier.
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
}

void CheckpointDoor::answer(std::uint64_t call) {
  answer_ = call;
  for (const auto& client : clients_) {
    if (client->page != nullptr) say_answer(*client);
  }
}

void CheckpointDoor::announce_end() {
  ends_ = true;
  for (const auto& client : clients_) {
    if (client->page != nullptr) client->page->ends.store(1, std::memory_order_seq_cst);
  }
}

std::vector<RankCalls> CheckpointDoor::calls() const {
  std::vector<RankCalls> calls;
  for (const int rank : ranks_) calls.push_back({.rank = rank});
  for (const auto& client : clients_) {
    if (client->page == nullptr) continue;
    std::uint64_t& most = calls[static_cast<std::size_t>(client->local_rank)].calls;
    most = std::max(most, client->page->calls.load(std::memory_order_seq_cst));
  }
  return calls;
}

}  // namespace dl::launcher
