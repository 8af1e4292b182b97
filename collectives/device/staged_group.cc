#include "collectives/device/staged_group.h"

#include <utility>

#include "collectives/call/call.h"
#include "collectives/call/descriptor.h"
#include "collectives/waiting/done_work.h"
#include "core/base/error.h"
#include "core/base/mutex.h"

namespace dl::collectives {
namespace {

// Pinned memory that grows, allocated for the device of the call's stream.
class Room {
 public:
  explicit Room(cuda::Runtime& runtime) : cuda_(runtime) {}
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  ~Room() { cuda_.deallocate_pinned(memory_); }
  void* of(std::size_t bytes, const Stream& stream) {
    if (bytes <= size_) return memory_;
    cuda_.deallocate_pinned(std::exchange(memory_, nullptr));
    size_ = 0;
    memory_ = cuda_.allocate_pinned(stream.device.index, bytes);
    DL_CHECK(memory_ != nullptr, kIo,
             "cannot allocate {} bytes of pinned memory for the copy through the host", bytes);
    size_ = bytes;
    return memory_;
  }

 private:
  cuda::Runtime& cuda_;
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

struct Held final : RefCounted {
  explicit Held(cuda::Runtime& runtime) : room(runtime) {}
  Room room;
};

// A send. Its bytes are already copied to the host, so no stream has to wait for it.
class Sent final : public Work {
 public:
  explicit Sent(Ref<Work> host) : host_(std::move(host)) {}
  void wait(Stream stream) override {
    if (stream.device.type == DeviceType::kCPU) return host_->synchronize();
    if (const std::exception_ptr failed = host_->error()) std::rethrow_exception(failed);
  }
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override {
    host_->synchronize(timeout);
  }
  bool is_completed() const noexcept override { return host_->is_completed(); }
  std::exception_ptr error() const noexcept override { return host_->error(); }
  std::string_view algorithm() const noexcept override { return "staged"; }

 private:
  const Ref<Work> host_;
};

// A receive. Its bytes are copied to the GPU when a thread waits for it or polls it; that thread
// then also waits for the stream.
class Received final : public Work {
 public:
  Received(cuda::Runtime& runtime, Ref<Work> host, Ref<Held> staged, const Call& call,
           std::size_t bytes)
      : cuda_(runtime),
        host_(std::move(host)),
        staged_(std::move(staged)),
        owner_(call.options->keep_alive),
        buffer_(call.output),
        bytes_(bytes),
        stream_(call.options->stream) {}

  void wait(Stream) override { synchronize(std::nullopt); }
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override {
    host_->synchronize(timeout);
    bring();
    if (const std::exception_ptr failed = error()) std::rethrow_exception(failed);
  }
  bool is_completed() const noexcept override {
    if (!host_->is_completed()) return false;
    if (host_->error() == nullptr) bring();
    return true;
  }
  std::exception_ptr error() const noexcept override {
    if (const std::exception_ptr failed = host_->error()) return failed;
    const Lock lock(mutex_);
    return failed_;
  }
  std::optional<int> source() const noexcept override { return host_->source(); }
  std::string_view algorithm() const noexcept override { return "staged"; }

 private:
  void bring() const noexcept {
    const Lock lock(mutex_);
    try {
      if (const std::size_t bytes = std::exchange(bytes_, 0)) {
        cuda_.copy_async(buffer_, staged_->room.of(bytes, stream_), bytes, stream_.handle);
        cuda_.synchronize_stream(stream_.handle);
      }
    } catch (...) {
      failed_ = std::current_exception();
    }
    owner_ = nullptr;
  }

  cuda::Runtime& cuda_;
  const Ref<Work> host_;
  const Ref<Held> staged_;
  mutable Mutex mutex_;
  mutable Ref<RefCounted> owner_ DL_GUARDED_BY(mutex_);
  void* const buffer_;
  mutable std::size_t bytes_ DL_GUARDED_BY(mutex_);  // 0 once they are on the GPU
  mutable std::exception_ptr failed_ DL_GUARDED_BY(mutex_);
  const Stream stream_;
};

class StagedGroup final : public ProcessGroup {
 public:
  StagedGroup(Ref<ProcessGroup> host, cuda::Runtime& runtime)
      : ProcessGroup(host->rank(), host->size(), std::string(host->name()), "staged",
                     std::string(host->plan())),
        host_(std::move(host)),
        cuda_(runtime),
        input_(runtime),
        output_(runtime) {}

  Ref<Work> start(const Call& call) override {
    if (call.row().is_message) return start_message(call);
    const std::size_t element = size_of(call.what.dtype);
    const std::size_t in = call.reads(rank()) ? call.gives.all(size()) * element : 0;
    const std::size_t out = call.writes(rank()) ? call.takes.all(size()) * element : 0;
    const Stream stream = call.options->stream;
    const Lock lock(mutex_);
    begin(call, in, input_);
    const CallOptions options = on_the_host(*call.options);
    Call on_host = call;
    on_host.options = &options;
    if (call.what.op == OpKind::kBroadcast) {  // in one buffer
      on_host.output = out > 0 ? input_.of(out, stream) : nullptr;
      on_host.input = on_host.output;
    } else {
      on_host.input = in > 0 ? input_.of(in, stream) : nullptr;
      on_host.output = out > 0 ? output_.of(out, stream) : nullptr;
    }
    host_->start(on_host)->synchronize();
    const bool has_result = call.what.op != OpKind::kBroadcast || rank() != call.what.root;
    if (out > 0 && has_result) {
      cuda_.copy_async(call.output, on_host.output, out, stream.handle);
      cuda_.synchronize_stream(stream.handle);
    }
    return make_ref<DoneWork>("staged");
  }

  void abort(std::string_view reason) noexcept override { host_->abort(reason); }
  int rank_in_job() const noexcept override { return host_->rank_in_job(); }
  // The host group numbers operations differently: one staged operation may be several of its own.
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> /*completes_until*/) noexcept override {
    host_->fail(cause, std::nullopt);
  }
  std::exception_ptr error() const noexcept override { return host_->error(); }

 private:
  static CallOptions on_the_host(const CallOptions& call) {
    return {.timeout = call.timeout, .order = call.order};
  }

  // Copies `bytes` of the input to `room`.
  void begin(const Call& call, std::size_t bytes, Room& room) {
    const Stream stream = call.options->stream;
    DL_CHECK(cuda_.capture_state(stream.handle) == cuda::CaptureState::kNone, kNotImplemented,
             "{}: it goes through the host, and cannot be captured into a graph", call.row().name);
    if (bytes > 0) cuda_.copy_async(room.of(bytes, stream), call.input, bytes, stream.handle);
    cuda_.synchronize_stream(stream.handle);
  }

  // Does not block, because two ranks may each wait for the message of the other.
  Ref<Work> start_message(const Call& call) {
    const bool is_send = call.what.op == OpKind::kSend;
    const std::size_t bytes = call.what.count * size_of(call.what.dtype);
    const auto staged = make_ref<Held>(cuda_);
    begin(call, is_send ? bytes : 0, staged->room);
    CallOptions options = on_the_host(*call.options);
    options.keep_alive = staged;
    Call on_host = call;
    on_host.options = &options;
    void* const memory = bytes > 0 ? staged->room.of(bytes, call.options->stream) : nullptr;
    if (is_send) {
      on_host.input = memory;
      return make_ref<Sent>(host_->start(on_host));
    }
    on_host.output = memory;
    return make_ref<Received>(cuda_, host_->start(on_host), staged, call, bytes);
  }

  const Ref<ProcessGroup> host_;
  cuda::Runtime& cuda_;
  Mutex mutex_;
  Room input_ DL_GUARDED_BY(mutex_), output_ DL_GUARDED_BY(mutex_);
};

}  // namespace

Ref<ProcessGroup> make_staged_group(Ref<ProcessGroup> host, cuda::Runtime& runtime) {
  return make_ref<StagedGroup>(std::move(host), runtime);
}

}  // namespace dl::collectives
