// Whether operations of this thread are recorded for backward.
#pragma once

namespace dl::detail {

// The thread's settings of autograd. Code outside core/autograd uses the guards below, and those of
// anomaly.h.
struct Modes {
  bool grad = true;
  bool inference = false;
  bool anomaly = false;
  bool check_nan = false;  // in anomaly mode
};
extern constinit thread_local Modes modes;

}  // namespace dl::detail

namespace dl {

// True unless a NoGradGuard or an InferenceMode lives on this thread.
bool is_grad_enabled() noexcept;
// Sets whether this thread records, until the next call or the end of an enclosing guard. Returns
// the previous setting. Has no effect under an InferenceMode.
bool set_grad_enabled(bool enabled) noexcept;

// Switches recording on its thread on or off while it lives, as torch.set_grad_enabled().
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) noexcept : before_(set_grad_enabled(enabled)) {}
  ~AutoGradMode() { set_grad_enabled(before_); }
  AutoGradMode(const AutoGradMode&) = delete;
  AutoGradMode& operator=(const AutoGradMode&) = delete;

 private:
  bool before_;
};

// Switches recording off on its thread while it lives: results require no gradients.
class NoGradGuard : public AutoGradMode {
 public:
  NoGradGuard() noexcept : AutoGradMode(false) {}
};

// Switches recording on again, inside the region of a NoGradGuard.
class EnableGradGuard : public AutoGradMode {
 public:
  EnableGradGuard() noexcept : AutoGradMode(true) {}
};

bool is_inference_mode_enabled() noexcept;

// A NoGradGuard that an EnableGradGuard inside it cannot undo; InferenceMode(false) can, for a
// region. Tensors made under it are ordinary tensors; in PyTorch such tensors cannot be saved for
// backward.
class InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true) noexcept;
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  bool grad_before_;
  bool inference_before_;
};

}  // namespace dl
