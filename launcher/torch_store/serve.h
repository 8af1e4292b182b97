// Starts the agent store of one generation, on the node that serves it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>

#include "launcher/plan/plan.h"
#include "launcher/torch_store/store_port.h"
#include "launcher/torch_store/torch_store.h"

namespace dl::launcher {

// Listens at MASTER_PORT of the meeting if the plan wants a store and this is node 0; returns null
// otherwise. On several nodes, listens at every address at which their ranks may look for it. Sets
// `meeting.torch_store` if there is a store. If MASTER_ADDR is no address of this host, rank 0
// serves, and `say` gets a sentence. On one node, if a port that dlrun has chosen was taken since,
// another port replaces it in `meeting`; on several nodes, `held` has kept the port. Throws
// kConnection if the port is taken.
std::unique_ptr<TorchStore> serve_torch_store(boost::asio::io_context& io, const NodePlan& plan,
                                              Meeting& meeting,
                                              const std::optional<StorePort>& held,
                                              const std::function<void(const std::string&)>& say);

}  // namespace dl::launcher
