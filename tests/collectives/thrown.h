// The error that a call throws, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "collectives/waiting/group_error.h"
#include "core/base/error.h"

namespace dl::collectives::testing {

// What an Error says. thrown_by() fails the test if the call throws none.
struct Thrown {
  ErrorKind kind = ErrorKind::kInternal;
  std::string text;
  int rank = -1;  // that it blames
};
inline Thrown thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.kind(), error.what(), cause_of(std::current_exception()).rank};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace dl::collectives::testing
