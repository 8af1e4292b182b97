#include "collectives/device/staged_group.h"

#include <mutex>
#include <numeric>
#include <variant>

#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"
#include "collectives/call/descriptor.h"
#include "collectives/waiting/done_work.h"
#include "core/base/error.h"

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
    DL_CHECK(memory_ != nullptr, kIo, "there are no {} bytes of pinned memory to go through",
             bytes);
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

// A send, whose bytes have left the GPU: no stream has to wait for it.
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

// A receive: its bytes are copied to the GPU when a thread waits for them or polls; then it also
// waits for the stream.
class Received final : public Work {
 public:
  Received(cuda::Runtime& runtime, Ref<Work> host, Ref<Held> staged, const RecvOptions& options,
           std::size_t bytes)
      : cuda_(runtime),
        host_(std::move(host)),
        staged_(std::move(staged)),
        owner_(options.call.holds),
        buffer_(options.buffer),
        bytes_(bytes),
        stream_(options.call.stream) {}

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
    const std::lock_guard lock(mutex_);
    return failed_;
  }
  std::optional<int> source() const noexcept override { return host_->source(); }
  std::string_view algorithm() const noexcept override { return "staged"; }

 private:
  void bring() const noexcept {
    const std::lock_guard lock(mutex_);
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
  mutable std::mutex mutex_;
  mutable Ref<RefCounted> owner_;
  void* const buffer_;
  mutable std::size_t bytes_;  // 0 once they are on the GPU
  mutable std::exception_ptr failed_;
  const Stream stream_;
};

class StagedGroup final : public ProcessGroup {
 public:
  StagedGroup(Ref<ProcessGroup> host, cuda::Runtime& runtime)
      : host_(std::move(host)), cuda_(runtime), input_(runtime), output_(runtime) {}

  int rank() const noexcept override { return host_->rank(); }
  int size() const noexcept override { return host_->size(); }
  std::string_view name() const noexcept override { return host_->name(); }
  std::string_view backend() const noexcept override { return "staged"; }
  std::string_view plan() const noexcept override { return host_->plan(); }

  Ref<Work> all_reduce(const AllReduceOptions& o) override {
    return run(OpKind::kAllReduce, o, o.count, o.count, &ProcessGroup::all_reduce);
  }
  Ref<Work> reduce(const ReduceOptions& o) override {
    return run(OpKind::kReduce, o, o.count, is(o.root) ? o.count : 0, &ProcessGroup::reduce);
  }
  Ref<Work> all_gather(const AllGatherOptions& o) override {
    return run(OpKind::kAllGather, o, o.count, all(o.count), &ProcessGroup::all_gather);
  }
  Ref<Work> reduce_scatter(const ReduceScatterOptions& o) override {
    return run(OpKind::kReduceScatter, o, all(o.count), o.count, &ProcessGroup::reduce_scatter);
  }
  Ref<Work> gather(const GatherOptions& o) override {
    return run(OpKind::kGather, o, o.count, is(o.root) ? all(o.count) : 0, &ProcessGroup::gather);
  }
  Ref<Work> scatter(const ScatterOptions& o) override {
    return run(OpKind::kScatter, o, is(o.root) ? all(o.count) : 0, o.count, &ProcessGroup::scatter);
  }
  Ref<Work> all_to_all(const AllToAllOptions& o) override {
    return run(OpKind::kAllToAll, o, all(o.count), all(o.count), &ProcessGroup::all_to_all);
  }
  Ref<Work> all_gatherv(const AllGathervOptions& o) override {
    return run(OpKind::kAllGatherv, o, own(o.counts), sum(o.counts), &ProcessGroup::all_gatherv);
  }
  Ref<Work> reduce_scatterv(const ReduceScattervOptions& o) override {
    return run(OpKind::kReduceScatterv, o, sum(o.counts), own(o.counts),
               &ProcessGroup::reduce_scatterv);
  }
  Ref<Work> gatherv(const GathervOptions& o) override {
    return run(OpKind::kGatherv, o, o.count, is(o.root) ? sum(o.counts) : 0,
               &ProcessGroup::gatherv);
  }
  Ref<Work> scatterv(const ScattervOptions& o) override {
    return run(OpKind::kScatterv, o, is(o.root) ? sum(o.counts) : 0, o.count,
               &ProcessGroup::scatterv);
  }
  Ref<Work> all_to_allv(const AllToAllvOptions& o) override {
    return run(OpKind::kAllToAllv, o, sum(o.send_counts), sum(o.receive_counts),
               &ProcessGroup::all_to_allv);
  }

  Ref<Work> broadcast(const BroadcastOptions& o) override {
    const std::size_t bytes = bytes_of(o.count, o.dtype, o.buffer);
    const std::lock_guard lock(mutex_);
    begin(OpKind::kBroadcast, o.call, is(o.root) ? o.buffer : nullptr, bytes, input_);
    BroadcastOptions on_host = o;
    on_host.buffer = bytes == 0 ? o.buffer : input_.of(bytes, o.call.stream);
    on_host.call = on_the_host(o.call);
    return finish(host_->broadcast(on_host), o.call, is(o.root) ? nullptr : o.buffer,
                  on_host.buffer, bytes);
  }
  Ref<Work> barrier(const BarrierOptions& o) override {
    const std::lock_guard lock(mutex_);
    begin(OpKind::kBarrier, o.call, nullptr, 0, input_);
    return finish(host_->barrier({.call = on_the_host(o.call)}), o.call, nullptr, nullptr, 0);
  }
  // Messages do not block, because those of two ranks may wait for each other.
  Ref<Work> send(const SendOptions& o) override {
    const std::size_t bytes = bytes_of(o.count, o.dtype, o.buffer);
    const auto staged = make_ref<Held>(cuda_);
    begin(OpKind::kSend, o.call, o.buffer, bytes, staged->room);
    SendOptions on_host = o;
    if (bytes > 0) on_host.buffer = staged->room.of(bytes, o.call.stream);
    on_host.call = on_the_host(o.call);
    on_host.call.holds = staged;
    return make_ref<Sent>(host_->send(on_host));
  }
  Ref<Work> recv(const RecvOptions& o) override {
    const std::size_t bytes = bytes_of(o.count, o.dtype, o.buffer);
    const auto staged = make_ref<Held>(cuda_);
    begin(OpKind::kRecv, o.call, nullptr, 0, staged->room);
    RecvOptions on_host = o;
    if (bytes > 0) on_host.buffer = staged->room.of(bytes, o.call.stream);
    on_host.call = on_the_host(o.call);
    on_host.call.holds = staged;
    return make_ref<Received>(cuda_, host_->recv(on_host), staged, o, bytes);
  }

  Ref<Work> batch(std::span<const PeerMessage> messages) override {
    for (const PeerMessage& message : messages) {
      std::visit(
          [this](const auto& o) { check_peer(descriptor_of(o), o.peer, rank(), size(), o.buffer); },
          message);
    }
    return start_each(messages);
  }

  void abort(std::string_view reason) noexcept override { host_->abort(reason); }
  int rank_in_job() const noexcept override { return host_->rank_in_job(); }
  // The host group numbers operations differently: one staged operation may be several of its own.
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> /*spared*/) noexcept override {
    host_->fail(cause, std::nullopt);
  }
  std::exception_ptr error() const noexcept override { return host_->error(); }

 private:
  bool is(int rank) const noexcept { return host_->rank() == rank; }
  std::size_t all(std::size_t count) const noexcept {
    return count * static_cast<std::size_t>(size());
  }
  std::size_t own(std::span<const std::size_t> counts) const noexcept {
    const auto r = static_cast<std::size_t>(rank());
    return r < counts.size() ? counts[r] : 0;  // the host group refuses it
  }
  static std::size_t sum(std::span<const std::size_t> counts) noexcept {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  // Leaves it to the host group to refuse a null pointer.
  static std::size_t bytes_of(std::size_t count, DType dtype, const void* memory) noexcept {
    return memory == nullptr ? 0 : count * size_of(dtype);
  }
  static CallOptions on_the_host(const CallOptions& call) {
    return {.timeout = call.timeout, .order = call.order};
  }

  void begin(OpKind op, const CallOptions& call, const void* input, std::size_t bytes, Room& room) {
    DL_CHECK(cuda_.capture_state(call.stream.handle) == cuda::CaptureState::kNone, kNotImplemented,
             "{}: it goes through the host, and cannot be captured into a graph", name_of(op));
    if (input != nullptr && bytes > 0) {
      cuda_.copy_async(room.of(bytes, call.stream), input, bytes, call.stream.handle);
    }
    cuda_.synchronize_stream(call.stream.handle);
  }
  Ref<Work> finish(const Ref<Work>& work, const CallOptions& call, void* output, const void* from,
                   std::size_t bytes) {
    work->synchronize();
    if (output != nullptr && bytes > 0) {
      cuda_.copy_async(output, from, bytes, call.stream.handle);
      cuda_.synchronize_stream(call.stream.handle);
    }
    return make_ref<DoneWork>("staged");
  }

  template <typename Options>
  Ref<Work> run(OpKind op, const Options& o, std::size_t in, std::size_t out,
                Ref<Work> (ProcessGroup::*call)(const Options&)) {
    const std::size_t in_bytes = bytes_of(in, o.dtype, o.input);
    const std::size_t out_bytes = bytes_of(out, o.dtype, o.output);
    const std::lock_guard lock(mutex_);
    begin(op, o.call, o.input, in_bytes, input_);
    Options on_host = o;
    if (in_bytes > 0) on_host.input = input_.of(in_bytes, o.call.stream);
    if (out_bytes > 0) on_host.output = output_.of(out_bytes, o.call.stream);
    on_host.call = on_the_host(o.call);
    return finish((host_.get()->*call)(on_host), o.call, o.output, on_host.output, out_bytes);
  }

  const Ref<ProcessGroup> host_;
  cuda::Runtime& cuda_;
  std::mutex mutex_;
  Room input_, output_;
};

}  // namespace

Ref<ProcessGroup> make_staged_group(Ref<ProcessGroup> host, cuda::Runtime& runtime) {
  return make_ref<StagedGroup>(std::move(host), runtime);
}

}  // namespace dl::collectives
