#include <algorithm>
#include <vector>

#include "collectives/call/call.h"
#include "collectives/compose/objects.h"
#include "collectives/join/roster.h"
#include "collectives/nccl/core.h"
#include "collectives/waiting/joined_work.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace nccl {
namespace {

// Owners of the buffers of a batch.
struct Owners final : RefCounted {
  std::vector<Ref<RefCounted>> held;
};

class Group final : public ProcessGroup {
 public:
  explicit Group(Ref<Core> core)
      : ProcessGroup(core->rank(), core->size(), core->name(), "nccl"),
        core_(std::move(core)),
        nccl_(*core_->options().module),
        cuda_(*core_->options().runtime),
        token_(cuda_.allocate(core_->options().device, kTokenBytes)) {
    DL_CHECK(token_ != nullptr, kIo, "group '{}': cuda:{} has no memory left", core_->name(),
             core_->options().device);
    static constexpr std::byte kZeros[kTokenBytes] = {};
    cuda_.copy_async(token_, kZeros, sizeof kZeros, core_->stream());
  }
  // The watcher ends here. Works that still exist keep only their events.
  ~Group() override {
    core_->close();
    if (core_->failure().is_in_child()) return;
    cuda_.deallocate(core_->options().device, token_);
  }

  Ref<Work> start(const Call& call) override {
    check_call(call);
    return core_->launch(call.what, call.row().is_message ? call.peer : -1, *call.options,
                         [&](void* stream) { enqueue(call, stream); });
  }
  // All calls in one NCCL group: if messages ran one after the other on the stream, a receive would
  // block the send behind it.
  Ref<Work> start_all(std::span<const Call> calls) override {
    if (calls.empty()) return join({});
    const Call& first = calls.front();
    CallOptions options = *first.options;
    Descriptor what = first.what;
    what.count = 0;
    std::chrono::nanoseconds earliest = std::chrono::nanoseconds::max();
    const auto owners = make_ref<Owners>();
    for (const Call& call : calls) {
      check_call(call);
      DL_CHECK(
          call.options->stream.handle == options.stream.handle, kInvalidArgument,
          "batch: over NCCL it is one operation on one stream, but its messages are on several; "
          "make a batch for each stream");
      earliest = std::min(earliest, call.options->timeout.value_or(core_->options().timeout));
      owners->held.push_back(call.options->keep_alive);
      what.count += call.what.count;
    }
    int peer = -1;
    if (first.row().is_message) {
      what.count = first.what.count;
      // The batch is named by its first message.
      const auto is_to_first = [&](const Call& call) { return call.peer == first.peer; };
      if (std::ranges::all_of(calls, is_to_first)) peer = first.peer;
    }
    options.timeout = earliest;
    options.keep_alive = owners;
    return core_->launch(what, peer, options, [&](void* stream) {
      for (const Call& call : calls) enqueue(call, stream);
    });
  }

  void abort(std::string_view reason) noexcept override { core_->abort(reason); }
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> /*completes_until*/) noexcept override {
    core_->fail(cause_of(cause));
  }
  std::exception_ptr error() const noexcept override { return core_->failure().error(); }
  Ref<FirstError> background_error() const noexcept override { return core_->failure().first(); }

 private:
  Comm comm() const noexcept { return core_->comm(); }

  void check_call(const Call& call) const {
    const CallOptions& options = *call.options;
    const std::string_view name = call.row().name;
    const Device own{DeviceType::kCUDA, static_cast<std::int16_t>(core_->options().device)};
    DL_CHECK(options.stream.device == own, kInvalidArgument,
             "{}: the stream is on {}, but this group works on memory of {}", name,
             options.stream.device.str(), own.str());
    DL_CHECK(options.order == Order::kPlan, kNotImplemented,
             "{}: NCCL chooses the order of additions; Order::kTree works on CPU memory only",
             name);
    DL_CHECK(!call.row().reduces || can_reduce(call.what.dtype, call.what.reduce), kNotImplemented,
             "{}: NCCL has no {} of {}; reduce a copy on the CPU", name, name_of(call.what.reduce),
             dl::name_of(call.what.dtype));
    if (call.row().is_message) {
      DL_CHECK(call.peer != kAnySource, kNotImplemented,
               "{}: NCCL cannot receive from any source; name the peer", name);
      DL_CHECK(
          call.what.root == 0, kNotImplemented,
          "{}: tag is {}, but NCCL has no tags; use 0: messages between two ranks keep their order",
          name, static_cast<std::uint32_t>(call.what.root));
      return;
    }
    DL_CHECK(
        call.input != call.output || call.gives.all(size()) == 0 || can_run_in_place(call.what.op),
        kNotImplemented, "{}: NCCL does not do it in place; give another output", name);
  }

  void enqueue(const Call& call, void* stream) {
    const Descriptor& d = call.what;
    const std::size_t bytes = d.count * size_of(d.dtype);
    switch (d.op) {
      case OpKind::kAllReduce:
        return core_->check(
            nccl_.all_reduce(call.input, call.output, d.count, d.dtype, d.reduce, comm(), stream),
            "ncclAllReduce");
      case OpKind::kBarrier:  // an all-reduce of one element whose result is not used
        return core_->check(
            nccl_.all_reduce(token_, token_, 1, DType::kU8, ReduceOp::kMax, comm(), stream),
            "ncclAllReduce");
      case OpKind::kBroadcast:
        return core_->check(nccl_.broadcast(call.output, bytes, d.root, comm(), stream),
                            "ncclBroadcast");
      case OpKind::kAllGather:
        return core_->check(nccl_.all_gather(call.input, call.output, bytes, comm(), stream),
                            "ncclAllGather");
      case OpKind::kReduceScatter:
        return core_->check(nccl_.reduce_scatter(call.input, call.output, d.count, d.dtype,
                                                 d.reduce, comm(), stream),
                            "ncclReduceScatter");
      case OpKind::kReduce:
        return reduce_to(d.root, call.input, call.output, d.count, call, stream);
      case OpKind::kReduceScatterv:
        for (int r = 0; r < size(); ++r) {
          reduce_to(r, part_of(call.input, call.gives, r, d.dtype), call.output,
                    call.gives.count(r), call, stream);
        }
        return;
      case OpKind::kSend:
        return send_to(call.peer, call.input, bytes, stream);
      case OpKind::kRecv:
        return receive_from(call.peer, call.output, bytes, stream);
      default:
        return exchange(call, stream);
    }
  }

  // The operations that NCCL makes of messages. A rank also sends its own part to itself, which
  // NCCL turns into a copy.
  void exchange(const Call& call, void* stream) {
    const DType dtype = call.what.dtype;
    const std::size_t element = size_of(dtype);
    const Root root = call.row().root;
    for (int r = 0; r < size(); ++r) {
      if (call.reads(rank()) && (root != Root::kTakes || r == call.what.root)) {
        send_to(r, part_of(call.input, call.gives, r, dtype), call.gives.count(r) * element,
                stream);
      }
      if (call.writes(rank()) && (root != Root::kGives || r == call.what.root)) {
        receive_from(r, part_of(call.output, call.takes, r, dtype), call.takes.count(r) * element,
                     stream);
      }
    }
  }

  static std::byte* part_of(const void* buffer, const PartsView& parts, int r, DType dtype) {
    return static_cast<std::byte*>(const_cast<void*>(buffer)) + parts.before(r) * size_of(dtype);
  }

  void send_to(int peer, const void* buffer, std::size_t bytes, void* stream) {
    core_->check(nccl_.send(buffer, bytes, peer, comm(), stream), "ncclSend");
  }
  void receive_from(int peer, void* buffer, std::size_t bytes, void* stream) {
    core_->check(nccl_.receive(buffer, bytes, peer, comm(), stream), "ncclRecv");
  }
  void reduce_to(int root, const void* input, void* output, std::size_t count, const Call& call,
                 void* stream) {
    core_->check(
        nccl_.reduce(input, output, count, call.what.dtype, call.what.reduce, root, comm(), stream),
        "ncclReduce");
  }

  static constexpr std::size_t kTokenBytes = 16;

  Ref<Core> core_;
  const Module& nccl_;
  cuda::Runtime& cuda_;
  void* const token_;  // one element of device memory, for barriers
};

}  // namespace

// NCCL averages integers by dividing the wrapped sum, so avg of integers is refused.
bool can_reduce(DType dtype, ReduceOp op) noexcept {
  if (dtype == DType::kI16 || dtype == DType::kU16) return false;
  const bool is_bitwise = op == ReduceOp::kBand || op == ReduceOp::kBor || op == ReduceOp::kBxor;
  if (is_bitwise) return dtype == DType::kBool && op != ReduceOp::kBxor;
  return op != ReduceOp::kAvg || is_floating(dtype);
}

bool can_run_in_place(OpKind kind) noexcept {
  return kind != OpKind::kAllToAll && kind != OpKind::kAllToAllv;
}

}  // namespace nccl

Ref<ProcessGroup> make_nccl_group(const NcclGroupOptions& options) {
  ProcessGroup& host = *options.host;
  const Deadline deadline = Deadline::after(options.connect_timeout);
  const Identity own = this_process(host.rank(), "");
  std::vector<Identity> ranks;
  const std::string line = fmt::format("{} {} {}", own.pid, host.rank_in_job(), own.host);
  for (const std::string& text : all_gather_bytes(host, line)) {
    const std::size_t first = text.find(' ');
    const std::size_t second = text.find(' ', first + 1);
    ranks.push_back({.rank = static_cast<int>(ranks.size()),
                     .host = text.substr(second + 1),
                     .pid = std::stoi(text),
                     .job_rank = std::stoi(text.substr(first + 1))});
  }
  nccl::UniqueId id{};
  if (host.rank() == 0) {
    const int code = options.module->unique_id(&id);
    if (code != nccl::kSuccess) {
      const std::string why = fmt::format("group '{}': NCCL cannot listen for the other ranks: {}",
                                          host.name(), nccl::text_of(*options.module, code));
      host.abort(why);
      throw Error(ErrorKind::kConnection, why);
    }
  }
  const std::string shared = broadcast_bytes(host, {id.bytes, sizeof id.bytes}, 0);
  shared.copy(id.bytes, sizeof id.bytes);
  auto core = make_ref<nccl::Core>(options, std::move(ranks), std::string(host.name()));
  core->connect(id, deadline);
  return make_ref<nccl::Group>(std::move(core));
}

}  // namespace dl::collectives
