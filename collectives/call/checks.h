// The checks of a call. ProcessGroup makes them once for every backend, before the call starts.
// Pure functions; any thread.
#pragma once

#include <string_view>

#include "collectives/call/call.h"

namespace dl::collectives {

// Throws kDType if the pair has no meaning: bitwise operations on floats, avg of bool. `operation`
// begins the text: "all_reduce".
void check_reduction(DType dtype, ReduceOp op, std::string_view operation);

// Pointers, counts, overlap, root and peer of a call by `rank` of `size` ranks; completes the
// descriptor's count. Throws kInvalidArgument, or kDType for an undefined reduction, with the
// operation's name.
void check(Call& call, int rank, int size);

// Makes a call of its options, and checks it.
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

// For groups of CPU memory: throws kNotImplemented if the call's stream is another device's.
void check_is_on_cpu(const Call& call, std::string_view backend);

// For the Works of such groups: throws kNotImplemented if another device's stream is to wait.
void check_waits_on_cpu(const Descriptor& operation, std::string_view backend, Stream stream);

}  // namespace dl::collectives
