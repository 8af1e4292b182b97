// Segment: memory that several processes map, without a name in any file system.
//
// Its owner makes it as a memfd (close-on-exec) and reserves all of it: lack of memory is an error
// here, not a SIGBUS later. It seals the memfd against changes of size, and passes the descriptor
// on. /dev/shm and its size do not matter, and nothing is left when the last process that maps it
// ends. Owns its mapping; one thread at a time.
//
// Not mapped in a forked child (MADV_DONTFORK): an access there is a SIGSEGV in the child instead
// of a silent change of the ranks' memory.
#pragma once

#include <cstddef>
#include <utility>

#include "core/base/system/process/fork.h"
#include "core/base/system/unique_fd.h"

namespace dl::collectives::shm {

class Segment {
 public:
  Segment() = default;
  // Makes a segment of zeros, with its pages near the calling thread's core. Throws kIo: "reserve 4
  // MiB of shared memory: Cannot allocate memory".
  static Segment make(std::size_t bytes);
  // Maps a segment that a peer has passed. Throws kMismatch if it is not sealed or has another
  // size.
  static Segment map(UniqueFd fd, std::size_t bytes);
  // Makes existing memory shared, in place: whole pages, private and anonymous, to which no thread
  // may write meanwhile. They keep their address and contents, must stay mapped as long as the
  // segment lives, and turn private again when it is destroyed. Throws kInvalidArgument for any
  // other memory, and kIo.
  static Segment take_over(std::byte* data, std::size_t bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Stops sharing the pages of a range: they keep their address and contents, and other ranks no
  // longer reach them. The caller must not write to the range meanwhile. If there is no memory for
  // a copy, the range stays shared and errno says why.
  bool make_private(std::size_t offset, std::size_t bytes) const noexcept;

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  // To be passed on; valid until close_fd(), which does not unmap.
  int fd() const noexcept { return fd_.get(); }
  void close_fd() noexcept { fd_.reset(); }

 private:
  UniqueFd fd_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  bool is_taken_over_ = false;
  ForkMark made_in_{};
};

}  // namespace dl::collectives::shm
