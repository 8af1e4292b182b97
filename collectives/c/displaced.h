// A call of a v-variant whose parts do not lie one behind the other.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "collectives/c/dl_comm.h"
#include "core/base/lifetime/ref.h"

namespace dl::collectives::c {

// Bytes that the operation reads or writes in place of the caller's.
struct PackedBytes final : RefCounted {
  std::unique_ptr<std::byte[]> input{}, output{};
};

// Copies the input's parts together. `call`: then has the packed buffers, and no displacements.
struct Displaced {
  Ref<PackedBytes> packed{};
  // Copies the output's parts to their places; null: there are none.
  std::function<void()> unpack{};
};
// `element`: bytes. `owner`: of the caller's buffers, which the result keeps. Throws
// kInvalidArgument if a side has displacements and no counts, if parts of the output overlap, or if
// the sizes are more than memory can hold.
Displaced pack(dl_call& call, std::size_t element, int size, const Ref<RefCounted>& owner);

}  // namespace dl::collectives::c
