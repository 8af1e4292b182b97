// Checks and error texts that all Stores share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"

namespace dl::rendezvous {

inline constexpr std::size_t kLongestKey = 1024;
inline constexpr std::size_t kLongestValue = std::size_t{16} << 20;

// Throw kInvalidArgument: "store: add: the key has 2000 bytes, wanted 1 to 1024".
void check_key(std::string_view call, std::string_view key);
void check_value(std::string_view call, std::string_view key, std::string_view value);

// Adds to the decimal number of add(); a missing value counts as 0. Throws kInvalidArgument if it
// is not a number or the sum does not fit 64 bits.
std::int64_t add_to_number(std::string_view key, const std::optional<std::string>& present,
                           std::int64_t delta);

// "store: wait: 2 of 5 keys are still missing after 10.0 s: 'a', 'b'"; at most 8 are listed.
std::string missing_text(std::string_view call, std::span<const std::string> missing,
                         std::size_t wanted, Deadline::Clock::time_point since);

}  // namespace dl::rendezvous
