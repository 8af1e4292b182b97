#include "collectives/init/checkpoint/checkpoint.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>
#include <optional>
#include <string>

#include "collectives/init/checkpoint/preemption_signals.h"
#include "core/base/deadline.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/checkpoint_page.h"
#include "rendezvous/net/socket/local_socket.h"

namespace dl {
namespace {

using detail::Deadline;

using rendezvous::CheckpointPage;

// One for a process, and never destroyed, because a signal may arrive at any time.
class CheckpointClient {
 public:
  explicit CheckpointClient(const std::string& name) {
    const Deadline deadline = patience();
    socket_ = rendezvous::connect_local(name, deadline);
    rendezvous::check_same_user(socket_.get());
    const std::string who = fmt::format("{}\n", env::require_int(env::Var::kLocalRank));
    DL_CHECK(rendezvous::send_passing(socket_.get(), std::as_bytes(std::span(who))), kConnection,
             "should_checkpoint: dlrun is gone");
    std::array<std::byte, 1> hello;
    auto received = receive(hello, deadline, 0);
    DL_CHECK(received.passed, kIo, "should_checkpoint: dlrun's memory did not arrive{}",
             received.lost_passed ? ": this process has too many files open (ulimit -n)" : "");
    void* const memory = ::mmap(nullptr, rendezvous::kCheckpointPageBytes, PROT_READ | PROT_WRITE,
                                MAP_SHARED, received.passed.get(), 0);
    if (memory == MAP_FAILED) throw_errno(errno, "should_checkpoint: map dlrun's memory");
    page_ = static_cast<CheckpointPage*>(memory);
  }

  CheckpointPage* page() const { return page_; }

  bool call() {
    const Lock lock(mutex_);
    if (::getpid() != owner_) return false;
    const std::uint64_t call = ++calls_;
    // Sequentially consistent with dlrun, which stores `requested` and then reads `calls`: either
    // this rank sees the request at this call, or dlrun sees the call and chooses a later one.
    page_->calls.store(call, std::memory_order_seq_cst);
    if (page_->requested.load(std::memory_order_seq_cst) == 0) return false;
    if (!stop_) stop_ = answer(call);
    return call >= *stop_;
  }

 private:
  static Deadline patience() {
    return Deadline::after(std::chrono::seconds(env::get_int(env::Var::kTimeout).value_or(600)));
  }

  rendezvous::Received receive(std::span<std::byte> bytes, Deadline deadline, std::uint64_t call) {
    for (;;) {
      auto received = rendezvous::receive_passing(socket_.get(), bytes);
      if (received.bytes > 0) return received;
      DL_CHECK(!received.ended, kConnection, "should_checkpoint #{}: dlrun is gone", call);
      DL_CHECK(!deadline.has_passed(), kTimeout,
               "should_checkpoint #{}: dlrun has not said at which call the ranks save; does it "
               "run? (DLRUN_TIMEOUT sets this deadline)",
               call);
      pollfd entry{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      ::poll(&entry, 1, deadline.poll_timeout());
    }
  }

  // Reads a line with the number of the call at which all ranks save.
  std::uint64_t answer(std::uint64_t call) {
    const Deadline deadline = patience();
    std::string line;
    while (line.empty() || line.back() != '\n') {
      std::array<std::byte, 32> part;
      const auto received = receive(part, deadline, call);
      line.append(reinterpret_cast<const char*>(part.data()), received.bytes);
    }
    std::uint64_t stop = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), stop);
    DL_CHECK(error == std::errc() && *end == '\n', kParse,
             "should_checkpoint #{}: dlrun's answer is not a number", call);
    return stop;
  }

  Mutex mutex_;
  const pid_t owner_ = ::getpid();
  UniqueFd socket_;
  CheckpointPage* page_ = nullptr;
  std::uint64_t calls_ DL_GUARDED_BY(mutex_) = 0;
  std::optional<std::uint64_t> stop_ DL_GUARDED_BY(mutex_);
};

// Null if dlrun did not start this process, or the job cannot be asked to save.
CheckpointClient* client_of_process() {
  static CheckpointClient* const client = []() -> CheckpointClient* {
    const auto name = env::get(env::Var::kCheckpoint);
    return name ? std::make_unique<CheckpointClient>(*name).release() : nullptr;
  }();
  return client;
}

std::atomic<const CheckpointPage*> page_of_signals{nullptr};
static_assert(std::atomic<const CheckpointPage*>::is_always_lock_free);

// Ignores SLURM's signal: dlrun decides what it means. dlrun's own signal ends this rank as it
// would without this handler.
extern "C" void dl_on_termination(int signal) {
  const CheckpointPage* const page = page_of_signals.load();
  if (page == nullptr || page->ends.load() == 0) return;
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // delivered when this handler returns
}

extern "C" void dl_on_user_signal(int) {}

void handle_unless_handled(int signal, void (*handler)(int)) {
  struct sigaction now{};
  if (::sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 ||
      now.sa_handler != SIG_DFL) {
    return;  // the program handles the signal itself
  }
  struct sigaction mine{};
  mine.sa_handler = handler;
  mine.sa_flags = SA_RESTART;
  ::sigaction(signal, &mine, nullptr);
}

}  // namespace

bool should_checkpoint() {
  CheckpointClient* const client = client_of_process();
  return client != nullptr && client->call();
}

void outlive_signals_of_preemption() {
  CheckpointClient* const client = client_of_process();
  if (client == nullptr) return;
  page_of_signals.store(client->page());
  handle_unless_handled(SIGTERM, dl_on_termination);
  handle_unless_handled(SIGUSR1, dl_on_user_signal);
}

}  // namespace dl
