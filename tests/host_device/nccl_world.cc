#include "tests/host_device/nccl_world.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <utility>

namespace dl::host_device::nccl {
namespace {

constexpr std::uint64_t kRing = 1 << 16;
constexpr std::uint32_t kSender = 1, kReceiver = 2, kBoth = 3;

// What stands before the bytes of a transfer.
struct Label {
  std::uint64_t bytes = 0;
  std::uint64_t what = 0;
  bool operator==(const Label&) const = default;
};

struct Id {
  int process = 0, file = -1;
  std::string name{};
};

std::string text_of(const Id& id) {
  return std::to_string(id.process) + " " + std::to_string(id.file) + " " + id.name;
}

bool parse(const std::string& text, Id& id) {
  char name[64];
  if (std::sscanf(text.c_str(), "%d %d %63s", &id.process, &id.file, name) != 3) return false;
  id.name = name;
  return true;
}

// The ids that this process has made and holds a file of.
struct Made {
  std::mutex mutex;
  std::set<std::string> ids;
};
Made& made() {
  static Made& all = *new Made;
  return all;
}

void close_made(const std::string& text) {
  Made& all = made();
  const std::lock_guard lock(all.mutex);
  Id id;
  if (all.ids.erase(text) != 0 && parse(text, id)) ::close(id.file);
}

}  // namespace

struct alignas(64) World::Header {
  std::atomic<std::uint32_t> event;  // counts what anybody might wait for
  std::atomic<int> size;
  std::atomic<int> joined;
};
struct alignas(64) World::Rank {
  std::atomic<bool> is_here, has_left;
  std::atomic<bool> is_connected;  // for collectives
  int device;
  int process;
  std::array<char, 128> host;
};
struct alignas(64) World::Channel {
  std::atomic<std::uint32_t> connected;
  std::atomic<std::uint64_t> given, taken;  // bytes so far
  std::array<std::byte, kRing> ring;
};

struct World::Moving {
  Transfer transfer;
  Label label{};
  std::uint64_t done = 0;  // bytes of the label and then of the data
  bool is_over = false;

  // The next bytes of it that lie together.
  std::pair<std::byte*, std::uint64_t> rest() {
    if (done < sizeof label)
      return {reinterpret_cast<std::byte*>(&label) + done, sizeof label - done};
    const std::uint64_t at = done - sizeof label;
    return {transfer.data + at, transfer.bytes - at};
  }
};

std::string make_id() {
  std::random_device random;
  char name[32];
  std::snprintf(name, sizeof name, "nccl-%08x%08x", random(), random());
  const Id id{.process = ::getpid(), .file = ::memfd_create(name, MFD_CLOEXEC), .name = name};
  // A page holds what the first of the ranks looks at.
  if (id.file < 0 || ::ftruncate(id.file, ::sysconf(_SC_PAGESIZE)) != 0) return {};
  std::string text = text_of(id);
  Made& all = made();
  const std::lock_guard lock(all.mutex);
  all.ids.insert(text);
  return text;
}

World::~World() {
  for (const auto& [rank, file] : processes_) {
    if (file >= 0) ::close(file);
  }
  if (std::byte* const memory = memory_) ::munmap(memory, bytes_of(size_));
}

std::size_t World::bytes_of(int size) noexcept {
  const auto n = static_cast<std::size_t>(size);
  return sizeof(Header) + n * sizeof(Rank) + n * n * sizeof(Channel);
}
World::Header& World::header() const noexcept {
  return *reinterpret_cast<Header*>(memory_.load());
}
World::Rank& World::of(int rank) const noexcept {
  return reinterpret_cast<Rank*>(memory_.load() + sizeof(Header))[rank];
}
World::Channel& World::channel(int from, int to) const noexcept {
  auto* const first = reinterpret_cast<Channel*>(memory_.load() + sizeof(Header) +
                                                 static_cast<std::size_t>(size_) * sizeof(Rank));
  return first[from * size_ + to];
}

bool World::map(const std::string& id) {
  Id from;
  if (!parse(id, from)) return false;
  const std::string path =
      "/proc/" + std::to_string(from.process) + "/fd/" + std::to_string(from.file);
  // The process may be gone or have closed it, and the number be another's.
  char target[128] = {};
  if (::readlink(path.c_str(), target, sizeof target - 1) < 0) return false;
  if (target != "/memfd:" + from.name + " (deleted)") return false;
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  const std::size_t bytes = bytes_of(size_);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory != MAP_FAILED) {
    memory_ = static_cast<std::byte*>(memory);
    int agreed = 0;
    header().size.compare_exchange_strong(agreed, size_);
    if ((agreed == 0 || agreed == size_) && ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
      memory_ = nullptr;
      ::munmap(memory, bytes);
    }
  }
  ::close(file);
  return memory_ != nullptr;
}

Joined World::join(const std::string& id, int device, const std::string& host) {
  if (!map(id)) return Joined::kNobodyThere;
  // Ranks that say different sizes, or the same rank twice: NCCL leaves them waiting.
  if (header().size == size_ && !of(rank_).is_here.exchange(true)) {
    is_in_ = true;
    of(rank_).device = device;
    of(rank_).process = ::getpid();
    host.copy(of(rank_).host.data(), of(rank_).host.size() - 1);
    ++header().joined;
    signal();
    wait([this] { return header().joined == size_; });
  } else {
    wait([] { return false; });
  }
  close_made(id);
  if (aborted_) return Joined::kAborted;
  watch_processes();
  const auto is_shared = [this](int a, int b) {
    return a != b && of(a).device == of(b).device && of(a).host == of(b).host;
  };
  Joined found = Joined::kYes;
  for (int a = 0; a < size_; ++a) {
    for (int b = 0; b < a; ++b) {
      if (!is_shared(a, b)) continue;
      if (a == rank_ || b == rank_) return Joined::kSharesDevice;
      found = Joined::kOthersShareDevice;
    }
  }
  return found;
}

void World::watch_processes() {
  for (int r = 0; r < size_; ++r) {
    if (of(r).process == ::getpid()) continue;
    const auto file = static_cast<int>(::syscall(SYS_pidfd_open, of(r).process, 0));
    processes_.emplace_back(r, file);  // -1: it has ended already
  }
}

bool World::has_lost_a_rank() const {
  return std::ranges::any_of(processes_, [this](const auto& process) {
    pollfd ended{.fd = process.second, .events = POLLIN, .revents = 0};
    return !of(process.first).has_left && (process.second < 0 || ::poll(&ended, 1, 0) > 0);
  });
}

bool World::wait(const std::function<bool()>& is_over) {
  while (true) {
    const std::uint32_t seen = header().event;
    if (aborted_) return false;
    if (is_over()) return true;
    ::syscall(SYS_futex, &header().event, FUTEX_WAIT, seen, nullptr, nullptr, 0);
  }
}

void World::signal() noexcept {
  ++header().event;
  ::syscall(SYS_futex, &header().event, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void World::abort() noexcept {
  aborted_ = true;
  if (memory_ != nullptr) signal();
}

bool World::connect_all() {
  if (!of(rank_).is_connected.exchange(true)) signal();
  return wait([this] {
    for (int r = 0; r < size_; ++r) {
      if (!of(r).is_connected) return false;
    }
    return true;
  });
}

bool World::connect(const std::vector<Transfer>& transfers) {
  const auto channel_of = [this](const Transfer& t) -> Channel& {
    return t.sends ? channel(rank_, t.peer) : channel(t.peer, rank_);
  };
  for (const Transfer& t : transfers) channel_of(t).connected |= t.sends ? kSender : kReceiver;
  signal();
  return wait([&] {
    return std::ranges::all_of(transfers,
                               [&](const Transfer& t) { return channel_of(t).connected == kBoth; });
  });
}

// Returns whether something has moved.
bool World::advance(Moving& moving) {
  const bool sends = moving.transfer.sends;
  Channel& c = sends ? channel(rank_, moving.transfer.peer) : channel(moving.transfer.peer, rank_);
  std::atomic<std::uint64_t>& own = sends ? c.given : c.taken;
  const std::uint64_t before = own;
  const std::uint64_t other = sends ? c.taken : c.given;
  std::uint64_t free = sends ? kRing - (before - other) : other - before;
  const std::uint64_t total = sizeof(Label) + moving.transfer.bytes;
  const Label wanted{moving.transfer.bytes, moving.transfer.what};
  std::uint64_t at = before;
  while (free > 0 && moving.done < total) {
    if (!sends && moving.done == sizeof(Label) && moving.label != wanted) break;
    const auto [data, left] = moving.rest();
    const std::uint64_t n = std::min({free, left, kRing - at % kRing});
    std::byte* const ring = c.ring.data() + at % kRing;
    sends ? std::memcpy(ring, data, n) : std::memcpy(data, ring, n);
    at += n;
    free -= n;
    moving.done += n;
  }
  own = at;
  moving.is_over = moving.done == total && (sends ? other == at : moving.label == wanted);
  return at != before || moving.is_over;
}

bool World::run(std::vector<Transfer> transfers) {
  std::vector<Moving> all;
  for (const Transfer& t : transfers) {
    all.push_back({.transfer = t});
    if (t.sends) all.back().label = {t.bytes, t.what};
  }
  const auto n = static_cast<std::size_t>(size_);
  return wait([&] {
    bool moved = true;
    while (moved && !all.empty() && !aborted_) {
      moved = false;
      std::vector<bool> is_taken(2 * n);
      for (Moving& moving : all) {
        const std::size_t line =
            static_cast<std::size_t>(moving.transfer.peer) + (moving.transfer.sends ? n : 0);
        if (!is_taken[line]) moved |= advance(moving);
        is_taken[line] = true;
      }
      std::erase_if(all, [](const Moving& moving) { return moving.is_over; });
      if (moved) signal();
    }
    return all.empty();
  });
}

void World::leave() {
  if (!is_in_) return;
  of(rank_).has_left = true;
  signal();
}

void World::wait_for_neighbours() {
  wait([this] {
    for (int r = 0; r < size_; ++r) {
      const bool was_connected = (of(rank_).is_connected && of(r).is_connected) ||
                                 channel(rank_, r).connected == kBoth ||
                                 channel(r, rank_).connected == kBoth;
      if (r != rank_ && was_connected && of(r).host == of(rank_).host && !of(r).has_left) {
        return false;
      }
    }
    return true;
  });
}

}  // namespace dl::host_device::nccl
