#include "collectives/tcp/group.h"

#include <cstring>

#include "collectives/call/buffers.h"
#include "collectives/call/calls.h"
#include "collectives/join/split.h"

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;

// A little more than Core's kRetireTime.
constexpr auto kRetireWait = 2s;
// Up to this size the caller itself sends the data before the call returns; sending more would
// delay the caller's own work.
constexpr std::size_t kInlineBytes = 64 * 1024;

}  // namespace

Group::Group(Ref<Engine> engine, Mesh mesh, GroupOptions how, const WaitPolicy& policy,
             const Choices& choices)
    : engine_(std::move(engine)),
      core_(make_ref<Core>(std::move(mesh), how.name, how.generation, policy, how.recorder,
                           how.reports_failures)),
      how_(std::move(how)),
      choices_(choices) {
  forget_connecting(how_);
  how_.engine = nullptr;
  core_->bind(*engine_);
  // `drive` is false here: the engine's thread must learn that a group exists.
  engine_->post({.kind = Engine::Request::Kind::kAdd, .core = core_}, false);
}

Group::~Group() {
  if (core_->is_in_child()) {
    // The engine's thread does not exist in the child, and the child must not say goodbye to the
    // peers.
    core_->retain();
    engine_->retain();
    return;
  }
  if (at_exit_.has_left()) {
    AtExit::keep(core_);
    AtExit::keep(engine_);
    return;
  }
  engine_->post({.kind = Engine::Request::Kind::kRetire, .core = core_}, true);
  core_->wait_until_retired(Deadline::after(kRetireWait));
  core_->release_finished();
}

void Group::leave_at_exit() {
  engine_->post({.kind = Engine::Request::Kind::kLeave, .core = core_}, true);
  core_->wait_until_retired(Deadline::after(kExitTime + kRetireWait));
}

void Group::check_start(const Descriptor& what, const CallOptions& call) const {
  check_call(what, call, "tcp");
  at_exit_.stay_if_leaving();
  stay_or_throw([&] { throw_if_refused(what); });
}

void Group::throw_if_refused(Descriptor called) const {
  called.plan = choices_.hash();
  core_->throw_if_refused(called);
}

Ref<Work> Group::start(const Descriptor& what, const CallOptions& call, const void* input,
                       void* output, bool in_place) {
  check_start(what, call);
  return start(what, call, input, output,
               make_schedule(what, choices_.choose(what), rank(), size(), in_place));
}

Ref<Work> Group::start(const Descriptor& what, const CallOptions& call, const void* input,
                       void* output, Schedule schedule) {
  std::size_t leaving = 0;
  for (const Transfer& send : schedule.sends) leaving += send.bytes;
  Descriptor planned = what;
  planned.plan = choices_.hash();
  auto operation =
      make_ref<Collective>(engine_, core_, planned, call.timeout.value_or(how_.timeout), call.holds,
                           std::move(schedule), size(), input, output);
  stay_or_throw([&] { core_->submit(*engine_, operation, leaving <= kInlineBytes); });
  return operation;
}

Ref<Work> Group::all_reduce(const AllReduceOptions& o) {
  check_all_reduce(o);
  return start(descriptor_of(o), o.call, o.input, o.output, o.input == o.output);
}

Ref<Work> Group::broadcast(const BroadcastOptions& o) {
  check_broadcast(o, size());
  return start(descriptor_of(o), o.call, o.buffer, o.buffer, true);
}

Ref<Work> Group::all_gather(const AllGatherOptions& o) {
  const Descriptor what = descriptor_of(o);
  check_all_gather(o, rank(), size());
  check_start(what, o.call);
  // Copy here, on the caller's thread: a long copy in the driver would delay other groups.
  const std::size_t bytes = o.count * size_of(o.dtype);
  auto* const own = static_cast<std::byte*>(o.output) + static_cast<std::size_t>(rank()) * bytes;
  if (own != o.input && bytes > 0) std::memcpy(own, o.input, bytes);
  return start(what, o.call, own, o.output, true);
}

Ref<Work> Group::reduce_scatter(const ReduceScatterOptions& o) {
  check_reduce_scatter(o, rank(), size());
  return start(descriptor_of(o), o.call, o.input, o.output, false);
}

Ref<Work> Group::reduce(const ReduceOptions& o) {
  check_reduce(o, rank(), size());
  return start(descriptor_of(o), o.call, o.input, o.output, o.input == o.output);
}

Ref<Work> Group::barrier(const BarrierOptions& o) {
  return start({.op = OpKind::kBarrier}, o.call, nullptr, nullptr, true);
}

Ref<Work> Group::agree(Descriptor& what, const CallOptions& call) {
  check_start(what, call);
  const Descriptor nothing{.op = OpKind::kBarrier};
  Ref<Work> work = start(what, call, nullptr, nullptr,
                         make_schedule(nothing, choices_.choose(nothing), rank(), size(), true));
  what.sequence = static_cast<const Collective&>(*work).descriptor.sequence;
  return work;
}

Ref<Work> Group::start_message(const Descriptor& what, const CallOptions& call, int peer,
                               void* buffer) {
  check_peer(what, peer, rank(), size(), buffer);
  check_start(what, call);
  auto message = make_ref<Message>(engine_, core_, what, call.timeout.value_or(how_.timeout),
                                   call.holds, peer, static_cast<std::byte*>(buffer));
  stay_or_throw([&] { core_->submit(*engine_, message, true); });
  return message;
}

Ref<Work> Group::send(const SendOptions& o) {
  return start_message(descriptor_of(o), o.call, o.peer, const_cast<void*>(o.buffer));
}

Ref<Work> Group::recv(const RecvOptions& o) {
  return start_message(descriptor_of(o), o.call, o.peer, o.buffer);
}

void Group::fail(const std::exception_ptr& cause, std::optional<std::uint64_t> spared) noexcept {
  if (core_->is_in_child()) return;  // a forked child does not speak for the rank
  try {
    engine_->post({.kind = Engine::Request::Kind::kFail,
                   .core = core_,
                   .cause = cause_of(cause),
                   .spared = spared},
                  true);
  } catch (...) {
    // Out of memory: the peers will notice this rank's exit instead.
  }
}

void Group::ask_peers() {
  if (core_->is_in_child()) return;
  engine_->inspect([&] { core_->ask_peers(); });
}

std::vector<Identity> Group::silent_peers(Deadline::Clock::time_point asked, Deadline until) {
  if (core_->is_in_child()) return {};
  for (bool is_last = false;;) {
    const std::uint64_t known = core_->news();
    std::vector<Identity> silent;
    bool awaits_signs = false;
    engine_->inspect([&] {
      silent = core_->silent_peers(asked);
      awaits_signs = core_->awaits_signs(asked);
    });
    // A rank counts as silent only after its host has acknowledged the probe. The host of a stopped
    // rank acknowledges about 40 ms late (delayed ACK).
    if (!awaits_signs || is_last) return silent;
    // Data is a sign of life too, but does not wake wait_for_news().
    is_last = !core_->wait_for_news(known, until);
  }
}

void Group::abort(std::string_view reason) noexcept {
  if (core_->is_in_child()) return;
  try {
    engine_->post(
        {.kind = Engine::Request::Kind::kAbort, .core = core_, .text = std::string(reason)}, true);
  } catch (...) {
    // Out of memory: the peers will notice this rank's exit instead.
  }
}

// The parent group exchanges the new groups' addresses, so no store is needed.
Ref<ProcessGroup> Group::split(const SplitOptions& o) {
  GroupOptions how = how_;
  how.engine = engine_;
  return split_group(
      *this, o, next_split_++, std::move(how), 1,
      [](const GroupOptions& part, const SplitPlan&, SplitStore&) { return make_tcp_group(part); });
}

}  // namespace dl::collectives::tcp
