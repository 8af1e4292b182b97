#include "launcher/srun/step_key.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/thread.h"
#include "core/base/system/unique_fd.h"
#include "launcher/cli/slurm_line.h"
#include "launcher/slurm/allocation.h"
#include "launcher/slurm/munge.h"
#include "rendezvous/net/handshake/job_key.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kMostSealed = 4096;
// How long to wait for the key after the first node has accepted the connection.
constexpr std::chrono::seconds kPatienceWithFirst{10};
constexpr std::chrono::seconds kMostLife{3600};

// A first node without MUNGE sends this.
constexpr std::string_view kNone = "NONE";

// Names the step, so that another step's key is refused.
std::string head_of(const SlurmStep& step) {
  return "dlrun-key " + step.name() + " ";
}

std::string read_all(int fd) {
  const rendezvous::Deadline deadline = rendezvous::Deadline::after(kPatienceWithFirst);
  std::string text;
  while (text.size() <= kMostSealed) {
    std::array<char, 1024> part;
    const ssize_t n = ::recv(fd, part.data(), part.size(), MSG_DONTWAIT);
    if (n == 0) break;
    if (n > 0) {
      text.append(part.data(), static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      DL_CHECK(!deadline.has_passed(), kTimeout, "the first node has not given the job's key");
      pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
      ::poll(&ready, 1, deadline.poll_timeout());
    } else if (errno != EINTR) {
      throw_errno(errno, "receive the job's key from the first node");
    }
  }
  return text;
}

// Runs on the first node. `life`: how long other nodes may ask.
class StepKey : public KeyGiver {
 public:
  StepKey(const SlurmStep& step, std::chrono::seconds life);
  ~StepKey() override;
  StepKey(const StepKey&) = delete;
  StepKey& operator=(const StepKey&) = delete;

  // nullopt: there is no MUNGE to seal the key.
  const std::optional<rendezvous::JobKey>& key() const { return key_; }
  void serve() override {
    thread_ = make_thread("the server of the job's key", [this] { run(); });
  }

 private:
  void run();

  std::optional<rendezvous::JobKey> key_;
  rendezvous::Listener listener_;
  std::string sealed_;
  UniqueFd wake_;
  std::thread thread_;
};

StepKey::StepKey(const SlurmStep& step, std::chrono::seconds life)
    : listener_(rendezvous::Listener::bind(
          {.port = rendezvous::Endpoint::parse(step.key_endpoint()).port})),
      sealed_(kNone),
      wake_(::eventfd(0, EFD_CLOEXEC)) {
  if (!wake_) throw_errno(errno, "eventfd");
  if (!has_munge()) return;
  key_ = rendezvous::JobKey::generate();
  sealed_ = munge_seal(head_of(step) + key_->hex(), std::min(life, kMostLife));
}

StepKey::~StepKey() {
  if (!thread_.joinable()) return;
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

void StepKey::run() {
  for (;;) {
    pollfd ready[] = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                      {.fd = listener_.fd(), .events = POLLIN, .revents = 0}};
    ::poll(ready, 2, -1);
    if (ready[0].revents != 0) return;
    try {
      // The send buffer of a new connection has room for the credential.
      if (auto caller = listener_.accept()) {
        [[maybe_unused]] const ssize_t n =
            ::send(caller->fd.get(), sealed_.data(), sealed_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      }
    } catch (const std::exception&) {
      // No descriptor is free: the caller tries again.
      pollfd pause{.fd = wake_.get(), .events = POLLIN, .revents = 0};
      ::poll(&pause, 1, 100);
    }
  }
}

// Waits for the first node until `patience` is over. nullopt: it has no MUNGE.
std::optional<rendezvous::JobKey> fetch_step_key(const SlurmStep& step,
                                                 std::chrono::milliseconds patience) {
  const rendezvous::Deadline deadline = rendezvous::Deadline::after(patience);
  std::string sealed;
  while (sealed.empty()) {  // a first node without a free descriptor says nothing
    const UniqueFd first =
        rendezvous::connect_to(rendezvous::Endpoint::parse(step.key_endpoint()), deadline,
                               {.retry = true, .what_for = "the job's key"});
    sealed = read_all(first.get());
  }
  if (sealed == kNone) return std::nullopt;
  DL_CHECK(has_munge(), kNotFound,
           "host {} has no MUNGE (its library, and a munged), by which {} gives out the job's key; "
           "install it there, or "
           "give --key-file on all nodes",
           step.hosts[static_cast<std::size_t>(step.node)], step.hosts.front());
  const std::string text = munge_open(sealed);
  const std::string head = head_of(step);
  DL_CHECK(text.starts_with(head), kAuthentication,
           "{} gave the key of another job; give one in --key-file", step.key_endpoint());
  return rendezvous::JobKey::from_hex(text.substr(head.size()));
}

// nullopt: each node uses the user's own key file.
void use_key(const std::optional<rendezvous::JobKey>& key) {
  if (!key) return;
  // job_secret() reads it. Ranks get a descriptor of their own.
  env::set(std::string(env::name_of(env::Var::kKeyFd)), std::to_string(key->to_memfd().release()));
}

}  // namespace

std::unique_ptr<KeyGiver> key_of_step(const Options& options, CommandLine) {
  if (!needs_step_key(options)) return nullptr;
  const std::optional<SlurmStep> step = slurm_step();
  if (step->node > 0) {
    use_key(fetch_step_key(*step, options.meet.join_timeout));
    return nullptr;
  }
  auto made = std::make_unique<StepKey>(
      *step, std::chrono::duration_cast<std::chrono::seconds>(options.meet.join_timeout));
  use_key(made->key());
  return made;
}

}  // namespace dl::launcher
