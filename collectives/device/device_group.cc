#include "collectives/device/device_group.h"

#include <algorithm>

#include "collectives/call/call.h"
#include "collectives/compose/objects.h"
#include "collectives/device/staged_group.h"
#include "collectives/nccl/library/choice.h"
#include "collectives/nccl/nccl_group.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/device/cuda/graph.h"
#include "core/device/cuda/module/module.h"

namespace dl::collectives {
namespace {

class GroupPeers final : public cuda::GraphPeers {
 public:
  explicit GroupPeers(Ref<ProcessGroup> group) : group_(std::move(group)) {}
  int rank() const noexcept override { return group_->rank(); }
  std::string first_reason(const std::string& why) override {
    if (group_->size() == 1) return why;
    const std::vector<std::string> all = all_gather_bytes(*group_, why);
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (!all[r].empty()) return fmt::format("rank {}: {}", r, all[r]);
    }
    return {};
  }
  void check() const override {
    if (const std::exception_ptr cause = group_->error()) std::rethrow_exception(cause);
  }

 private:
  const Ref<ProcessGroup> group_;
};

class DeviceGroup final : public ProcessGroup {
 public:
  DeviceGroup(Ref<ProcessGroup> host, const DeviceGroupOptions& options, MakeDevicePart make)
      : ProcessGroup(host->rank(), host->size(), std::string(host->name()), host->backend(),
                     std::string(host->plan())),
        host_(std::move(host)),
        options_(options),
        make_(std::move(make)) {}

  // A CPU call costs one comparison and one more virtual call. Without noinline, GCC guesses that
  // the inner group is a DeviceGroup too, and inlines the call into itself several times.
  [[gnu::noinline]] Ref<Work> start(const Call& call) override {
    return on(call.row().name, call.options->stream.device, call.row().is_message).start(call);
  }
  [[gnu::noinline]] Ref<Work> start_all(std::span<const Call> calls) override {
    const bool is_batch = calls.empty() || calls.front().row().is_message;
    const std::string_view name = is_batch ? "batch" : calls.front().row().name;
    refuse_if_ended(name);
    if (calls.empty()) return host_->start_all(calls);
    const Device device = calls.front().options->stream.device;
    for (const Call& call : calls) {
      const Device other = call.options->stream.device;
      DL_CHECK(other == device, kInvalidArgument,
               "batch: one message is on {}, another on {}; a batch is for one device",
               device.str(), other.str());
    }
    return on(name, device, is_batch).start_all(calls);
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
    refuse_if_ended("allocate");
    return host_->allocate_symmetric(bytes);
  }
  Ref<SymmetricMemory> register_symmetric(void* data, std::size_t bytes,
                                          Ref<RefCounted> owner) override {
    refuse_if_ended("register");
    return host_->register_symmetric(data, bytes, std::move(owner));
  }

  void abort(std::string_view reason) noexcept override {
    if (const Ref<ProcessGroup> device = part()) device->abort(reason);
    host_->abort(reason);
  }
  int rank_in_job() const noexcept override { return host_->rank_in_job(); }
  Identity identity(int rank) const override { return host_->identity(rank); }
  // Sequence numbers differ between the parts, so neither can use `completes_until`.
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> /*completes_until*/) noexcept override {
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
  ProcessGroup& on(std::string_view call, Device device, bool is_message) {
    if (has_ended()) [[unlikely]]
      refuse_if_ended(call);
    if (device.type == DeviceType::kCPU) [[likely]]
      return *host_;
    return device_part(call, device, is_message);
  }

  bool has_ended() const noexcept {
    return options_.ended && options_.ended->is_so.load(std::memory_order_relaxed);
  }
  [[gnu::noinline]] void refuse_if_ended(std::string_view call) const {
    DL_CHECK(
        !has_ended(), kInvalidArgument,
        "{}: group '{}' has ended with the group of init, which this process has destroyed; call "
        "init again, and use the group that it makes",
        call, name());
  }

  Ref<ProcessGroup> part() const noexcept {
    const Lock lock(mutex_);
    return device_;
  }

  [[gnu::noinline]] ProcessGroup& device_part(std::string_view call, Device device,
                                              bool is_message) {
    cuda::note_peers(this, [this] { return make_ref<GroupPeers>(Ref<ProcessGroup>(this)); });
    const Lock making(make_mutex_);
    Ref<ProcessGroup> device_group = part();
    if (!device_group) {
      DL_CHECK(!is_message, kInvalidArgument,
               "{}: it is group '{}''s first operation on {}, and all ranks must meet there first; "
               "call barrier with a CUDA stream on every rank",
               call, name(), device.str());
      device_group = make_(host_, device.index, options_);
      const Lock lock(mutex_);
      device_ = device_group;
    }
    return *device_group;  // device_ keeps it
  }

  const Ref<ProcessGroup> host_;
  const DeviceGroupOptions options_;
  const MakeDevicePart make_;
  Mutex make_mutex_;
  mutable Mutex mutex_;
  Ref<ProcessGroup> device_ DL_GUARDED_BY(mutex_);  // set once, under make_mutex_
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
