// Gathering: how the ranks of this node meet the others before each generation. On one node they
// need only a store; on several, the nodes meet first. It also serves PyTorch's store, if this node
// is the one that does.
//
// One thread. All arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/system/unique_fd.h"
#include "launcher/nodes/other_nodes.h"
#include "launcher/nodes/store_service.h"
#include "launcher/plan/plan.h"
#include "launcher/torch_store/store_port.h"
#include "launcher/torch_store/torch_store.h"
#include "launcher/verdict/report.h"

namespace dl::launcher {

class Gathering {
 public:
  Gathering(boost::asio::io_context& io, const NodePlan& plan) : io_(io), plan_(plan) {}

  // To be called before begin(), on node 0 of several: a descriptor that listens at the plan's
  // endpoint.
  void listen_with(UniqueFd listener) { listener_ = std::move(listener); }
  // Starts the store's service or the connection to the other nodes, once. On one node, on_meeting,
  // on_lost and on_sentence are the only events. Throws kIo.
  void begin(WardenClient& warden, NodeOutput& output, const UniqueFd& key,
             OtherNodesEvents events);
  // Meets the others for the next generation; on_meeting follows. `attempt`: its number, on one
  // node.
  void meet(int attempt);
  // Starts PyTorch's store of a generation, if this node serves it; `meeting` then says so. Throws
  // kConnection.
  void serve_torch_store(Meeting& meeting);
  // To be called before the ranks of this generation start.
  void begin_generation(std::uint64_t number);
  void end_generation();
  // From now on a client starts no service, and the end of a service is no error.
  void close_store();

  // The other nodes; null: the job has one node.
  OtherNodes* others() const { return others_.get(); }
  // True if rank 0 seems to listen on MASTER_PORT itself although dlrun served it a PyTorch store.
  bool was_torch_port_taken(const RankFacts& rank0) const;

 private:
  boost::asio::io_context& io_;
  const NodePlan& plan_;
  OtherNodesEvents events_;
  UniqueFd listener_;                        // empty: OtherNodes makes one
  std::unique_ptr<StoreService> store_;      // one node
  std::unique_ptr<OtherNodes> others_;       // several
  std::optional<StorePort> store_port_;      // until the nodes have met
  std::unique_ptr<TorchStore> torch_store_;  // of the generation; null: this node serves none
};

}  // namespace dl::launcher
