// SymmetricMemory: memory of the same size on every rank of a group, made by all ranks together
// (ProcessGroup::allocate_symmetric, or register_symmetric for existing memory). The other ranks of
// a node can read and write it.
//
// Collectives recognise it by the pointers they are given. If the buffers of all ranks lie in one
// symmetric memory, all_reduce in place takes one pass over it, and other operations read their
// peers' buffers without staging. If one rank's buffer lies elsewhere, all ranks stage theirs.
// Results have the same bits either way.
//
// A rank writes into another rank's memory only inside an operation that both have called. If an
// operation fails while ranks may still write, the range that it used is no longer shared, so that
// a slow rank cannot change it later. Its contents are then undefined, and check() throws.
//
// A SymmetricMemory owns this rank's part and its mapping of the others' parts; it may outlive the
// group. The memory is freed when the last rank has dropped its handle or died. Thread-safety: any
// member from any thread. The user must synchronise access to the bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/lifetime/ref.h"

namespace dl::collectives {

class SymmetricMemory : public RefCounted {
 public:
  // This rank's part: filled with zeros, aligned to 64 bytes at least.
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  // Equal on all ranks. If false, it works like any other memory, and why_not() gives the reason.
  bool is_shared() const noexcept { return why_not_.empty(); }
  const std::string& why_not() const noexcept { return why_not_; }
  // Throws kAborted if an operation that used the memory has failed; the text begins with
  // `operation`.
  virtual void check(std::string_view operation) const { static_cast<void>(operation); }
  void check_memory(std::string_view operation) const final { check(operation); }

 protected:
  SymmetricMemory(std::byte* data, std::size_t bytes, std::string why_not) noexcept
      : data_(data), bytes_(bytes), why_not_(std::move(why_not)) {}

 private:
  std::byte* const data_;
  const std::size_t bytes_;
  const std::string why_not_;
};

// Throws kInvalidArgument for more bytes than any machine has.
void check_memory_size(std::size_t bytes);
// For backends that share no memory: new memory, or existing memory that `owner` keeps.
Ref<SymmetricMemory> make_ordinary_memory(std::size_t bytes, std::string why_not);
Ref<SymmetricMemory> make_unshared_memory(void* data, std::size_t bytes, Ref<RefCounted> owner,
                                          std::string why_not);

}  // namespace dl::collectives
