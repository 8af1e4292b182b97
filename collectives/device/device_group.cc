#include "collectives/device/device_group.h"

#include <algorithm>
#include <mutex>

#include "collectives/call/calls.h"
#include "collectives/call/descriptor.h"
#include "collectives/compose/objects.h"
#include "collectives/device/staged_group.h"
#include "collectives/nccl/choice.h"
#include "collectives/nccl/nccl_group.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/device/cuda/module/module.h"

namespace dl::collectives {
namespace {

class DeviceGroup final : public ProcessGroup {
 public:
  DeviceGroup(Ref<ProcessGroup> host, const DeviceGroupOptions& options, MakeDevicePart make)
      : host_(std::move(host)), options_(options), make_(std::move(make)) {}

  int rank() const noexcept override { return host_->rank(); }
  int size() const noexcept override { return host_->size(); }
  std::string_view name() const noexcept override { return host_->name(); }
  std::string_view backend() const noexcept override { return host_->backend(); }
  std::string_view plan() const noexcept override { return host_->plan(); }

  // A CPU call costs a comparison and one more call. Without noinline GCC guesses that the inner
  // group is of this class too, and inlines the call into itself several times.
  [[gnu::noinline]] Ref<Work> all_reduce(const AllReduceOptions& o) override {
    return of(OpKind::kAllReduce, o).all_reduce(o);
  }
  [[gnu::noinline]] Ref<Work> broadcast(const BroadcastOptions& o) override {
    return of(OpKind::kBroadcast, o).broadcast(o);
  }
  [[gnu::noinline]] Ref<Work> all_gather(const AllGatherOptions& o) override {
    return of(OpKind::kAllGather, o).all_gather(o);
  }
  [[gnu::noinline]] Ref<Work> reduce_scatter(const ReduceScatterOptions& o) override {
    return of(OpKind::kReduceScatter, o).reduce_scatter(o);
  }
  [[gnu::noinline]] Ref<Work> barrier(const BarrierOptions& o) override {
    return of(OpKind::kBarrier, o).barrier(o);
  }
  [[gnu::noinline]] Ref<Work> send(const SendOptions& o) override {
    return of(OpKind::kSend, o).send(o);
  }
  [[gnu::noinline]] Ref<Work> recv(const RecvOptions& o) override {
    return of(OpKind::kRecv, o).recv(o);
  }
  [[gnu::noinline]] Ref<Work> batch(std::span<const PeerMessage> messages) override {
    refuse_if_ended("batch");
    if (messages.empty()) return host_->batch(messages);
    const Device device = options_of(messages.front()).stream.device;
    for (const PeerMessage& message : messages) {
      const Device other = options_of(message).stream.device;
      DL_CHECK(other == device, kInvalidArgument,
               "batch: one message is on {}, another on {}; a batch is for one device",
               device.str(), other.str());
    }
    if (device.type == DeviceType::kCPU) return host_->batch(messages);
    return device_part("batch", device, true).batch(messages);
  }
  [[gnu::noinline]] Ref<Work> all_reduce_list(std::span<const AllReduceOptions> parts,
                                              const CallOptions& call) override {
    return on(OpKind::kAllReduce, call.stream.device).all_reduce_list(parts, call);
  }
  [[gnu::noinline]] Ref<Work> reduce(const ReduceOptions& o) override {
    return of(OpKind::kReduce, o).reduce(o);
  }
  [[gnu::noinline]] Ref<Work> gather(const GatherOptions& o) override {
    return of(OpKind::kGather, o).gather(o);
  }
  [[gnu::noinline]] Ref<Work> scatter(const ScatterOptions& o) override {
    return of(OpKind::kScatter, o).scatter(o);
  }
  [[gnu::noinline]] Ref<Work> all_to_all(const AllToAllOptions& o) override {
    return of(OpKind::kAllToAll, o).all_to_all(o);
  }
  [[gnu::noinline]] Ref<Work> all_gatherv(const AllGathervOptions& o) override {
    return of(OpKind::kAllGatherv, o).all_gatherv(o);
  }
  [[gnu::noinline]] Ref<Work> reduce_scatterv(const ReduceScattervOptions& o) override {
    return of(OpKind::kReduceScatterv, o).reduce_scatterv(o);
  }
  [[gnu::noinline]] Ref<Work> gatherv(const GathervOptions& o) override {
    return of(OpKind::kGatherv, o).gatherv(o);
  }
  [[gnu::noinline]] Ref<Work> scatterv(const ScattervOptions& o) override {
    return of(OpKind::kScatterv, o).scatterv(o);
  }
  [[gnu::noinline]] Ref<Work> all_to_allv(const AllToAllvOptions& o) override {
    return of(OpKind::kAllToAllv, o).all_to_allv(o);
  }

  // The new group connects over NCCL itself, at its own first collective with CUDA memory.
  Ref<ProcessGroup> split(const SplitOptions& o) override {
    refuse_if_ended("split");
    Ref<ProcessGroup> made = host_->split(o);
    if (!made) return made;
    DeviceGroupOptions options = options_;
    options.timeout = o.timeout.value_or(options_.timeout);
    options.ended = nullptr;
    return make_ref<DeviceGroup>(std::move(made), options, make_);
  }
  Ref<SymmetricMemory> allocate_symmetric(std::size_t bytes) override {
    refuse_if_ended("allocate_symmetric");
    return host_->allocate_symmetric(bytes);
  }
  Ref<SymmetricMemory> register_symmetric(void* data, std::size_t bytes,
                                          Ref<RefCounted> owner) override {
    refuse_if_ended("register_symmetric");
    return host_->register_symmetric(data, bytes, std::move(owner));
  }

  void abort(std::string_view reason) noexcept override {
    if (const Ref<ProcessGroup> device = part()) device->abort(reason);
    host_->abort(reason);
  }
  int rank_in_job() const noexcept override { return host_->rank_in_job(); }
  // Each part numbers its own operations.
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> /*spared*/) noexcept override {
    if (const Ref<ProcessGroup> device = part()) device->fail(cause, std::nullopt);
    host_->fail(cause, std::nullopt);
  }
  std::exception_ptr gone_rank() const override { return host_->gone_rank(); }
  std::exception_ptr error() const noexcept override {
    const Ref<ProcessGroup> device = part();
    const std::exception_ptr cause = device ? device->error() : nullptr;
    return cause ? cause : host_->error();
  }
  Ref<FirstError> background_error() const noexcept override {
    const Ref<ProcessGroup> device = part();
    return device ? device->background_error() : nullptr;
  }

 private:
  template <typename Options>
  ProcessGroup& of(OpKind op, const Options& o) {
    return on(op, o.call.stream.device);
  }
  ProcessGroup& on(OpKind op, Device device) {
    if (has_ended()) [[unlikely]]
      refuse_if_ended(name_of(op));
    if (device.type == DeviceType::kCPU) [[likely]]
      return *host_;
    return device_part(name_of(op), device, op == OpKind::kSend || op == OpKind::kRecv);
  }

  bool has_ended() const noexcept {
    return options_.ended && options_.ended->is_so.load(std::memory_order_relaxed);
  }
  [[gnu::noinline]] void refuse_if_ended(std::string_view call) const {
    DL_CHECK(!has_ended(), kInvalidArgument,
             "{}: destroy_process_group() has ended group '{}'; call init_process_group() and take "
             "default_group() again",
             call, name());
  }

  Ref<ProcessGroup> part() const noexcept {
    const std::lock_guard lock(mutex_);
    return device_;
  }

  [[gnu::noinline]] ProcessGroup& device_part(std::string_view call, Device device,
                                              bool is_message) {
    const std::lock_guard making(make_mutex_);
    if (!device_) {
      DL_CHECK(!is_message, kInvalidArgument,
               "{}: it is group '{}''s first operation on {}, and all ranks must meet there first; "
               "call barrier with a CUDA stream on every rank",
               call, name(), device.str());
      Ref<ProcessGroup> made = make_(host_, device.index, options_);
      const std::lock_guard lock(mutex_);
      device_ = std::move(made);
    }
    return *device_;
  }

  const Ref<ProcessGroup> host_;
  const DeviceGroupOptions options_;
  const MakeDevicePart make_;
  std::mutex make_mutex_;
  mutable std::mutex mutex_;
  Ref<ProcessGroup> device_;  // set once
};

}  // namespace

void require_nccl() {
  try {
    cuda::runtime();
    nccl::open_module();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("backend nccl: {}", error.what()));
  }
}

Ref<ProcessGroup> make_device_part(const Ref<ProcessGroup>& host, int device,
                                   const DeviceGroupOptions& options) {
  cuda::Runtime& runtime = cuda::runtime();
  nccl::Offer own{.gpu = runtime.properties(device).uuid,
                  .shares = env::get(env::Var::kNcclSharedGpu).value_or("0") == "1"};
  const nccl::Module* module = nullptr;
  try {
    module = &nccl::open_module();
    module->get_version(&own.version);
  } catch (const Error& error) {
    own.lacks = error.what();
    std::replace(own.lacks.begin(), own.lacks.end(), '\n', ' ');
  }
  std::vector<nccl::Offer> offers;
  for (const std::string& text : all_gather_bytes(*host, own.text())) {
    offers.push_back(nccl::Offer::parse(text));
  }
  const nccl::Decision decision = nccl::decide(offers);
  if (!decision.obstacle.empty()) {
    DL_CHECK(!options.must_be_nccl, kConnection,
             "backend nccl: {}; with `auto` CUDA memory would go through the host",
             decision.obstacle);
    if (host->rank() == 0) {
      log::warning("group '{}': CUDA memory goes through the host, as {}", host->name(),
                   decision.obstacle);
    }
    return make_staged_group(host, runtime);
  }
  if (decision.is_shared) nccl::prepare_sharing(own.version);
  return make_nccl_group({.module = module,
                          .runtime = &runtime,
                          .device = device,
                          .host = host,
                          .timeout = options.timeout,
                          .connect_timeout = options.timeout,
                          .notices = options.notices,
                          .recorder = options.recorder});
}

Ref<ProcessGroup> make_device_group(Ref<ProcessGroup> host, const DeviceGroupOptions& options,
                                    MakeDevicePart make) {
  return make_ref<DeviceGroup>(std::move(host), options, std::move(make));
}

}  // namespace dl::collectives
