// Which hosts a subcommand of dlrun is about, and how they are asked: by ssh, as the agents of a
// job are started, by a step of srun inside an allocation of SLURM, or directly on this machine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cli/subcommand/subcommand.h"

namespace dl::launcher::remote {

struct HostChoice {
  std::vector<std::string> hosts;  // empty: this machine alone, without ssh and srun
  std::vector<std::string> ssh;    // words of --ssh
  bool by_srun = false;            // the hosts are the nodes of this allocation of SLURM
  // This host's name, if it is none of the nodes of the allocation, as below salloc on a login
  // node.
  std::string beside = {};
};
// The hosts of --hosts or --hostfile. Without them all nodes of the allocation of SLURM, if it is
// more than this host; in a task of srun, in a rank and with --this-host this machine. Throws
// kInvalidArgument.
HostChoice read_hosts(const SubcommandLine& line);

struct HostQuestion {
  std::string host;
  std::vector<std::string> words;  // behind `dlrun`
};

struct HostAnswer {
  std::string host;
  std::string text;   // its standard output
  int exit_code = 0;  // of its dlrun
  // This host's clock, since 1970, when the host was asked and when its answer was complete.
  std::int64_t began_ns = 0;
  std::int64_t ended_ns = 0;
  std::string error;  // a sentence that names the host: it has not answered; empty: it has
};

struct AskHostsOptions {
  std::vector<std::string> ssh;  // words
  std::chrono::seconds patience{20};
  // Called every few seconds with the hosts that have not answered.
  std::function<void(const std::vector<std::string>& hosts)> on_waiting = {};
  // Called with each line in which a host's dlrun says for whom it waits.
  std::function<void(const std::string& line)> on_remark = {};
  bool by_srun = false;
  std::string beside = {};  // asked directly, as in HostChoice
  // If a step of srun fails, nodes that have not begun to answer are asked again, each in a step of
  // its own. False: a question must not reach a node twice.
  bool may_repeat = true;
};

// Options of which on_waiting says on standard error for which hosts it waits.
AskHostsOptions asking(const HostChoice& choice, std::chrono::seconds patience);

// The answers, in the order of the questions. Hosts that do not answer in time are given up. To be
// called without a job in this process. Throws kInvalidArgument if ssh is not found, kNotFound if
// srun is not found, and kIo.
std::vector<HostAnswer> ask_hosts(const std::vector<HostQuestion>& questions,
                                  const AskHostsOptions& options);

// For AskChild::on_said: passes on the lines in which a dlrun says for whom it waits.
std::function<void(const std::string& line)> remarks_in(
    std::function<void(const std::string& line)> on_remark);

// A sentence that names the host: its answer is not what this dlrun reads.
std::string not_understood(const std::string& host);

}  // namespace dl::launcher::remote
