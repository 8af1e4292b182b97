#include "launcher/nodes/rendezvous_helper.h"

#include <fmt/core.h>
#include <unistd.h>

#include "core/base/env.h"
#include "launcher/process/own_process.h"
#include "launcher/process/start/rank_files.h"

namespace dl::launcher {

std::uint32_t start_rendezvous(WardenClient& warden, NodeOutput& output, const UniqueFd& key,
                               RendezvousStart start, std::function<void(const Message&)> on_news) {
  Pipe err_pipe = make_pipe();
  Helper helper;
  helper.path = own_file().parent_path() / kRendezvousName;
  helper.argv = std::move(start.arguments);
  helper.argv.insert(helper.argv.begin(), kRendezvousName);
  helper.environment = {
      fmt::format("{}={}", env::name_of(env::Var::kKeyFd), kRendezvousKeyFd),
      fmt::format("{}={}", env::name_of(env::Var::kKeyFile), path_of_descriptor(key.get()))};
  helper.fds.emplace_back(std::move(start.in), STDIN_FILENO);
  helper.fds.emplace_back(std::move(start.out), STDOUT_FILENO);
  helper.fds.emplace_back(std::move(err_pipe.write), STDERR_FILENO);
  helper.fds.emplace_back(duplicate(key.get()), kRendezvousKeyFd);
  if (start.listener) helper.fds.emplace_back(std::move(start.listener), kRendezvousListenerFd);
  const std::uint32_t slot = warden.start_helper(std::move(helper), std::move(on_news));
  output.add(std::move(err_pipe.read), Stream::kErr, -1);
  return slot;
}

}  // namespace dl::launcher
