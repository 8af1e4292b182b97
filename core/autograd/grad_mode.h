// Whether operations of this thread are recorded for backward.
#pragma once

namespace dl {

// True unless a NoGradGuard lives on this thread.
bool grad_enabled() noexcept;

namespace detail {
bool set_grad_enabled(bool enabled) noexcept;  // returns what was set before
}

// While it lives, operations of its thread are not recorded: their results require no gradients.
class NoGradGuard {
 public:
  NoGradGuard() noexcept : before_(detail::set_grad_enabled(false)) {}
  ~NoGradGuard() { detail::set_grad_enabled(before_); }
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool before_;
};

// The opposite, inside a region that has a NoGradGuard.
class EnableGradGuard {
 public:
  EnableGradGuard() noexcept : before_(detail::set_grad_enabled(true)) {}
  ~EnableGradGuard() { detail::set_grad_enabled(before_); }
  EnableGradGuard(const EnableGradGuard&) = delete;
  EnableGradGuard& operator=(const EnableGradGuard&) = delete;

 private:
  bool before_;
};

}  // namespace dl
