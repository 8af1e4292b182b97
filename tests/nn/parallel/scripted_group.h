// ScriptedGroup: a ProcessGroup whose other ranks always send what this one sends, so that averages
// change nothing, and whose operations end when the test says so. It shows what DDP asks of a
// group, in which order, and what it does when an operation fails.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "collectives/api/process_group.h"
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
  explicit ScriptedGroup(int size = 2) : size_(size) {}

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

  int rank() const noexcept override { return 0; }
  int size() const noexcept override { return size_; }
  std::string_view name() const noexcept override { return "scripted"; }
  std::string_view backend() const noexcept override { return "scripted"; }

  Ref<Work> all_reduce(const AllReduceOptions& o) override {
    auto work = make_ref<ScriptedWork>(at_wait);
    all_reduces.push_back({o.count, o.dtype, o.op, o.call.stream, work});
    return work;
  }
  Ref<Work> broadcast(const BroadcastOptions&) override { return done(); }
  Ref<Work> all_gather(const AllGatherOptions& o) override {
    const std::size_t bytes = o.count * size_of(o.dtype);
    for (int i = 0; i < size_; ++i) {
      std::memcpy(static_cast<char*>(o.output) + static_cast<std::size_t>(i) * bytes, o.input,
                  bytes);
    }
    return done();
  }
  Ref<Work> reduce_scatter(const ReduceScatterOptions&) override { return done(); }
  Ref<Work> barrier(const BarrierOptions&) override { return done(); }
  Ref<Work> send(const SendOptions&) override { return done(); }
  Ref<Work> recv(const RecvOptions&) override { return done(); }
  void abort(std::string_view reason) noexcept override { aborts.emplace_back(reason); }
  std::exception_ptr error() const noexcept override { return failed; }
  Ref<FirstError> background_error() const noexcept override { return behind; }

 private:
  static Ref<Work> done() {
    auto work = make_ref<ScriptedWork>(nullptr);
    work->complete();
    return work;
  }
  int size_;
};

}  // namespace dl::collectives::testing
