#include <algorithm>
#include <variant>
#include <vector>

#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"
#include "collectives/compose/objects.h"
#include "collectives/join/roster.h"
#include "collectives/nccl/core.h"
#include "collectives/waiting/joined_work.h"
#include "core/base/error.h"

namespace dl::collectives {
namespace nccl {
namespace {

std::size_t sum_before(std::span<const std::size_t> counts, int rank) noexcept {
  std::size_t sum = 0;
  for (int r = 0; r < rank; ++r) sum += counts[static_cast<std::size_t>(r)];
  return sum;
}

// Owners of the buffers of a batch.
struct Owners final : RefCounted {
  std::vector<Ref<RefCounted>> held;
};

class Group final : public ProcessGroup {
 public:
  explicit Group(Ref<Core> core)
      : core_(std::move(core)),
        nccl_(*core_->options().module),
        cuda_(*core_->options().runtime),
        rank_(core_->rank()),
        token_(cuda_.allocate(core_->options().device, kTokenBytes)) {
    DL_CHECK(token_ != nullptr, kIo, "group '{}': cuda:{} has no memory left", core_->name(),
             core_->options().device);
    static constexpr std::byte kZeros[kTokenBytes] = {};
    cuda_.copy_async(token_, kZeros, sizeof kZeros, core_->stream());
  }
  // The watcher ends here; Works that are left keep only their events.
  ~Group() override {
    core_->close();
    if (core_->is_in_child()) return;
    cuda_.deallocate(core_->options().device, token_);
  }

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return core_->size(); }
  std::string_view name() const noexcept override { return core_->name(); }
  std::string_view backend() const noexcept override { return "nccl"; }

  Ref<Work> all_reduce(const AllReduceOptions& o) override {
    check_all_reduce(o);
    check_reduce_op(OpKind::kAllReduce, o.dtype, o.op);
    return launch(descriptor_of(o), o.call, [&](void* stream) { enqueue(o, stream); });
  }
  Ref<Work> all_reduce_list(std::span<const AllReduceOptions> parts,
                            const CallOptions& call) override {
    Descriptor what{.op = OpKind::kAllReduce, .dtype = DType::kF32};
    for (const AllReduceOptions& part : parts) {
      check_all_reduce(part);
      check_reduce_op(OpKind::kAllReduce, part.dtype, part.op);
      what.count += part.count;
      what.dtype = part.dtype;
      what.reduce = part.op;
    }
    return launch(what, call, [&](void* stream) {
      for (const AllReduceOptions& part : parts) enqueue(part, stream);
    });
  }
  Ref<Work> reduce(const ReduceOptions& o) override {
    check_reduce(o, rank_, size());
    check_reduce_op(OpKind::kReduce, o.dtype, o.op);
    return launch(descriptor_of(o), o.call, [&](void* stream) {
      reduce_to(o.root, o.input, o.output, o.count, o.dtype, o.op, stream);
    });
  }
  Ref<Work> reduce_scatter(const ReduceScatterOptions& o) override {
    check_reduce_scatter(o, rank_, size());
    check_reduce_op(OpKind::kReduceScatter, o.dtype, o.op);
    return launch(descriptor_of(o), o.call, [&](void* stream) {
      core_->check(nccl_.reduce_scatter(o.input, o.output, o.count, o.dtype, o.op, comm(), stream),
                   "ncclReduceScatter");
    });
  }
  Ref<Work> broadcast(const BroadcastOptions& o) override {
    check_broadcast(o, size());
    return launch(descriptor_of(o), o.call, [&](void* stream) {
      core_->check(nccl_.broadcast(o.buffer, o.count * size_of(o.dtype), o.root, comm(), stream),
                   "ncclBroadcast");
    });
  }
  Ref<Work> all_gather(const AllGatherOptions& o) override {
    check_all_gather(o, rank_, size());
    return launch(descriptor_of(o), o.call, [&](void* stream) {
      core_->check(nccl_.all_gather(o.input, o.output, o.count * size_of(o.dtype), comm(), stream),
                   "ncclAllGather");
    });
  }
  // An all-reduce of one element whose result is not used.
  Ref<Work> barrier(const BarrierOptions& o) override {
    return launch({.op = OpKind::kBarrier}, o.call, [&](void* stream) {
      core_->check(nccl_.all_reduce(token_, token_, 1, DType::kU8, ReduceOp::kMax, comm(), stream),
                   "ncclAllReduce");
    });
  }

  Ref<Work> send(const SendOptions& o) override {
    return launch(check_message(o), o.call, [&](void* stream) { enqueue(o, stream); });
  }
  Ref<Work> recv(const RecvOptions& o) override {
    return launch(check_message(o), o.call, [&](void* stream) { enqueue(o, stream); });
  }
  // All messages in one NCCL group: if they ran one after the other on the stream, a receive would
  // block the send behind it.
  Ref<Work> batch(std::span<const PeerMessage> messages) override {
    if (messages.empty()) return join({});
    const auto what_of = [this](const PeerMessage& message) {
      return std::visit([this](const auto& o) { return check_message(o); }, message);
    };
    CallOptions call = options_of(messages.front());
    std::chrono::nanoseconds earliest = std::chrono::nanoseconds::max();
    const auto owners = make_ref<Owners>();
    for (const PeerMessage& message : messages) {
      static_cast<void>(what_of(message));
      const CallOptions& own = options_of(message);
      DL_CHECK(own.stream.handle == call.stream.handle, kInvalidArgument,
               "batch: over NCCL its messages are one operation of one stream, and these are on "
               "several");
      earliest = std::min(earliest, own.timeout.value_or(core_->options().timeout));
      owners->held.push_back(own.holds);
    }
    call.timeout = earliest;
    call.holds = owners;
    return launch(what_of(messages.front()), call, [&](void* stream) {
      for (const PeerMessage& message : messages) {
        std::visit([&](const auto& o) { enqueue(o, stream); }, message);
      }
    });
  }

  Ref<Work> gather(const GatherOptions& o) override {
    const std::vector<std::size_t> counts = equal_counts(o.count, size());
    return gather_parts(descriptor_of(o), as_parts(o, counts));
  }
  Ref<Work> gatherv(const GathervOptions& o) override {
    return gather_parts({.root = o.root, .op = OpKind::kGatherv, .dtype = o.dtype}, o);
  }
  Ref<Work> scatter(const ScatterOptions& o) override {
    const std::vector<std::size_t> counts = equal_counts(o.count, size());
    return scatter_parts(descriptor_of(o), as_parts(o, counts));
  }
  Ref<Work> scatterv(const ScattervOptions& o) override {
    return scatter_parts({.root = o.root, .op = OpKind::kScatterv, .dtype = o.dtype}, o);
  }
  Ref<Work> all_to_all(const AllToAllOptions& o) override {
    const std::vector<std::size_t> counts = equal_counts(o.count, size());
    return all_to_all_parts(descriptor_of(o), as_parts(o, counts));
  }
  Ref<Work> all_to_allv(const AllToAllvOptions& o) override {
    return all_to_all_parts({.op = OpKind::kAllToAllv, .dtype = o.dtype}, o);
  }
  Ref<Work> all_gatherv(const AllGathervOptions& o) override {
    const std::size_t count = check_parts(OpKind::kAllGatherv, o, rank_, size());
    return launch({.count = count, .op = OpKind::kAllGatherv, .dtype = o.dtype}, o.call,
                  [&](void* stream) {
                    const std::size_t element = size_of(o.dtype);
                    for (int r = 0; r < size(); ++r) {
                      send_to(r, o.input, part(o.counts, rank_) * element, stream);
                      receive_from(r, at(o.output, o.counts, r, element),
                                   part(o.counts, r) * element, stream);
                    }
                  });
  }
  Ref<Work> reduce_scatterv(const ReduceScattervOptions& o) override {
    const std::size_t count = check_parts(OpKind::kReduceScatterv, o, rank_, size());
    check_reduce_op(OpKind::kReduceScatterv, o.dtype, o.op);
    return launch({.count = count, .op = OpKind::kReduceScatterv, .dtype = o.dtype, .reduce = o.op},
                  o.call, [&](void* stream) {
                    for (int r = 0; r < size(); ++r) {
                      reduce_to(r, at(o.input, o.counts, r, size_of(o.dtype)), o.output,
                                part(o.counts, r), o.dtype, o.op, stream);
                    }
                  });
  }

  void abort(std::string_view reason) noexcept override { core_->abort(reason); }
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> /*spared*/) noexcept override {
    core_->fail(cause);
  }
  std::exception_ptr error() const noexcept override { return core_->error(); }
  Ref<FirstError> background_error() const noexcept override { return core_->first_error(); }

 private:
  static std::size_t part(std::span<const std::size_t> counts, int r) noexcept {
    return counts[static_cast<std::size_t>(r)];
  }
  static std::byte* at(void* base, std::span<const std::size_t> counts, int r,
                       std::size_t element) noexcept {
    return static_cast<std::byte*>(base) + sum_before(counts, r) * element;
  }
  static const std::byte* at(const void* base, std::span<const std::size_t> counts, int r,
                             std::size_t element) noexcept {
    return static_cast<const std::byte*>(base) + sum_before(counts, r) * element;
  }

  Comm comm() const noexcept { return core_->comm(); }

  Ref<Work> launch(const Descriptor& what, const CallOptions& call, const Core::Enqueue& enqueue) {
    const Device own{DeviceType::kCUDA, static_cast<std::int16_t>(core_->options().device)};
    DL_CHECK(call.stream.device == own, kInvalidArgument,
             "{}: the stream is one of {}, and this group's memory is that of {}", name_of(what.op),
             call.stream.device.str(), own.str());
    DL_CHECK(call.order == Order::kPlan, kNotImplemented,
             "{}: NCCL has an order of additions of its own; Order::kTree is for memory of the CPU",
             name_of(what.op));
    return core_->launch(what, call, enqueue);
  }

  void check_reduce_op(OpKind kind, DType dtype, ReduceOp op) const {
    DL_CHECK(can_reduce(dtype, op), kNotImplemented,
             "{}: NCCL has no {} of {}; reduce a copy on the CPU", name_of(kind), name_of(op),
             dl::name_of(dtype));
  }

  template <typename Options>
  Descriptor check_message(const Options& o) const {
    const Descriptor what = descriptor_of(o);
    DL_CHECK(o.peer != kAnySource, kNotImplemented,
             "{}: NCCL receives from a rank that is named, not from any source", name_of(what.op));
    check_peer(what, o.peer, rank_, size(), o.buffer);
    DL_CHECK(o.tag == 0, kNotImplemented,
             "{}: tag is {}, and NCCL has none: the messages of two ranks are taken in order",
             name_of(what.op), o.tag);
    return what;
  }
  void enqueue(const AllReduceOptions& o, void* stream) {
    core_->check(nccl_.all_reduce(o.input, o.output, o.count, o.dtype, o.op, comm(), stream),
                 "ncclAllReduce");
  }
  void enqueue(const SendOptions& o, void* stream) {
    send_to(o.peer, o.buffer, o.count * size_of(o.dtype), stream);
  }
  void enqueue(const RecvOptions& o, void* stream) {
    receive_from(o.peer, o.buffer, o.count * size_of(o.dtype), stream);
  }

  void send_to(int peer, const void* buffer, std::size_t bytes, void* stream) {
    core_->check(nccl_.send(buffer, bytes, peer, comm(), stream), "ncclSend");
  }
  void receive_from(int peer, void* buffer, std::size_t bytes, void* stream) {
    core_->check(nccl_.receive(buffer, bytes, peer, comm(), stream), "ncclRecv");
  }
  void reduce_to(int root, const void* input, void* output, std::size_t count, DType dtype,
                 ReduceOp op, void* stream) {
    core_->check(nccl_.reduce(input, output, count, dtype, op, root, comm(), stream), "ncclReduce");
  }

  // A rank also sends its own part to itself, which NCCL turns into a copy.
  Ref<Work> gather_parts(const Descriptor& what, const GathervOptions& o) {
    check_parts(what.op, o, rank_, size());
    return launch(what, o.call, [&](void* stream) {
      const std::size_t element = size_of(o.dtype);
      send_to(o.root, o.input, o.count * element, stream);
      for (int r = 0; rank_ == o.root && r < size(); ++r) {
        receive_from(r, at(o.output, o.counts, r, element), part(o.counts, r) * element, stream);
      }
    });
  }
  Ref<Work> scatter_parts(const Descriptor& what, const ScattervOptions& o) {
    check_parts(what.op, o, rank_, size());
    return launch(what, o.call, [&](void* stream) {
      const std::size_t element = size_of(o.dtype);
      for (int r = 0; rank_ == o.root && r < size(); ++r) {
        send_to(r, at(o.input, o.counts, r, element), part(o.counts, r) * element, stream);
      }
      receive_from(o.root, o.output, o.count * element, stream);
    });
  }
  Ref<Work> all_to_all_parts(const Descriptor& what, const AllToAllvOptions& o) {
    check_parts(what.op, o, rank_, size());
    const bool in_place = o.input == o.output && sum_before(o.send_counts, size()) > 0;
    DL_CHECK(!in_place || can_run_in_place(what.op), kNotImplemented,
             "{}: NCCL does not do it in place; give another output", name_of(what.op));
    return launch(what, o.call, [&](void* stream) {
      const std::size_t element = size_of(o.dtype);
      for (int r = 0; r < size(); ++r) {
        send_to(r, at(o.input, o.send_counts, r, element), part(o.send_counts, r) * element,
                stream);
        receive_from(r, at(o.output, o.receive_counts, r, element),
                     part(o.receive_counts, r) * element, stream);
      }
    });
  }

  static constexpr std::size_t kTokenBytes = 16;

  Ref<Core> core_;
  const Module& nccl_;
  cuda::Runtime& cuda_;
  const int rank_;
  void* const token_;  // device memory for barriers
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
