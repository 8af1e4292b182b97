#include "launcher/frontend/starter.h"

#include "launcher/agent/agent.h"
#include "launcher/plan/job_secret.h"

namespace dl::launcher {

std::unique_ptr<AgentOrders> StartHere::start(AgentStart start) {
  return std::make_unique<Agent>(start.io, plan_, std::move(start.settings),
                                 job_secret(plan_.job.nnodes, start.key_file).to_memfd(),
                                 std::move(warden_), start.disk, start.output, start.events);
}

}  // namespace dl::launcher
