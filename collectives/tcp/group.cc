#include "collectives/tcp/group.h"

#include "collectives/algorithms/parts.h"
#include "collectives/call/checks.h"
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
    : ProcessGroup(mesh.rank, static_cast<int>(mesh.peers.size()), how.name, "tcp", how.plan.name),
      engine_(std::move(engine)),
      core_(make_ref<Core>(engine_->links(), std::move(mesh),
                           Core::Options{.name = how.name,
                                         .generation = how.generation,
                                         .policy = policy,
                                         .recorder = how.recorder,
                                         .reports_failures = how.reports_failures})),
      how_(std::move(how)),
      choices_(choices) {
  forget_connecting(how_);
  how_.engine = nullptr;
  // `drive` is false here: the engine's thread must learn that a group exists.
  engine_->post({.kind = Engine::Request::Kind::kAdd, .core = core_}, false);
}

Group::~Group() {
  if (at_exit_.keeps({core_.get(), engine_.get()}, core_->status().is_in_child())) return;
  engine_->post({.kind = Engine::Request::Kind::kRetire, .core = core_}, true);
  core_->news().wait_until_retired(Deadline::after(kRetireWait));
  core_->release_finished();
}

void Group::leave_at_exit() {
  engine_->post({.kind = Engine::Request::Kind::kLeave, .core = core_}, true);
  core_->news().wait_until_retired(Deadline::after(kExitTime + kRetireWait));
}

void Group::check_start(const Call& call) const {
  check_is_on_cpu(call, backend());
  at_exit_.stay_if_leaving();
  stay_or_throw([&] { throw_if_refused(call.what); });
}

void Group::throw_if_refused(Descriptor called) const {
  called.plan = choices_.hash();
  core_->throw_if_refused(called);
}

Ref<Work> Group::start(const Call& given) {
  check_start(given);
  if (given.row().is_message) return start_message(given);
  Call call = given;
  call.what.plan = choices_.hash();
  if (call.exchanges_in_place()) {
    const SeparateCall separate(call, size());
    return start(separate.call(), parts_schedule(call, rank(), size()));
  }
  copy_own_part(call, rank());
  return start(call, choices_.schedule(call, rank(), size()));
}

Ref<Work> Group::start(const Call& call, Schedule schedule) {
  std::size_t leaving = 0;
  for (const Transfer& send : schedule.sends) leaving += send.bytes;
  auto operation = make_ref<Waited<Collective>>(Waiter{engine_, core_}, call,
                                                call.options->timeout.value_or(how_.timeout),
                                                std::move(schedule), size());
  stay_or_throw([&] { core_->submit(*engine_, operation, leaving <= kInlineBytes); });
  return operation;
}

Ref<Work> Group::agree(Descriptor& what, const CallOptions& options) {
  Call call{.what = what, .options = &options};
  check_start(call);
  call.what.plan = choices_.hash();
  const Descriptor nothing{.op = OpKind::kBarrier};
  Ref<Work> work =
      start(call, make_schedule(nothing, choices_.choose(nothing), rank(), size(), true));
  what.sequence = static_cast<const PendingWork&>(*work).descriptor.sequence;
  return work;
}

Ref<Work> Group::start_message(const Call& call) {
  auto message = make_ref<Waited<Message>>(Waiter{engine_, core_}, call,
                                           call.options->timeout.value_or(how_.timeout));
  stay_or_throw([&] { core_->submit(*engine_, message, true); });
  return message;
}

void Group::fail(const std::exception_ptr& cause,
                 std::optional<std::uint64_t> completes_until) noexcept {
  break_with([&] { return cause_of(cause); }, completes_until);
}

void Group::abort(std::string_view reason) noexcept {
  break_with([&] { return cause_of_abort(name(), own_identity().text(), reason); });
}

template <typename F>
void Group::break_with(const F& cause, std::optional<std::uint64_t> completes_until) noexcept {
  if (core_->status().is_in_child()) return;  // a forked child does not speak for the rank
  try {
    engine_->post({.kind = Engine::Request::Kind::kFail,
                   .core = core_,
                   .cause = cause(),
                   .completes_until = completes_until},
                  true);
  } catch (...) {
    // Out of memory: the peers will notice this rank's exit instead.
  }
}

void Group::ask_peers() {
  if (core_->status().is_in_child()) return;
  engine_->inspect([&](const Role& role) { core_->driver(role).ask_peers(); });
}

std::vector<Identity> Group::silent_peers(Deadline::Clock::time_point asked, Deadline until) {
  if (core_->status().is_in_child()) return {};
  for (bool is_last = false;;) {
    const std::uint64_t known = core_->news().count();
    std::vector<Identity> silent;
    bool awaits_signs = false;
    engine_->inspect([&](const Role& role) {
      const Peers& peers = core_->driver(role).peers();
      silent = peers.silent(asked);
      awaits_signs = peers.awaits_signs(asked);
    });
    // A rank counts as silent only after its host has acknowledged the probe. The host of a stopped
    // rank acknowledges about 40 ms late (delayed ACK).
    if (!awaits_signs || is_last) return silent;
    // Data is a sign of life too, but does not wake News::wait().
    is_last = !core_->news().wait(known, until);
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
