// The dlrun of one host, asked by ssh or, if the host is this machine, directly.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/remote/ask/ask_child.h"
#include "launcher/remote/ask/ask_hosts.h"
#include "launcher/remote/ssh/ssh.h"

namespace dl::launcher::remote {

class AskedDlrun {
 public:
  // `ssh`: words; empty: directly. Throws kInvalidArgument if ssh is not found, and kIo.
  AskedDlrun(const HostQuestion& question, const std::vector<std::string>& ssh);

  AskChild* child() { return child_.get(); }
  // To be called after read_answers().
  HostAnswer answer(std::chrono::seconds patience);

 private:
  std::string host_;
  AgentCommand command_;
  std::unique_ptr<AskChild> child_;
};

// The error of a host for which dlrun has waited so long.
std::string not_in_time(const std::string& host, std::chrono::seconds patience);

}  // namespace dl::launcher::remote
