#include "collectives/mpi/core/messages.h"

#include <cstring>

#include "collectives/call/recording.h"

namespace dl::collectives::mpi {
namespace {

// A send of at most this is over without its receive.
constexpr std::size_t kSmallBytes = 64 * 1024;

}  // namespace

Messages::Messages(Requests& requests, Outgoing& outgoing, const Peers& peers, Ledger& ledger,
                   std::string group, int most_tag)
    : requests_(requests),
      outgoing_(outgoing),
      ledger_(ledger),
      payload_tags_(static_cast<std::uint64_t>(most_tag) - kFirstPayloadTag + 1),
      next_number_(static_cast<std::size_t>(peers.size())),
      matching_(std::move(group), peers.rank(), 0) {
  for (int r = 0; r < peers.size(); ++r) matching_.add_rank(peers.at(r).who);
}

// The numbers of a pair's messages repeat only after as many as MPI has tags, at least 32,764; by
// then the older message must have been received.
int Messages::payload_tag(std::uint64_t number) const noexcept {
  return kFirstPayloadTag + static_cast<int>(number % payload_tags_);
}

void Messages::start(const Ref<Message>& message) {
  message->descriptor.sequence = next_sequence_++;
  message->slot = ledger_.log().begin(record_of(message->descriptor, 0, message->peer));
  message->is_send() ? start_send(message) : start_receive(message);
}

void Messages::start_send(const Ref<Message>& message) {
  const int to = message->peer;
  MessageHeader& header = message->header;
  header.number = next_number_[static_cast<std::size_t>(to)]++;
  header.count = message->descriptor.count;
  header.tag = message->tag();
  header.dtype = message->descriptor.dtype;
  const std::size_t cost = sizeof header + message->bytes;
  const std::byte* bytes = message->buffer;
  const bool is_copied = message->bytes <= kSmallBytes && cost <= outgoing_.credit(to);
  std::vector<Handle>* open = &message->requests;
  const void* first = &header;
  if (is_copied) {
    Outgoing::Parcel& copy =
        outgoing_.add({.to = to, .memory = std::vector<std::byte>(cost), .cost = cost});
    std::memcpy(copy.memory.data(), &header, sizeof header);
    if (message->bytes > 0) {
      std::memcpy(copy.memory.data() + sizeof header, bytes, message->bytes);
    }
    open = &copy.open;
    first = copy.memory.data();
    bytes = copy.memory.data() + sizeof header;
  }
  if (message->bytes == 0) {  // it is taken when its header is
    open->push_back(requests_.send_matched(first, sizeof header, to, kHeaderTag));
  } else {
    open->push_back(requests_.send(first, sizeof header, to, kHeaderTag));
    requests_.send_matched_parts(*open, bytes, message->bytes, to, payload_tag(header.number));
  }
  if (is_copied) {
    ledger_.end(message, nullptr);
  } else {
    open_.push_back(message);
  }
}

void Messages::start_receive(const Ref<Message>& message) {
  open_.push_back(message);
  if (const auto found = matching_.post(message)) receive(*message, *found);
}

void Messages::receive(Message& message, const Envelope& envelope) {
  message.is_matched = true;
  requests_.receive_parts(message.requests, message.buffer, message.bytes, message.peer,
                          payload_tag(envelope.id));
}

bool Messages::read_headers() {
  const auto arrived = inbox_.take();
  if (!arrived) return false;
  const MessageHeader& header = arrived->note;
  const Envelope envelope{.count = header.count,
                          .id = header.number,
                          .tag = header.tag,
                          .dtype = header.dtype,
                          .is_request = true};
  if (const Ref<Message> asked = matching_.take_posted(arrived->source, envelope)) {
    receive(*asked, envelope);
  } else {
    matching_.keep(arrived->source, {envelope});
  }
  return true;
}

bool Messages::advance() {
  if (open_.empty()) return false;
  bool moved = false;
  // Only while a send or receive waits: the rest stays within the senders' credit.
  while (read_headers()) moved = true;
  for (std::size_t i = 0; i < open_.size();) {
    Message& message = *open_[i];
    const bool may_end = message.is_send() || message.is_matched;
    if (!may_end || !requests_.have_ended(message.requests)) {
      ++i;
      continue;
    }
    Ref<Message> over = std::move(open_[i]);
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    ledger_.end(std::move(over), nullptr);
    moved = true;
  }
  return moved;
}

std::vector<Ref<Message>> Messages::take_all() {
  matching_.clear();
  return std::exchange(open_, {});
}

}  // namespace dl::collectives::mpi
