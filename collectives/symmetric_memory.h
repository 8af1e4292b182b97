// SymmetricMemory: memory of one size on every rank of a group, made by all of them together
// (ProcessGroup::allocate_symmetric; register_symmetric: memory that exists), which the other ranks
// of a node can read and write.
//
// Collectives find it by the pointers that they are given: where the buffers of all ranks lie in
// one symmetric memory, all_reduce in place takes one pass over it, and others read their peers'
// buffers without a copy in between. Where one rank's buffer lies elsewhere, all take the way of
// any other pointer. Results are bitwise the same either way.
//
// A rank writes into another's memory only inside an operation that both have called. Where an
// operation fails while that is possible, the range that it was given stops being shared, so that a
// rank that was only slow changes none of it later; its contents are undefined, and check() throws.
//
// A SymmetricMemory owns this rank's part and its view of the others'; it may outlive the group.
// The memory itself is gone when the last rank has dropped its own, or died. Thread-safety: any
// member from any thread; the bytes are the user's business.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/ref.h"

namespace dl::collectives {

class SymmetricMemory : public RefCounted {
 public:
  // This rank's part: filled with zeros, aligned to 64 bytes at least.
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // The same on all ranks. False: it works as any other memory does, and why_not() says why.
  bool is_shared() const noexcept { return why_not_.empty(); }
  const std::string& why_not() const noexcept { return why_not_; }
  // Throws kAborted, beginning with `operation`, where an operation failed that used the memory.
  virtual void check(std::string_view operation) const { static_cast<void>(operation); }

 protected:
  SymmetricMemory(std::byte* data, std::size_t bytes, std::string why_not) noexcept
      : data_(data), bytes_(bytes), why_not_(std::move(why_not)) {}

 private:
  std::byte* const data_;
  const std::size_t bytes_;
  const std::string why_not_;
};

// For backends that share no memory: new, or somebody else's.
Ref<SymmetricMemory> make_ordinary_memory(std::size_t bytes, std::string why_not);
Ref<SymmetricMemory> make_unshared_memory(void* data, std::size_t bytes, Ref<RefCounted> owner,
                                          std::string why_not);

}  // namespace dl::collectives
