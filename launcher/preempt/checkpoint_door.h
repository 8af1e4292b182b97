// CheckpointDoor: the ranks of one node ask it whether to save and end. It owns an abstract Unix
// socket, and a page of memory that each rank shares with dlrun (rendezvous/net/checkpoint_page.h;
// docs/protocol.md).
//
// One thread: the event loop's, which must outlive it. No handler runs after its destructor.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/preempt/preemption.h"
#include "rendezvous/net/checkpoint_page.h"

namespace dl::launcher {

class CheckpointDoor {
 public:
  // `ranks`: this node's, by local rank. Throws kIo.
  CheckpointDoor(boost::asio::io_context& io, std::vector<int> ranks);
  ~CheckpointDoor();
  CheckpointDoor(const CheckpointDoor&) = delete;
  CheckpointDoor& operator=(const CheckpointDoor&) = delete;

  // The value of DLRUN_CHECKPOINT.
  const std::string& name() const { return name_; }

  // From now on a call of any rank waits for answer(). After this, calls() includes every call that
  // did not see the request.
  void request();
  void answer(std::uint64_t call);
  // To be called before dlrun sends the ranks a signal that ends them.
  void announce_end();
  // One entry for each rank of the node.
  std::vector<RankCalls> calls() const;

 private:
  struct Client;
  using Clients = std::list<std::shared_ptr<Client>>;

  void wait();
  void accept();
  void wait_for_name(const std::shared_ptr<Client>& client);
  // Returns false if this is no rank of this node, or the connection is gone.
  bool admit(Client& client);
  void say_answer(Client& client) const;

  boost::asio::io_context& io_;
  const std::vector<int> ranks_;
  std::string name_;
  boost::asio::posix::stream_descriptor listener_;
  Clients clients_;  // a rank may have several, of programs that it has started
  bool requested_ = false;
  bool ends_ = false;
  std::optional<std::uint64_t> answer_;
  std::shared_ptr<char> alive_ =
      std::make_shared<char>();  // tells pending handlers that this object lives
};

}  // namespace dl::launcher
