// The error that a call throws, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "collectives/waiting/group_error.h"
#include "core/base/error.h"

namespace dl::collectives::testing {

// Of the Error that a call throws; fails the test if it throws nothing.
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
