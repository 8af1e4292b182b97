// The checks of a call. ProcessGroup makes them once for every backend, before the call starts.
// Pure functions; any thread.
#pragma once

#include <string_view>

#include "collectives/call/call.h"

namespace dl::collectives {

// Throws kDType for bitwise operations on floats and for avg of bool. The text begins with
// `operation`, for example "all_reduce".
void check_reduction(DType dtype, ReduceOp op, std::string_view operation);

// Checks pointers, counts, overlap, root and peer of a call by `rank` of `size` ranks, and sets the
// descriptor's count. Throws kInvalidArgument, or kDType for an undefined reduction; the text
// begins with the operation's name.
void check(Call& call, int rank, int size);

// Makes a call from its options, and checks it.
template <typename Options>
Call checked(const Options& options, int rank, int size) {
  Call call = [&] {
    if constexpr (requires { call_of(options); }) {
      return call_of(options);
    } else {
      return call_of(options, rank, size);
    }
  }();
  check(call, rank, size);
  return call;
}

// For groups of CPU memory: throws kNotImplemented if the stream of the call is not a CPU stream.
void check_is_on_cpu(const Call& call, std::string_view backend);

// For Work::wait() of such groups: throws kNotImplemented if `stream` is not a CPU stream.
void check_waits_on_cpu(const Descriptor& operation, std::string_view backend, Stream stream);

}  // namespace dl::collectives
