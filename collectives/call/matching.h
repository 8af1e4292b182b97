// Matching: pairs messages that have arrived with receives.
//
// The rule is that of MPI 4.1, section 3.5, among messages of one tag. A receive takes the oldest
// message from its source, or from any source. A message takes the earliest receive that names its
// source or any source. A message without a receive is "unexpected" and kept here; a receive
// without a message is "posted" and waits here.
//
// `Message` is the message class of a backend without matching of its own (tcp/, shm/, mpi/). Not
// thread-safe: only the group's driver uses it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collectives/call/descriptor.h"
#include "collectives/call/identity.h"
#include "core/base/error.h"
#include "core/base/lifetime/ref.h"

namespace dl::collectives {

// The description of a message that precedes its data.
struct Envelope {
  std::uint64_t count = 0;
  std::uint64_t id = 0;  // the sender's id of a request
  std::uint32_t tag = 0;
  DType dtype = DType::kU8;
  bool is_request = false;  // true: the data is sent only after a receive was found
  std::size_t bytes = 0;    // of data that was sent together with the envelope
  std::size_t cost = 0;     // bytes of the sender's credit that it uses
};

struct Unexpected : Envelope {
  std::vector<std::byte> payload{};
  std::uint64_t arrival = 0;  // order among all ranks' messages; set by Matching
};

template <typename Message>
class Matching {
 public:
  // `credit`: how many bytes (Envelope::cost) the kept messages of one rank may have together.
  Matching(std::string group, int rank, std::size_t credit)
      : group_(std::move(group)), rank_(rank), credit_(credit) {}
  void add_rank(const Identity& who) { sources_.push_back({.who = who}); }

  // Call it for receives in the order of their sequence numbers. Returns the message that the
  // receive takes, and sets `peer` to its source. Nullopt: no message fits, and the receive is
  // posted. Throws kMismatch if dtype or count differ.
  std::optional<Unexpected> post(const Ref<Message>& receive) {
    if (receive->peer == kAnySource) receive->peer = oldest_source(receive->tag());
    Source& from = source(receive->peer);
    const auto found = std::ranges::find(from.unexpected, receive->tag(), &Unexpected::tag);
    if (found == from.unexpected.end()) {
      from.posted.push_back(receive);
      return std::nullopt;
    }
    std::optional<Unexpected> message = std::move(*found);
    from.unexpected.erase(found);
    from.cost -= message->cost;
    check_fits(from, *message, *receive);
    return message;
  }

  // Call it when a message, or its first part, arrives. Returns its receive, which is no longer
  // posted, and sets the receive's `peer` to the source. Null: there is no such receive. Throws
  // kMismatch if dtype or count differ.
  Ref<Message> take_posted(int rank, const Envelope& message) {
    constexpr auto kTag = [](const Ref<Message>& m) { return m->tag(); };
    Source& from = source(rank);
    const auto mine = std::ranges::find(from.posted, message.tag, kTag);
    std::deque<Ref<Message>>& from_any = source(kAnySource).posted;
    const auto any = std::ranges::find(from_any, message.tag, kTag);
    const bool is_any =
        any != from_any.end() &&
        (mine == from.posted.end() || (*any)->descriptor.sequence < (*mine)->descriptor.sequence);
    std::deque<Ref<Message>>& line = is_any ? from_any : from.posted;
    const auto first = is_any ? any : mine;
    if (first == line.end()) return nullptr;
    Ref<Message> receive = std::move(*first);
    line.erase(first);
    if (is_any) first_look_ = static_cast<std::size_t>(rank) + 1;
    receive->peer = rank;
    check_fits(from, message, *receive);
    return receive;
  }

  // Keeps a message that has no receive. Throws kInternal if this exceeds the credit.
  void keep(int rank, Unexpected message) {
    Source& from = source(rank);
    from.cost += message.cost;
    DL_CHECK(from.cost <= credit_, kInternal,
             "group '{}': {} sent more messages than its credit allows", group_, from.who.text());
    message.arrival = next_arrival_++;
    from.unexpected.push_back(std::move(message));
  }

  // True if a posted receive may take a message from this rank.
  bool has_posted(int rank) const noexcept {
    return !source(rank).posted.empty() || !source(kAnySource).posted.empty();
  }
  // The rank at which to look for messages next, modulo the number of ranks. So receives from any
  // source serve all ranks in turn, even if one rank sends much more.
  std::size_t first_look() const noexcept { return first_look_; }

  // Throws kInternal for a peer that violated the protocol.
  [[noreturn]] void throw_violation(int rank, std::string_view what) const {
    throw_error(ErrorKind::kInternal, "group '{}': {} {}", group_, source(rank).who.text(), what);
  }

  void clear() noexcept {
    for (Source& s : sources_) {
      s.posted.clear();
      s.unexpected.clear();
    }
  }

 private:
  struct Source {
    Identity who;
    std::deque<Ref<Message>> posted{};
    std::deque<Unexpected> unexpected{};
    std::size_t cost = 0;  // of the unexpected messages
  };

  Source& source(int rank) noexcept { return sources_.begin()[rank - kAnySource]; }
  const Source& source(int rank) const noexcept { return sources_.begin()[rank - kAnySource]; }

  // The source of the oldest message with this tag; kAnySource: there is none.
  int oldest_source(std::uint32_t tag) const noexcept {
    int oldest = kAnySource;
    std::uint64_t arrival = next_arrival_;
    for (const Source& s : sources_) {
      const auto found = std::ranges::find(s.unexpected, tag, &Unexpected::tag);
      if (found == s.unexpected.end() || found->arrival > arrival) continue;
      oldest = s.who.rank;
      arrival = found->arrival;
    }
    return oldest;
  }

  void check_fits(const Source& from, const Envelope& message, const Message& receive) const {
    const Descriptor& ours = receive.descriptor;
    const bool is_whole = message.is_request || message.bytes == receive.bytes;
    if (message.dtype == ours.dtype && message.count == ours.count && is_whole) return;
    const Descriptor theirs{.count = message.count, .op = OpKind::kSend, .dtype = message.dtype};
    throw_error(ErrorKind::kMismatch,
                "recv with tag {}: {} sent {}, {} expects {}; the two calls must agree",
                receive.tag(), from.who.text(), payload_text(theirs), source(rank_).who.text(),
                payload_text(ours));
  }

  const std::string group_;
  const int rank_;
  const std::size_t credit_;
  // By rank, beginning with kAnySource, which has only receives.
  std::vector<Source> sources_ = std::vector<Source>(1);
  std::uint64_t next_arrival_ = 0;
  std::size_t first_look_ = 0;
};

}  // namespace dl::collectives
