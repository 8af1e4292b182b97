// Core's messages. Each is two messages of MPI: a header that every rank receives from anybody, and
// then its bytes, for which the receiver asks once it has matched the header with a receive.
//
// dlrun matches, not MPI, as MPI's tags are smaller than ours. A small send is copied and over at
// once; the copy counts against the peer's credit until the receiver has taken it (MPI_Issend).
#include <algorithm>
#include <cstring>

#include "collectives/mpi/core.h"

namespace dl::collectives::mpi {
namespace {

// A send of at most this is over without its receive.
constexpr std::size_t kSmallBytes = 64 * 1024;

}  // namespace

// The numbers of a pair's messages come round again only after as many as MPI has tags, at least
// 32,764; then the older one must have been taken.
int Core::payload_tag(std::uint64_t number) const noexcept {
  const auto tags = static_cast<std::uint64_t>(engine_.world().most_tag) - kFirstPayloadTag + 1;
  return kFirstPayloadTag + static_cast<int>(number % tags);
}

void Core::start_send(const Ref<Message>& message) {
  Peer& to = peer(message->peer);
  MessageHeader& header = message->header;
  header.number = to.next_number++;
  header.count = message->descriptor.count;
  header.tag = message->tag();
  header.dtype = message->descriptor.dtype;
  const int tag = payload_tag(header.number);
  const std::size_t cost = sizeof header + message->bytes;
  const std::byte* bytes = message->buffer;
  const bool is_copied = message->bytes <= kSmallBytes && cost <= to.credit;
  std::vector<Handle>* requests = &message->requests;
  const void* first = &header;
  if (is_copied) {
    to.credit -= cost;
    outgoing_.push_back({.memory = std::vector<std::byte>(cost),
                         .requests = {},
                         .peer = message->peer,
                         .credit = cost});
    Outgoing& out = outgoing_.back();
    std::memcpy(out.memory.data(), &header, sizeof header);
    if (message->bytes > 0) {
      std::memcpy(out.memory.data() + sizeof header, bytes, message->bytes);
    }
    requests = &out.requests;
    first = out.memory.data();
    bytes = out.memory.data() + sizeof header;
  }
  // Without bytes to follow, the header is what the receiver takes.
  send_parts(*requests, first, sizeof header, message->peer, kHeaderTag, message->bytes == 0);
  send_parts(*requests, bytes, message->bytes, message->peer, tag, true);
  if (is_copied) {
    finish(message);
  } else {
    messages_.push_back(message);
  }
}

void Core::start_receive(const Ref<Message>& message) {
  messages_.push_back(message);
  const auto found = std::find_if(unexpected_.begin(), unexpected_.end(), [&](const Unexpected& u) {
    return u.header.tag == message->tag() &&
           (message->peer == kAnySource || message->peer == u.source);
  });
  if (found == unexpected_.end()) return;
  const Unexpected first = *found;
  unexpected_.erase(found);
  take(*message, first);
}

void Core::take(Message& message, const Unexpected& found) {
  const Descriptor& ours = message.descriptor;
  const Descriptor theirs{.count = found.header.count,
                          .root = ours.root,
                          .op = OpKind::kSend,
                          .dtype = found.header.dtype};
  if (theirs.count != ours.count || theirs.dtype != ours.dtype) {
    fail(ErrorKind::kMismatch,
         fmt::format("recv with tag {}: {} sent {}, {} expects {}; the two calls must agree",
                     message.tag(), peer(found.source).who.text(), payload_text(theirs),
                     peer(rank_).who.text(), payload_text(ours)),
         true);
    return;
  }
  message.peer = found.source;
  message.is_matched = true;
  receive_parts(message.requests, message.buffer, message.bytes, found.source,
                payload_tag(found.header.number));
}

bool Core::read_headers() {
  Ended ended{};
  engine_.check(mpi_.test(&header_request_, &ended), "MPI_Test");
  if (!ended.is_ended) return false;
  const Unexpected found{ended.source, header_};
  engine_.check(
      mpi_.receive(&header_, sizeof header_, kAnySource, kHeaderTag, comm_, &header_request_),
      "MPI_Irecv");
  const auto asked = std::find_if(messages_.begin(), messages_.end(), [&](const Ref<Message>& m) {
    return m->descriptor.op == OpKind::kRecv && !m->is_matched && m->tag() == found.header.tag &&
           (m->peer == kAnySource || m->peer == found.source);
  });
  if (asked == messages_.end()) {
    unexpected_.push_back(found);
  } else {
    take(**asked, found);
  }
  return true;
}

bool Core::advance_messages() {
  bool moved = false;
  // Only for whom somebody asks: what nobody does, stays within the senders' credit.
  while (!is_poisoned() && read_headers()) moved = true;
  for (std::size_t i = 0; i < messages_.size();) {
    const Ref<Message> message = messages_[i];
    const bool may_end = message->descriptor.op == OpKind::kSend || message->is_matched;
    if (!may_end || !have_ended(message->requests)) {
      ++i;
      continue;
    }
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(i));
    finish(message);
    moved = true;
  }
  return moved;
}

bool Core::advance_outgoing() {
  bool moved = false;
  for (auto out = outgoing_.begin(); out != outgoing_.end();) {
    if (!have_ended(out->requests)) {
      ++out;
      continue;
    }
    peer(out->peer).credit += out->credit;
    out = outgoing_.erase(out);
    moved = true;
  }
  return moved;
}

}  // namespace dl::collectives::mpi
