// How an exception from a dataset reaches the training loop: with its type, and with the sample.
//
// A type that holds a text and nothing else is thrown again with the sample in front of the text:
// dl::Error (its kind is kept) and the standard's runtime_error, logic_error and what derives from
// them in <stdexcept>. Every other exception (a class of the program's own, bad_alloc,
// system_error, an int) is thrown again as the object that it is, and a line in the log names the
// sample.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>

namespace dl::data {

struct SamplePlace {
  std::int64_t batch = 0;
  std::optional<std::int64_t> sample{};  // nullopt: the exception came before the first sample
};

// `error` is not null.
[[noreturn]] void rethrow_for_sample(const std::exception_ptr& error, const SamplePlace& place);

}  // namespace dl::data
