// The error that a call throws, for tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "core/base/error.h"

namespace dl::collectives::testing {

// Kind and text of the Error that a call throws; fails the test if it throws nothing.
struct Thrown {
  ErrorKind kind = ErrorKind::kInternal;
  std::string text;
};
inline Thrown thrown_by(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace dl::collectives::testing
