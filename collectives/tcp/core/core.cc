#include "collectives/tcp/core/core.h"

#include <algorithm>

#include "collectives/call/recording.h"
#include "collectives/process/at_exit.h"
#include "collectives/process/peer_process.h"
#include "core/base/log/log.h"

namespace dl::collectives::tcp {
namespace {

using namespace std::chrono_literals;

// A peer that no longer reads delays this rank's leaving by at most this long.
constexpr auto kRetireTime = 1s;
constexpr auto kRetireLook = 1ms;
// Peers that have not heard of a failure yet may go on sending: read their data for at most this
// long before the failure takes effect.
constexpr auto kMostTakeTime = 100ms;

}  // namespace

Core::Core(Mesh mesh, std::string name, std::uint64_t generation, WaitPolicy policy,
           const std::shared_ptr<record::Recorder>& recorder, bool reports_failures)
    : rank_(mesh.rank),
      name_(std::move(name)),
      salt_(hash_of_group(name_, generation)),
      policy_(policy),
      reports_failures_(reports_failures),
      peers_(mesh.peers.size()),
      matching_(name_, rank_, kCreditBytes) {
  if (recorder) {
    recorder_ = recorder->add_group({.name = name_,
                                     .backend = "tcp",
                                     .generation = generation,
                                     .rank = rank_,
                                     .size = static_cast<int>(peers_.size())});
  }
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    Mesh::Peer& from = mesh.peers[i];
    peers_[i].who = std::move(from.who);
    matching_.add_rank(peers_[i].who);
    peers_[i].messages.emplace(static_cast<int>(i), matching_, kMostMessageBytes);
    if (static_cast<int>(i) == rank_) continue;
    peers_[i].process = watch_process(peers_[i].who);
    for (const UniqueFd& lane : from.data) parent_only_.add(lane.get());
    parent_only_.add(from.side.get());
    for (UniqueFd& lane : from.data) {
      peers_[i].data.push_back(std::make_unique<Link>(std::move(lane)));
    }
    peers_[i].side = std::make_unique<Link>(std::move(from.side));
  }
}

std::exception_ptr Core::error() const noexcept {
  if (is_in_child()) {
    return std::make_exception_ptr(
        Error(ErrorKind::kInvalidArgument, text_of_forked_child(name_, identity(rank_))));
  }
  if (!is_poisoned()) return nullptr;
  const std::lock_guard lock(error_mutex_);
  return error_;
}

std::string Core::own_call() const {
  const std::lock_guard lock(error_mutex_);
  return own_call_;
}

std::exception_ptr Core::gone_rank() const {
  if (is_in_child()) return nullptr;
  const std::lock_guard lock(error_mutex_);
  return gone_rank_;
}

void Core::throw_if_broken() const {
  if (const std::exception_ptr cause = error()) std::rethrow_exception(cause);
}

void Core::throw_if_refused(const Descriptor& called) {
  const std::exception_ptr broken = error();
  if (!broken) return;
  const bool is_message = row_of(called.op).is_message;
  if (is_in_child() || is_message) std::rethrow_exception(broken);
  const std::lock_guard lock(submit_mutex_);
  if (next_collective_ <= spared_until_.load()) return;
  report_late_call(cause_of(broken), called, next_collective_, reports_failures_);
  std::rethrow_exception(broken);
}

void Core::submit(Engine& engine, const Ref<Operation>& operation, bool drive) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (is_in_child()) throw_if_broken();
  release_finished();
  Descriptor& d = operation->descriptor;
  const profiler::Span span = call_span(d);
  const std::lock_guard lock(submit_mutex_);
  const bool is_message = row_of(d.op).is_message;
  const std::exception_ptr broken = error();
  if (broken && (is_message || next_collective_ > spared_until_.load())) {
    if (!is_message) report_late_call(cause_of(broken), d, next_collective_, reports_failures_);
    std::rethrow_exception(broken);
  }
  d.sequence = is_message ? next_message_++ : next_collective_++;
  operation->hash = hash(d, salt_);
  // Messages are numbered by each rank alone, so their hash means nothing to other ranks.
  operation->slot =
      recorder_.enqueue(is_message ? record_of(d, 0, static_cast<const Message&>(*operation).peer)
                                   : record_of(d, operation->hash));
  // Post under the lock, so that the inbox keeps the order of the sequence numbers.
  engine.post(
      {.kind = Engine::Request::Kind::kStart, .core = Ref<Core>(this), .operation = operation},
      drive);
}

void Core::release_finished() {
  if (is_in_child()) return;
  std::vector<Ref<Operation>> over;
  const std::lock_guard lock(finished_mutex_);
  over.swap(finished_);
}

bool Core::wait_until_retired(Deadline deadline) {
  std::unique_lock lock(news_mutex_);
  return wait_until(news_changed_, lock, deadline, [this] { return retired_; });
}

std::uint64_t Core::news() const {
  const std::lock_guard lock(news_mutex_);
  return news_;
}

bool Core::wait_for_news(std::uint64_t known, Deadline deadline) {
  std::unique_lock lock(news_mutex_);
  return wait_until(news_changed_, lock, deadline, [&] { return news_ != known; });
}

void Core::tell_news() noexcept {
  const std::lock_guard lock(news_mutex_);
  ++news_;
  news_changed_.notify_all();
}

void Core::attach() {
  guarded([this] {
    for (Peer& p : peers_) {
      if (!is_other(p)) continue;
      for (const auto& lane : p.data) engine_->watch(*lane);
      engine_->watch(*p.side);
    }
  });
}

void Core::start(Ref<Operation> operation) {
  const Descriptor& d = operation->descriptor;
  const bool is_message = row_of(d.op).is_message;
  const bool is_broken = is_poisoned() && (is_message || d.sequence > spared_until_.load());
  if (is_broken || is_retiring_) {
    // It was called before the group broke, and reached the driver after.
    if (is_broken && !is_message) {
      report_late_call(cause_of(error()), d, d.sequence, reports_failures_);
    }
    operation->end(is_broken ? error()
                             : std::make_exception_ptr(
                                   Error(ErrorKind::kAborted,
                                         fmt::format("{}: group '{}' was destroyed before it began",
                                                     text(operation->descriptor), name_))));
    const std::lock_guard lock(finished_mutex_);
    finished_.push_back(std::move(operation));
    return;
  }
  if (is_message) {
    record_start(*operation);
    guarded([&] { start_message(Ref<Message>(static_cast<Message*>(operation.get()))); });
    return;
  }
  last_called_ = d.sequence;
  if (queue_.empty()) record_start(*operation);
  queue_.emplace_back(static_cast<Collective*>(operation.get()));
}

void Core::record_start(Operation& operation) {
  if (operation.slot == nullptr) return;
  const std::string_view name = operation.algorithm();
  auto known = std::find_if(algorithms_.begin(), algorithms_.end(),
                            [&](const auto& entry) { return entry.first == name.data(); });
  if (known == algorithms_.end()) {
    const std::uint8_t number = name.empty() ? 0 : recorder_.recorder()->algorithm(name);
    known = algorithms_.insert(algorithms_.end(), {name.data(), number});
  }
  recorder_.start(operation.slot, known->second);
}

void Core::abort(const std::string& reason) {
  fail({.kind = ErrorKind::kAborted,
        .text = fmt::format("group '{}' was aborted by {}: {}", name_, identity(rank_).text(),
                            reason)});
}

void Core::leave_at_exit() {
  is_leaving_ = true;
  leave_begin_ = last_move_ = Engine::Clock::now();
}

void Core::go_on_leaving(Engine::Clock::time_point now, bool moved) {
  if (moved) last_move_ = now;
  if (is_closed() || (queue_.empty() && messages_.empty())) {
    is_leaving_ = false;
    retire();
  } else if (now - last_move_ > kExitQuiet || now - leave_begin_ > kExitTime) {
    is_leaving_ = false;
    const Operation& first =
        messages_.empty() ? static_cast<Operation&>(*queue_.front()) : *messages_.front();
    log::warning("{}", unfinished_text(identity(rank_).text(), name_, first.descriptor,
                                       missing(first).text, queue_.size() + messages_.size()));
    const std::lock_guard lock(news_mutex_);
    retired_ = true;  // as far as it can be: the peers notice the end of its process
    news_changed_.notify_all();
  }
}

void Core::retire() {
  if (is_retiring_) return;
  take_news();
  is_retiring_ = true;
  retire_by_ = Engine::Clock::now() + kRetireTime;
  if (is_poisoned()) return spare_only(completed_);
  if (!queue_.empty() || !messages_.empty()) {
    const Operation& under_way =
        queue_.empty() ? static_cast<Operation&>(*messages_.front()) : *queue_.front();
    fail(cause_in(under_way.descriptor, ErrorKind::kAborted,
                  fmt::format("{} destroyed group '{}' while it was under way",
                              identity(rank_).text(), name_)));
    return;
  }
  for (Peer& p : peers_) {
    if (is_other(p)) {
      push(p, {.type = FrameType::kGoodbye, .descriptor = {.sequence = last_called_}});
    }
  }
}

bool Core::close_if_retired() {
  if (!is_retiring_) return false;
  const auto has_left = [this](Peer& p) {
    if (!is_other(p)) return true;
    const bool side_ended = p.side->health() != Link::Health::kOpen;
    // A broken group discards the rest of its data. Data of a completed collective that is already
    // in the kernel is still sent after close(): a peer that is still in this collective has sent
    // nothing later, so no unread bytes can reset the connection.
    const bool data_left = is_poisoned() || std::ranges::all_of(p.data, [](const auto& lane) {
                             return !lane->is_sending() && lane->is_drained();
                           });
    return side_ended ||
           (data_left && p.out.empty() && !p.side->is_sending() && p.side->is_drained());
  };
  if (Engine::Clock::now() < retire_by_ && !std::all_of(peers_.begin(), peers_.end(), has_left)) {
    return false;
  }
  parent_only_.clear();
  for (Peer& p : peers_) {
    for (const auto& lane : p.data) engine_->unwatch(*lane);
    p.data.clear();
    if (p.side) engine_->unwatch(*p.side);
    p.side.reset();
  }
  const std::lock_guard lock(news_mutex_);
  retired_ = true;
  news_changed_.notify_all();
  return true;
}

bool Core::advance(Engine::Clock::time_point now) {
  bool moved = false;
  guarded([&] {
    for (Peer& p : peers_) {
      if (is_other(p)) moved |= advance_side(p, now);
    }
    if (!is_closed()) {
      for (Peer& p : peers_) {
        if (is_other(p)) moved |= advance_data(p, now);
      }
      if (!queue_.empty()) {
        moved |= queue_.front()->execution.combine_ready();
        if (queue_.front()->execution.is_finished()) {
          finish_front();
          moved = true;
        }
      }
    }
    if (!heard_.empty()) {
      if (moved && now - heard_at_ < kMostTakeTime) return;
      take_news();
    }
    look_for_silence(now);
    look_at_processes(now);
    look_at_ended_peers(now);
    look_at_clocks(now);
  });
  if (!heard_.empty()) timer_ = now;
  if (is_leaving_) go_on_leaving(now, moved);
  if (is_leaving_ || is_retiring_) timer_ = std::min(timer_, now + kRetireLook);
  return moved;
}

}  // namespace dl::collectives::tcp
