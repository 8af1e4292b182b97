// Checks of schedulers' options: numbers are in range, and there is one for all parameter groups or
// one for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/base/option.h"

namespace dl::optim {

inline double of_group(const std::vector<double>& values, std::size_t group) {
  return values[values.size() == 1 ? 0 : group];
}

inline void require_for_groups(std::string_view scheduler, const char* option,
                               const std::vector<double>& values, std::size_t groups) {
  DL_CHECK(values.size() == 1 || values.size() == groups, kInvalidArgument,
           "{}: {} has {} numbers, wanted 1 or one for each of {} parameter groups", scheduler,
           option, values.size(), groups);
  for (const double value : values) require_finite(scheduler, option, value);
}

inline void require_at_least_1(std::string_view scheduler, const char* option, std::int64_t value) {
  DL_CHECK(value >= 1, kInvalidArgument, "{}: {} is {}, wanted at least 1", scheduler, option,
           value);
}

inline void require_count(std::string_view scheduler, const char* option, std::int64_t value) {
  DL_CHECK(value >= 0, kInvalidArgument, "{}: {} is {}, wanted at least 0", scheduler, option,
           value);
}

}  // namespace dl::optim
