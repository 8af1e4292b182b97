// Writes what a dlrun knows of its job on the job's card.
#pragma once

#include "launcher/agent/agent_port.h"
#include "launcher/jobs/card/job_card.h"
#include "launcher/plan/plan.h"

namespace dl::launcher {

// A dlrun that runs ranks of its own.
CardFacts card_of_node(const NodePlan& plan);
// As card_of_node(), if another dlrun has started this one.
CardFacts card_of_agent(const NodePlan& plan);
// A dlrun whose agents are on other hosts.
CardFacts card_of_hosts(const JobPlan& job);

// A rank was started or has ended.
void show_on(JobCard& card, const RankNews& news);

}  // namespace dl::launcher
