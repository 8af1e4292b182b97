// ScriptedGroup: a ProcessGroup whose other ranks always send what this one sends, so that averages
// change nothing, and whose operations end when the test says so. It shows what DDP asks of a
// group, in which order, and what it does when an operation fails.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/call/call.h"
#include "core/base/error.h"

namespace dl::collectives::testing {

class ScriptedWork final : public Work {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  explicit ScriptedWork(std::function<void()> at_wait) : at_wait_(std::move(at_wait)) {}
  std::optional<Stream> waited_first;  // what was ordered after it

  void wait(Stream stream) override {
    if (!waited_first) waited_first = stream;
    synchronize({});
  }
  void synchronize(std::optional<std::chrono::nanoseconds>) override {
    if (at_wait_) at_wait_();
    if (!completed_at_) completed_at_ = std::chrono::steady_clock::now();
    if (error_) std::rethrow_exception(error_);
  }
  bool is_completed() const noexcept override { return completed_at_.has_value(); }
  std::exception_ptr error() const noexcept override { return error_; }
  std::optional<TimePoint> completed_at() const noexcept override { return completed_at_; }

  void complete(TimePoint when = std::chrono::steady_clock::now()) { completed_at_ = when; }
  void fail(const Error& error) {
    error_ = std::make_exception_ptr(error);
    complete();
  }

 private:
  std::function<void()> at_wait_;
  std::optional<TimePoint> completed_at_;
  std::exception_ptr error_;
};

class ScriptedGroup final : public ProcessGroup {
 public:
  explicit ScriptedGroup(int size = 2) : ProcessGroup(0, size, "scripted", "scripted") {}

  struct AllReduce {
    std::size_t count;
    DType dtype;
    ReduceOp op;
    Stream stream;
    Ref<ScriptedWork> work;
  };
  std::vector<AllReduce> all_reduces;
  std::vector<std::string> aborts;
  std::exception_ptr failed;
  std::function<void()> at_wait;  // runs in every wait() for an all_reduce
  Ref<FirstError> behind = make_ref<FirstError>();

  Ref<Work> start(const Call& call) override {
    const Descriptor& what = call.what;
    if (what.op == OpKind::kAllReduce) {
      auto work = make_ref<ScriptedWork>(at_wait);
      all_reduces.push_back({what.count, what.dtype, what.reduce, call.options->stream, work});
      return work;
    }
    if (what.op == OpKind::kAllGather) {
      const std::size_t bytes = what.count * size_of(what.dtype);
      for (int i = 0; i < size(); ++i) {
        std::memcpy(static_cast<char*>(call.output) + static_cast<std::size_t>(i) * bytes,
                    call.input, bytes);
      }
    }
    auto work = make_ref<ScriptedWork>(nullptr);
    work->complete();
    return work;
  }
  void abort(std::string_view reason) noexcept override { aborts.emplace_back(reason); }
  std::exception_ptr error() const noexcept override { return failed; }
  Ref<FirstError> background_error() const noexcept override { return behind; }
};

}  // namespace dl::collectives::testing
