#include "launcher/remote/node_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

namespace dl::launcher::remote {
namespace {

std::string in_seconds(std::chrono::milliseconds time) {
  return fmt::format("{:.3f}", std::chrono::duration<double>(time).count());
}

std::string word_of(Bind bind) {
  switch (bind) {
    case Bind::kNone:
      return "";
    case Bind::kCore:
      return "core";
    case Bind::kEven:
      return "even";
    case Bind::kNuma:
      return "numa";
    case Bind::kSocket:
      return "socket";
  }
  return "";
}

}  // namespace

std::vector<std::string> node_line(const Options& options, const JobPlan& plan, int node) {
  std::vector<std::string> line;
  const auto add = [&line](std::string name, std::string value) {
    if (value.empty()) return;
    line.push_back(std::move(name));
    line.push_back(std::move(value));
  };
  add("--nnodes", std::to_string(plan.nnodes));
  add("--node-rank", std::to_string(node));
  const int slots = plan.hosts[static_cast<std::size_t>(node)].slots;
  add("--nproc-per-node", slots > 0 ? std::to_string(slots) : options.job.nproc_per_node);
  add("--rdzv-id", plan.name);
  add("--grace", in_seconds(options.end.grace));
  if (options.end.linger) add("--linger", in_seconds(*options.end.linger));
  add("--join-timeout", in_seconds(options.meet.join_timeout));
  add("--iface", options.meet.iface);
  add("--master-addr", options.meet.master_addr);
  if (options.meet.master_port) add("--master-port", std::to_string(*options.meet.master_port));
  if (options.end.preempt_on_term) line.emplace_back("--preempt");
  if (options.end.preempt_on_usr2) line.emplace_back("--preempt-usr2");
  std::vector<std::string> forwarded;
  for (const int signal : options.end.forwarded_signals)
    forwarded.push_back(std::to_string(signal));
  add("--forward-signals", fmt::format("{}", fmt::join(forwarded, ",")));
  if (options.end.max_restarts > 0) add("--max-restarts", std::to_string(options.end.max_restarts));
  if (options.job.mpi == Mpi::kPmi1) add("--mpi", "pmi1");
  if (options.job.mpi == Mpi::kNone) add("--mpi", "none");
  add("--bind", word_of(options.where.bind));
  if (options.where.gpus_per_rank)
    add("--gpus-per-rank", std::to_string(*options.where.gpus_per_rank));
  if (options.where.gpu_policy) {
    add("--gpu-policy", *options.where.gpu_policy == GpuPolicy::kLeave  ? "leave"
                        : *options.where.gpu_policy == GpuPolicy::kKeep ? "keep"
                                                                        : "scope");
  }
  add("--role", options.job.role);
  if (options.where.bind != Bind::kNone && options.where.map_by != MapBy::kCore) {
    add("--map-by", options.where.map_by == MapBy::kNuma ? "numa" : "socket");
  }
  if (options.where.report_bindings) line.emplace_back("--report-bindings");
  if (options.where.virtual_local_rank) line.emplace_back("--virtual-local-rank");
  line.emplace_back("--no-python");  // the program has its interpreter by now
  line.emplace_back("--");
  line.insert(line.end(), plan.program.begin(), plan.program.end());
  return line;
}

std::string job_plan_text(const JobPlan& plan, const std::string& starter) {
  int first_rank = 0;
  bool counted = true;
  std::string text;
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    const Host& host = plan.hosts[i];
    text += fmt::format("node {}  host {}  ", i, host.name);
    text += host.slots > 0
                ? fmt::format("ranks {} to {}\n", first_rank, first_rank + host.slots - 1)
                : "ranks: the host counts them\n";
    first_rank += host.slots;
    counted = counted && host.slots > 0;
  }
  return fmt::format("job {}: {} on {} hosts, started by {}\n{}", plan.name,
                     counted ? fmt::format("{} ranks", first_rank) : "ranks", plan.hosts.size(),
                     starter, text);
}

}  // namespace dl::launcher::remote
