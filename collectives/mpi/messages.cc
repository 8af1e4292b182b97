// Core's messages. Each consists of two MPI messages: a header that every rank receives from any
// source, then the data, which the receiver requests once it has matched the header with a receive.
//
// dlrun matches messages itself, because MPI's tags have fewer bits than dlrun's. A small send is
// copied and completes at once; the copy uses up the peer's credit until the receiver has taken it
// (MPI_Issend).
#include <cstring>

#include "collectives/mpi/core.h"

namespace dl::collectives::mpi {
namespace {

// A send of at most this is over without its receive.
constexpr std::size_t kSmallBytes = 64 * 1024;

}  // namespace

// The numbers of a pair's messages repeat only after as many as MPI has tags, at least 32,764; by
// then the older message must have been received.
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
  // A message without data is taken when its header is.
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
  if (const auto found = matching_.post(message)) receive(*message, *found);
}

void Core::receive(Message& message, const Envelope& envelope) {
  message.is_matched = true;
  receive_parts(message.requests, message.buffer, message.bytes, message.peer,
                payload_tag(envelope.id));
}

bool Core::read_headers() {
  Ended ended{};
  engine_.check(mpi_.test(&header_request_, &ended), "MPI_Test");
  if (!ended.is_ended) return false;
  const Envelope envelope{.count = header_.count,
                          .id = header_.number,
                          .tag = header_.tag,
                          .dtype = header_.dtype,
                          .is_request = true};
  engine_.check(
      mpi_.receive(&header_, sizeof header_, kAnySource, kHeaderTag, comm_, &header_request_),
      "MPI_Irecv");
  if (const Ref<Message> asked = matching_.take_posted(ended.source, envelope)) {
    receive(*asked, envelope);
  } else {
    matching_.keep(ended.source, {envelope});
  }
  return true;
}

bool Core::advance_messages() {
  bool moved = false;
  // Only while a send or receive waits: the rest stays within the senders' credit.
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
