#include "launcher/agent/gathering.h"

#include <fmt/core.h>

#include <string>

#include "launcher/plan/machine/this_host.h"
#include "launcher/torch_store/serve.h"
#include "launcher/verdict/report.h"

namespace dl::launcher {

void Gathering::begin(WardenClient& warden, NodeOutput& output, const UniqueFd& key,
                      OtherNodesEvents events) {
  events_ = std::move(events);
  if (plan_.job.nnodes == 1) {
    store_ = std::make_unique<StoreService>(
        io_, warden, output, key, plan_.job.name, [this](const std::string& how) {
          events_.on_lost(
              1, fmt::format("{}, which the ranks meet through, {}", kRendezvousName, how));
        });
    return;
  }
  OtherNodesEvents of_others = events_;
  of_others.on_meeting = [this](Meeting meeting) {
    if (!plan_.meet.master_addr.empty()) meeting.master_addr = plan_.meet.master_addr;
    meeting.gloo_interface = interface_beside_name(meeting.own_addr);
    meeting.mpi_interface =
        plan_.meet.iface.empty() ? loopback_interface(meeting.own_addr) : plan_.meet.iface;
    events_.on_meeting(std::move(meeting));
  };
  others_ = std::make_unique<OtherNodes>(io_, warden, output, key, plan_, plan_.meet.join_timeout,
                                         std::move(listener_), std::move(of_others));
}

void Gathering::meet(int attempt) {
  Meeting meeting = supposed_meeting(plan_);
  if (others_) {
    const bool is_free = !plan_.job.shares_master_port();
    if (plan_.wants_torch_store && others_->is_node_0() && is_free) {
      store_port_.reset();
      store_port_ = hold_store_port(plan_, meeting.master_port);
    }
    others_->join(meeting.master_port);
    return;
  }
  meeting.generation = static_cast<std::uint64_t>(attempt);
  meeting.store = store_->address();
  events_.on_meeting(std::move(meeting));
}

void Gathering::serve_torch_store(Meeting& meeting) {
  torch_store_ = launcher::serve_torch_store(
      io_, plan_, meeting, std::exchange(store_port_, std::nullopt), events_.on_sentence);
}

void Gathering::begin_generation(std::uint64_t number) {
  if (store_) store_->begin_generation(number);
}

void Gathering::end_generation() {
  torch_store_.reset();  // no key and no client of the old generation reaches the next one
}

void Gathering::close_store() {
  if (store_) store_->close();
  if (others_) others_->kill();  // it keeps nothing that is still needed
}

bool Gathering::was_torch_port_taken(const RankFacts& rank0) const {
  if (!torch_store_) return false;
  const std::string port = std::to_string(torch_store_->port());
  for (const std::string* said : {&rank0.stderr_tail, &rank0.stdout_tail}) {
    // If other ranks were clients of the store, the text must name the port.
    const bool names_port = said->find(port) != std::string::npos;
    if (says_port_was_taken(*said) && (names_port || !torch_store_->was_used())) return true;
  }
  return false;
}

}  // namespace dl::launcher
