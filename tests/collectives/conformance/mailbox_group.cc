#include "tests/collectives/conformance/mailbox_group.h"

#include <algorithm>
#include <list>
#include <map>
#include <mutex>

#include "collectives/call/call.h"
#include "collectives/call/matching.h"
#include "collectives/reduce/reduce.h"
#include "collectives/waiting/pending/pending_work.h"

namespace dl::collectives::testing {
namespace {

class MailboxWork : public PendingWork {
 public:
  explicit MailboxWork(const Call& call, std::chrono::nanoseconds timeout)
      : PendingWork("mailbox", call, timeout) {}
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override {
    DL_CHECK(sleep_until(Deadline::after(timeout.value_or(waiting.timeout()))), kTimeout,
             "{}: still waiting", call_text(descriptor));
  }
  bool is_completed() const noexcept override { return is_over(); }
  void end() noexcept { PendingWork::end(nullptr, record::tick_time().now()); }
};
using Message = MessageOf<MailboxWork>;

// Counts and order are copies, because start() only borrows them.
struct Collective final : MailboxWork {
  Collective(const Call& from, std::chrono::nanoseconds timeout)
      : MailboxWork(from, timeout), call(from), order(from.options->order) {
    for (PartsView* const parts : {&call.gives, &call.takes}) {
      if (parts->counts().empty()) continue;
      counts.emplace_back(parts->counts().begin(), parts->counts().end());
      *parts = PartsView::of(counts.back());
    }
  }
  Call call;
  const Order order;
  std::list<std::vector<std::size_t>> counts;
};
using Meeting = std::vector<Ref<Collective>>;  // by rank

// What one rank's output becomes; all ranks have called.
std::vector<std::byte> result(const Meeting& meeting, std::size_t rank) {
  const auto size = static_cast<int>(meeting.size());
  const auto self = static_cast<int>(rank);
  const Call& own = meeting[rank]->call;
  if (!own.writes(self)) return {};
  const std::size_t element = size_of(own.what.dtype);
  std::vector<std::byte> output(own.takes.all(size) * element);
  std::vector<const void*> shares;
  for (int from = 0; from < size && !output.empty(); ++from) {
    const Call& theirs = meeting[static_cast<std::size_t>(from)]->call;
    if (!theirs.reads(from)) continue;
    const auto* const share =
        static_cast<const std::byte*>(theirs.input) + theirs.gives.before(self) * element;
    shares.push_back(share);
    if (own.row().reduces) continue;
    std::copy_n(share, own.takes.count(from) * element,
                output.data() + own.takes.before(from) * element);
  }
  if (own.row().reduces && !output.empty()) {
    combine(own.what.dtype, own.what.reduce, output.data(), shares, output.size() / element,
            meeting[rank]->order);
  }
  return output;
}

struct Mailbox final : RefCounted {
  explicit Mailbox(int size) : called(static_cast<std::size_t>(size)) {
    for (int rank = 0; rank < size; ++rank) {
      matching.emplace_back("mailbox", rank, std::size_t{1} << 30);
      for (int other = 0; other < size; ++other) matching.back().add_rank({.rank = other});
    }
  }
  std::mutex mutex;
  std::vector<std::uint64_t> called;  // collectives, by rank
  std::map<std::uint64_t, Meeting> meetings;
  std::vector<Matching<Message>> matching;  // of each rank's receives
  std::uint64_t messages = 0;
};

class MailboxGroup final : public ProcessGroup {
 public:
  MailboxGroup(Ref<Mailbox> box, int rank, int size)
      : ProcessGroup(rank, size, "world", "mailbox"), box_(std::move(box)) {}

  Ref<Work> start(const Call& call) override {
    const std::lock_guard lock(box_->mutex);
    const auto timeout = call.options->timeout.value_or(std::chrono::minutes(1));
    if (call.row().is_message) return move(make_ref<Message>(call, timeout));
    const auto self = static_cast<std::size_t>(rank());
    const std::uint64_t number = ++box_->called[self];
    Meeting& meeting = box_->meetings[number];
    meeting.resize(static_cast<std::size_t>(size()));
    const Ref<Collective> work = meeting[self] = make_ref<Collective>(call, timeout);
    if (std::ranges::count(meeting, nullptr) > 0) return work;
    // All results first: an output may be an input, too.
    std::vector<std::vector<std::byte>> results;
    for (std::size_t r = 0; r < meeting.size(); ++r) results.push_back(result(meeting, r));
    for (std::size_t r = 0; r < meeting.size(); ++r) {
      std::ranges::copy(results[r], static_cast<std::byte*>(meeting[r]->call.output));
      meeting[r]->end();
    }
    box_->meetings.erase(number);
    return work;
  }
  void abort(std::string_view) noexcept override {}
  std::exception_ptr error() const noexcept override { return nullptr; }

 private:
  Ref<Work> move(Ref<Message> message) {
    message->descriptor.sequence = ++box_->messages;
    if (!message->is_send()) {
      const auto sent = box_->matching[static_cast<std::size_t>(rank())].post(message);
      if (sent) deliver(*sent, *message);
      return message;
    }
    Unexpected sent{{.count = message->descriptor.count,
                     .tag = message->tag(),
                     .dtype = message->descriptor.dtype,
                     .bytes = message->bytes},
                    {message->buffer, message->buffer + message->bytes}};
    auto& matching = box_->matching[static_cast<std::size_t>(message->peer)];
    const Ref<Message> receive = matching.take_posted(rank(), sent);
    receive ? deliver(sent, *receive) : matching.keep(rank(), std::move(sent));
    message->end();
    return message;
  }
  static void deliver(const Unexpected& sent, Message& receive) {
    std::ranges::copy(sent.payload, receive.buffer);
    receive.end();
  }

  const Ref<Mailbox> box_;
};

}  // namespace

std::vector<Ref<ProcessGroup>> make_mailbox_groups(int size) {
  const auto box = make_ref<Mailbox>(size);
  std::vector<Ref<ProcessGroup>> groups;
  for (int r = 0; r < size; ++r) groups.push_back(make_ref<MailboxGroup>(box, r, size));
  return groups;
}

}  // namespace dl::collectives::testing
