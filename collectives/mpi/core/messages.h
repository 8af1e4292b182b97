// Messages: the sends and receives of one group. Each consists of two MPI messages: a header that
// every rank receives from any source, then the data, which the receiver requests once it has
// matched the header with a receive.
//
// dlrun matches messages itself, because MPI's tags have fewer bits than dlrun's. A small send is
// copied and completes at once; the copy uses up the peer's credit until the receiver has taken it
// (MPI_Issend).
//
// A value of the group's Core; used under its lock.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/call/matching.h"
#include "collectives/mpi/core/operation.h"
#include "collectives/mpi/wire/outgoing.h"
#include "collectives/mpi/wire/peers.h"
#include "collectives/mpi/wire/requests.h"
#include "collectives/waiting/pending/ledger.h"

namespace dl::collectives::mpi {

class Messages {
 public:
  // `most_tag`: MPI's.
  Messages(Requests& requests, Outgoing& outgoing, const Peers& peers, Ledger& ledger,
           std::string group, int most_tag);

  // Numbers the message and starts it.
  void start(const Ref<Message>& message);
  bool advance();

  const std::vector<Ref<Message>>& under_way() const noexcept { return open_; }
  std::vector<Ref<Message>> take_all();

  void cancel() noexcept { inbox_.cancel(); }

 private:
  void start_send(const Ref<Message>& message);
  void start_receive(const Ref<Message>& message);
  bool read_headers();
  // Asks for the data of the message that matched this receive.
  void receive(Message& message, const Envelope& envelope);
  int payload_tag(std::uint64_t number) const noexcept;

  Requests& requests_;
  Outgoing& outgoing_;
  Ledger& ledger_;
  const std::uint64_t payload_tags_;
  std::uint64_t next_sequence_ = 1;
  std::vector<std::uint64_t> next_number_;  // of the messages to each rank
  std::vector<Ref<Message>> open_;
  Matching<Message> matching_;
  Inbox<MessageHeader> inbox_{requests_, kHeaderTag};
};

}  // namespace dl::collectives::mpi
