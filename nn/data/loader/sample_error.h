// How an exception from a dataset or a collate function reaches the training loop: with its type,
// and with the sample or, from a stream or a collate function, the batch.
//
// An exception that holds only a text is thrown again with the sample in front of the text:
// dl::Error, which keeps its kind, and the classes of <stdexcept>. Any other exception (a class of
// the program, bad_alloc, system_error, an int) is rethrown unchanged, and a line in the log names
// the sample.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

namespace dl::data {

struct SamplePlace {
  std::int64_t batch = 0;
  std::optional<std::int64_t> sample{};  // nullopt: while no sample was read
};

// "sample 17 (batch 3)", or "batch 3".
std::string text_of(const SamplePlace& place);

// Throws `error`, which must not be null, in the way described above.
[[noreturn]] void rethrow_for_sample(const std::exception_ptr& error, const SamplePlace& place);

}  // namespace dl::data
