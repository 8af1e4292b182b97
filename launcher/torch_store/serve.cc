#include "launcher/torch_store/serve.h"

#include <fmt/core.h>

#include "core/base/error.h"
#include "launcher/plan/port.h"

namespace dl::launcher {
namespace {

constexpr int kBacklog = 4096;  // all ranks come at once

rendezvous::Listener listen_for(const NodePlan& plan, Meeting& meeting,
                                const std::optional<StorePort>& held) {
  if (held && held->port() == meeting.master_port) {
    return held->listen_at(meeting.master_addr, kBacklog);
  }
  constexpr int kTries = 100;
  const bool may_choose = plan.job.nnodes == 1 && !plan.job.master_port;
  for (int i = 0;; ++i) {
    try {
      return rendezvous::Listener::bind({.host = meeting.master_addr,
                                         .port = static_cast<std::uint16_t>(meeting.master_port),
                                         .backlog = kBacklog});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConnection || !may_choose || i == kTries) throw;
    }
    meeting.master_port = choose_port();
  }
}

}  // namespace

std::unique_ptr<TorchStore> serve_torch_store(boost::asio::io_context& io, const NodePlan& plan,
                                              Meeting& meeting,
                                              const std::optional<StorePort>& held,
                                              const std::function<void(const std::string&)>& say) {
  meeting.torch_store = plan.wants_torch_store;
  if (!meeting.torch_store || meeting.group_rank != 0) return nullptr;
  try {
    return std::make_unique<TorchStore>(
        io, listen_for(plan, meeting, held),
        TorchStoreOptions{.most_connections = connections_for(meeting.world_size), .say = say});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) {
      throw_error(error.kind(), "PyTorch's store at MASTER_PORT: {}", error.what());
    }
    meeting.torch_store = false;
    say(fmt::format("rank 0 serves PyTorch's store, not dlrun: {}", error.what()));
    return nullptr;
  }
}

}  // namespace dl::launcher
