// What the ranks of a communicator share: memory through which their bytes go.
//
// Every two ranks have a channel each way, a ring of bytes. All that waits does so for the one
// event of the shared memory, and until abort(), also if the others are gone: what NCCL does on one
// machine. has_lost_a_rank() is what NCCL learns by its sockets. A World is one rank's view, of one
// process or of many. Thread-safety: any thread may call abort(); run() one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dl::host_device::nccl {

// Bytes for a rank or from one. `what` says of which call they are: those of another are never
// taken, as ranks that make different calls wait for ever.
struct Transfer {
  bool sends = false;
  int peer = 0;
  std::byte* data = nullptr;  // only read if it sends
  std::uint64_t bytes = 0;
  std::uint64_t what = 0;
};

// Shared memory without a name in any folder, so that nothing is left behind: other processes find
// it as a file of this one, until all ranks are there. Empty: there is none.
std::string make_id();

enum class Joined : std::uint8_t {
  kYes,
  kAborted,
  kNobodyThere,
  kSharesDevice,
  kOthersShareDevice
};

class World {
 public:
  World(int size, int rank) : size_(size), rank_(rank) {}
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int size() const noexcept { return size_; }
  int rank() const noexcept { return rank_; }

  // Waits for all ranks. Those of one `host` must have different devices.
  Joined join(const std::string& id, int device, const std::string& host);

  // NCCL connects ranks when they call together for the first time, and waits for that on the host:
  // all of them for a collective. False: aborted.
  bool connect_all();
  bool connect(const std::vector<Transfer>& transfers);
  // Moves all at a time, but those of a channel in order; a send is over when the other has it.
  // False: aborted.
  bool run(std::vector<Transfer> transfers);

  // This rank needs the others no longer.
  void leave();
  // Until those of this host that it was connected with have left, whom NCCL goes on to serve.
  void wait_for_neighbours();
  void abort() noexcept;
  // True if a rank's process has ended before the rank left. Not before join() has returned.
  bool has_lost_a_rank() const;

 private:
  struct Header;
  struct Rank;
  struct Channel;
  struct Moving;

  static std::size_t bytes_of(int size) noexcept;
  Header& header() const noexcept;
  Rank& of(int rank) const noexcept;
  Channel& channel(int from, int to) const noexcept;
  bool map(const std::string& id);
  void watch_processes();
  bool wait(const std::function<bool()>& is_over);
  void signal() noexcept;
  bool advance(Moving& moving);

  const int size_;
  const int rank_;
  std::atomic<std::byte*> memory_{nullptr};
  std::atomic<bool> aborted_{false};
  bool is_in_ = false;                          // the others count on it
  std::vector<std::pair<int, int>> processes_;  // rank and pidfd of those of other processes
};

}  // namespace dl::host_device::nccl
