#include "launcher/srun/srun_task.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <string>

#include "core/base/deadline.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "rendezvous/net/connect.h"
#include "rendezvous/net/job_key.h"

namespace dl::launcher {
namespace {

using env::Var;

constexpr std::chrono::seconds kTimeToConnect{30};

// Not a byte more than the line: what srun passes on is the same for every task.
rendezvous::JobKey key_from_input() {
  std::string text;
  for (char byte = 0; text.size() <= 2 * rendezvous::JobKey::kBytes;) {
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n < 0 && errno == EINTR) continue;
    DL_CHECK(n > 0, kIo, "the key of the job has not come on standard input through srun");
    if (byte == '\n') break;
    text += byte;
  }
  return rendezvous::JobKey::from_hex(text);
}

UniqueFd connect_back(const rendezvous::JobKey& key, bool to_agent, int node) {
  const auto host = env::get(Var::kSlurmLaunchAddress);
  DL_CHECK(host.has_value(), kNotFound, "srun has not set {}",
           env::name_of(Var::kSlurmLaunchAddress));
  const auto port = static_cast<std::uint16_t>(env::require_int(Var::kSrunFront));
  rendezvous::Connection connection =
      rendezvous::connect_and_prove({*host, port},
                                    {.job = std::string(kSrunJob),
                                     .generation = rendezvous::kAnyGeneration,
                                     .purpose = std::string(purpose_of(to_agent)),
                                     .from = fmt::format("dlrun of node {}", node),
                                     .rank = node},
                                    key, Deadline::after(kTimeToConnect));
  // A Channel that takes it over sets it as it needs it.
  const int flags = ::fcntl(connection.fd.get(), F_GETFL);
  ::fcntl(connection.fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  return std::move(connection.fd);
}

}  // namespace

void be_called_dlrun() {
  ::prctl(PR_SET_NAME, "dlrun");
}

std::optional<LinesToFront> connect_as_task_of_srun(CommandLine) {
  if (!env::is_set(Var::kSrunFront)) return std::nullopt;
  be_called_dlrun();
  const int node = static_cast<int>(env::require_int(Var::kSlurmNodeId));
  const rendezvous::JobKey key = key_from_input();
  LinesToFront lines{.in = connect_back(key, /*to_agent=*/true, node),
                     .out = connect_back(key, /*to_agent=*/false, node)};
  // A dlrun that a rank starts is on its own.
  ::unsetenv(std::string(env::name_of(Var::kSrunFront)).c_str());
  return lines;
}

}  // namespace dl::launcher
