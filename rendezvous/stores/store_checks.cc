#include "rendezvous/stores/store_checks.h"

#include <algorithm>
#include <charconv>
#include <chrono>

#include "core/base/error.h"
#include "core/base/text/utf8.h"

namespace dl::rendezvous {
namespace {

constexpr std::size_t kMostKeysListed = 8;

double seconds_since(Deadline::Clock::time_point start) {
  return std::chrono::duration<double>(Deadline::Clock::now() - start).count();
}

}  // namespace

void check_key(std::string_view call, std::string_view key) {
  DL_CHECK(!key.empty() && key.size() <= kLongestKey, kInvalidArgument,
           "store: {}: the key has {} bytes, wanted 1 to {}", call, key.size(), kLongestKey);
  DL_CHECK(is_utf8(key), kInvalidArgument, "store: {}: the key is not UTF-8 text without NUL",
           call);
}

void check_value(std::string_view call, std::string_view key, std::string_view value) {
  DL_CHECK(value.size() <= kLongestValue, kInvalidArgument,
           "store: {} '{}': the value has {} bytes, wanted at most {}", call, key, value.size(),
           kLongestValue);
}

std::int64_t add_to_number(std::string_view key, const std::optional<std::string>& present,
                           std::int64_t delta) {
  std::int64_t number = 0;
  if (present) {
    const char* end = present->data() + present->size();
    const auto [stop, error] = std::from_chars(present->data(), end, number);
    DL_CHECK(error == std::errc() && stop == end, kInvalidArgument,
             "store: add {} to '{}': its value, {} bytes, is not a whole number of 64 bits", delta,
             key, present->size());
  }
  std::int64_t sum = 0;
  DL_CHECK(!__builtin_add_overflow(number, delta, &sum), kInvalidArgument,
           "store: add {} to '{}': {} and {} do not fit 64 bits", delta, key, number, delta);
  return sum;
}

std::string missing_text(std::string_view call, std::span<const std::string> missing,
                         std::size_t wanted, Deadline::Clock::time_point since) {
  std::string list;
  for (std::size_t i = 0; i < std::min(missing.size(), kMostKeysListed); ++i) {
    list += fmt::format("{}'{}'", i == 0 ? "" : ", ", missing[i]);
  }
  if (missing.size() > kMostKeysListed)
    list += fmt::format(" and {} more", missing.size() - kMostKeysListed);
  if (wanted == 1) {
    return fmt::format("store: {}: no process has set {} after {:.1f} s", call, list,
                       seconds_since(since));
  }
  return fmt::format("store: {}: {} of {} keys are still missing after {:.1f} s: {}", call,
                     missing.size(), wanted, seconds_since(since), list);
}

}  // namespace dl::rendezvous
