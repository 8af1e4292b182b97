#include "collectives/nccl/watcher.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/device/cuda/graph.h"

namespace dl::collectives::nccl {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kIdleNap = 100ms;
// For this long after an operation the watcher polls often. Another rank's error may have spoilt
// the result, and the program should learn of it soon. A new call in this time need not wake the
// watcher.
constexpr auto kAlertTime = 200ms;
constexpr std::chrono::nanoseconds kAlertNap = 1ms;
constexpr std::chrono::nanoseconds kGoneGrace = 1s;
constexpr std::chrono::nanoseconds kShortestNap = 20us;
constexpr std::chrono::nanoseconds kLongestNap = 1ms;  // while an operation is under way
constexpr auto kAnswerEvery = 250ms;

Missing unknown(std::string_view why) {
  return {.text = fmt::format("waiting for ranks that are not known, as {}", why)};
}

}  // namespace

void Calls::add(Call call, std::optional<Notices::Place> place) {
  const Lock lock(mutex_);
  if (place) place_ = *std::move(place);
  new_.push_back(std::move(call));
}

std::vector<Calls::Call> Calls::take() {
  std::vector<Call> taken;
  const Lock lock(mutex_);
  taken.swap(new_);
  return taken;
}

bool Calls::is_empty() const {
  const Lock lock(mutex_);
  return new_.empty();
}

Notices::Place Calls::place() const {
  const Lock lock(mutex_);
  return place_;
}

Watcher::Watcher(const NcclGroupOptions& options, const std::string& name,
                 const std::vector<Identity>& ranks, record::GroupRecorder& log, Shared& shared,
                 Calls& calls, Communicator& comm)
    : options_(options),
      name_(name),
      ranks_(ranks),
      log_(log),
      shared_(shared),
      failure_(shared.failure),
      calls_(calls),
      comm_(comm) {}

void Watcher::run() noexcept {
  shared_.cuda.adopt_device(options_.device);
  while (!shared_.bell.is_stopped()) {
    look();
    const std::chrono::nanoseconds nap = advance();
    if (failure_.is_set() && !is_over_) continue;
    shared_.bell.set_idle(nap == kIdleNap);
    if (nap != kIdleNap || calls_.is_empty()) shared_.bell.sleep(nap);
    shared_.bell.set_idle(false);
  }
  if (!is_over_ && !failure_.is_set() && leave()) return;
  end_everything();
}

void Watcher::take_calls() {
  for (Calls::Call& call : calls_.take()) {
    (call.operation->is_launch() ? launches_ : pending_).emplace_back(std::move(call));
  }
}

const Operation* Watcher::oldest() const noexcept {
  for (const Queue* const queue : {&pending_, &launches_}) {
    if (!queue->empty()) return queue->front().operation.get();
  }
  return nullptr;
}

void Watcher::look() noexcept {
  if (is_over_) return;
  take_calls();
  failure_.hear_host();
  int state = kSuccess;
  // error() also takes over from the thread in which NCCL starts an operation. A caller that holds
  // the lock polls NCCL itself.
  if (comm_.starting.try_lock()) {
    if (!failure_.is_set()) state = comm_.error();
    comm_.starting.unlock();
  }
  if (state != kSuccess && state != kInProgress) {
    const Operation* const during = oldest();
    Cause cause{
        .kind = ErrorKind::kConnection,
        .operation = during != nullptr ? title(during->descriptor()) : std::string(),
        .text = fmt::format("{}group '{}': {}", during != nullptr ? during->text() + ": " : "",
                            name_, comm_.said(state))};
    state == kRemoteError ? failure_.set_remote(cause.text) : failure_.set(cause);
  }
  if (failure_.is_set()) return end_everything();
  answer();
}

void Watcher::answer() {
  if (!options_.notices || Deadline::Clock::now() < next_answer_) return;
  options_.notices->answer(name_, options_.host->rank(), calls_.place(), asked_);
  next_answer_ = Deadline::Clock::now() + kAnswerEvery;
}

std::chrono::nanoseconds Watcher::advance() noexcept {
  bool is_idle = true;
  try {
    // Advance both: an operation may wait for a graph on another stream, and a graph for an
    // operation.
    const bool runs = advance(pending_);
    is_idle = !advance(launches_) && !runs;
  } catch (...) {  // a CUDA call failed: the device is lost
    failure_.set(cause_of(std::current_exception()));
  }
  const std::chrono::nanoseconds since = Deadline::Clock::now() - last_change_;
  if (is_idle) return since < kAlertTime ? kAlertNap : kIdleNap;
  const std::chrono::nanoseconds nap = since / 16;
  return std::clamp(nap, kShortestNap, kLongestNap);
}

bool Watcher::advance(Queue& queue) {
  while (!queue.empty() && !failure_.is_set()) {
    Running& front = queue.front();
    Operation& operation = *front.operation;
    const Time now = Deadline::Clock::now();
    const bool is_launched = operation.is_launched();
    if (is_launched && !front.has_started && shared_.cuda.query_event(operation.begin_event())) {
      front.start(now);
      last_change_ = now;
      log_.start(front.slot);
    }
    if (is_launched && front.has_started && shared_.cuda.query_event(operation.end_event())) {
      if (failure_.is_set()) return false;
      log_.finish(front.slot);
      operation.end(nullptr);
      queue.pop_front();
      last_change_ = now;
      continue;
    }
    // An operation that waits behind other work of the GPU is not late.
    if (front.has_started || !is_launched) {
      look_at_gone(front);
      look_at_clock(front);
    }
    return true;
  }
  return false;
}

// NCCL waits for ever for a rank whose process has ended. The host group knows of the end. It gets
// a second: another rank may report the cause, and operations that the rank had begun may still
// complete.
void Watcher::look_at_gone(const Running& front) {
  const std::optional<Cause> gone = failure_.gone_rank();
  if (!gone) return;
  const Time now = Deadline::Clock::now();
  if (gone_since_ == Time{}) gone_since_ = now;
  if (now < std::max(gone_since_, front.since) + kGoneGrace) return;
  failure_.set(cause_about(front.operation->descriptor(), gone->kind,
                           fmt::format("{}: {}", front.operation->text(), gone->text), gone->blame,
                           gone->rank));
}

void Watcher::look_at_clock(Running& front) {
  std::optional<Cause> mismatch;
  const Judgement judgement =
      judge(front.waiting, front.operation->descriptor(), Deadline::Clock::now(),
            options_.warn_after, [&] { return missing(*front.operation, mismatch); });
  if (!judgement.waits_for) return;
  log_.wait_for(front.slot, *judgement.waits_for);
  failure_.hear_host();
  if (failure_.is_set()) return;  // another rank knows more
  if (mismatch) return failure_.set(*mismatch);
  if (judgement.failure) return failure_.set(*judgement.failure);
  log::warning("{}", judgement.warning);
}

// Asks all ranks for their last collective; a call of another operation is a mismatch.
Missing Watcher::missing(const Operation& late, std::optional<Cause>& mismatch) {
  if (!options_.notices) return unknown("there is no store through which to ask");
  const auto places = options_.notices->ask(
      name_, options_.host->rank(), options_.host->size(), calls_.place(), asked_,
      std::chrono::duration_cast<std::chrono::milliseconds>(options_.answer_patience),
      [this] { return failure_.is_set() || options_.host->error() != nullptr; });
  if (!places) return unknown("the store does not answer");
  const Descriptor& what = late.descriptor();
  const Identity& self = ranks_[static_cast<std::size_t>(options_.host->rank())];
  std::vector<PeerState> others;
  for (const Identity& peer : ranks_) {
    if (peer.rank == self.rank) continue;
    const std::optional<Notices::Place>& place = (*places)[static_cast<std::size_t>(peer.rank)];
    others.push_back({.who = &peer,
                      .contact = place ? Contact::kAnswers : Contact::kSilent,
                      .last_called = place ? place->last_called : 0});
    const bool is_comparable = !row_of(what.op).is_message && !late.is_launch() && place &&
                               place->call && place->last_called == what.sequence;
    if (is_comparable && *place->call != what && !mismatch) {
      mismatch = cause_about(what, ErrorKind::kMismatch,
                             mismatch_text(*place->call, peer.text(), what, self.text()),
                             Blame::kMismatch, peer.in_job());
    }
  }
  Missing found;
  if (!row_of(what.op).is_message) {
    found = missing_in(what, others,
                       {.own = "a GPU or a link between GPUs, as all ranks have called it"});
  } else if (late.peer() >= 0) {
    found = missing_for(what, late.peer(), others);
  } else {  // it is not known which of the messages is late
    std::erase_if(others, [](const PeerState& p) { return p.contact != Contact::kSilent; });
    found = missing_in(what, others, {.own = "one of its messages"});
  }
  if (late.is_launch()) found.called = late.text();
  return found;
}

// Waits for operations that the program may consider done: launches of graphs, which have no Work
// to wait for, and operations for which a stream waits.
bool Watcher::wait_for_streams() noexcept {
  const auto is_awaited = [](const Running& each) { return each.operation->is_awaited(); };
  while (true) {
    look();
    advance();  // ends operations that the GPU has finished since the last poll
    if (failure_.is_set()) return false;
    const bool has_launches = !calls_.is_empty() || !launches_.empty();
    if (!has_launches && std::ranges::none_of(pending_, is_awaited)) return true;
    shared_.bell.sleep(kLongestNap);
  }
}

bool Watcher::leave() noexcept {
  if (!wait_for_streams()) return false;
  if (!pending_.empty()) {
    const Operation& left = *pending_.front().operation;
    const Identity& self = ranks_[static_cast<std::size_t>(options_.host->rank())];
    failure_.set(cause_of_destruction(name_, self.text(), &left.descriptor()));
    return false;
  }
  // NCCL waits until graphs with its operations are destroyed.
  cuda::destroy_graphs_of(&comm_);
  comm_.leave();
  return true;
}

void Watcher::end_everything() noexcept {
  if (is_over_) return;
  const Cause cause = failure_.tell();
  log_.broken(dl::name_of(cause.kind), cause.text);
  // Do both at once: NCCL keeps the communicator until the graphs are destroyed. If they were
  // destroyed before the abort, it did not give the communicator back within 5 s (H200, NCCL
  // 2.28.3).
  comm_.abort(cause.text,
              [owner = static_cast<const void*>(&comm_)] { cuda::destroy_graphs_of(owner); });
  take_calls();
  for (Queue* const queue : {&pending_, &launches_}) {
    for (const Running& running : *queue) {
      log_.fail(running.slot);
      running.operation->end(failure_.error());
    }
    queue->clear();
  }
  is_over_ = true;
}

}  // namespace dl::collectives::nccl
