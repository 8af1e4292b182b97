// Segment: memory that several processes map, without a name in any file system.
//
// Its owner makes it as a memfd (close-on-exec), reserves all of it, so that lack of memory is an
// error here and no SIGBUS later, seals it against any change of size, and passes the descriptor
// on; /dev/shm and its size do not matter, and nothing is left when the last process that maps it
// ends. Owns its mapping; one thread at a time.
//
// A forked child has none of it: its addresses are not mapped there (MADV_DONTFORK), and touching
// them is a SIGSEGV in the child rather than a change under the ranks' hands.
#pragma once

#include <cstddef>
#include <utility>

#include "core/base/fork.h"
#include "core/base/unique_fd.h"

namespace dl::collectives::shm {

class Segment {
 public:
  Segment() = default;
  // A new one, filled with zeros, its pages near the calling thread's core. Throws kIo: "reserve
  // 4 MiB of shared memory: Cannot allocate memory".
  static Segment make(std::size_t bytes);
  // Maps one that a peer has passed. Throws kMismatch where it is not sealed or has another size.
  static Segment map(UniqueFd fd, std::size_t bytes);
  // Takes the place of memory that exists: whole pages, private and anonymous, to which nobody may
  // write meanwhile. They keep their address and contents, and turn private again when the segment
  // goes, until which they must stay. Throws kInvalidArgument where it is other memory, kIo.
  static Segment take_over(std::byte* data, std::size_t bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  // Ends the sharing of the pages of a range: they keep their address and contents, and others no
  // longer reach them. The range is not to be written to meanwhile. Where there is no memory for a
  // copy the range stays shared, and errno says why.
  bool make_private(std::size_t offset, std::size_t bytes) const noexcept;

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }
  // To be passed on; valid until close_fd(), which ends no mapping.
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
