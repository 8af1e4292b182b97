#include "launcher/srun/srun_task.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>

#include "core/base/deadline.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/text/number.h"
#include "launcher/slurm/munge.h"
#include "rendezvous/net/connect/connect.h"
#include "rendezvous/net/handshake/job_key.h"

namespace dl::launcher {
namespace {

using env::Var;

constexpr std::chrono::seconds kTimeToConnect{30};
// Tasks that start later read the key from their standard input.
constexpr std::chrono::seconds kLifeOfCredential{300};
constexpr std::string_view kHeadOfCredential = "dlrun-srun ";

// Reads one line, and not a byte beyond it.
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

// Returns nullopt if no credential came, or this node cannot open it.
std::optional<rendezvous::JobKey> key_from_credential(const std::string& credential) {
  if (credential.empty()) return std::nullopt;
  try {
    const std::string text = munge_open(credential);
    if (!text.starts_with(kHeadOfCredential)) return std::nullopt;
    return rendezvous::JobKey::from_hex(text.substr(kHeadOfCredential.size()));
  } catch (const Error&) {
    return std::nullopt;
  }
}

UniqueFd connect_back(const rendezvous::JobKey& key, std::uint16_t port, bool to_agent, int node) {
  const auto host = env::get(Var::kSlurmLaunchAddress);
  DL_CHECK(host.has_value(), kNotFound, "srun has not set {}",
           env::name_of(Var::kSlurmLaunchAddress));
  rendezvous::Connection connection =
      rendezvous::connect_and_prove({*host, port},
                                    {.job = std::string(kSrunJob),
                                     .generation = rendezvous::kAnyGeneration,
                                     .purpose = std::string(purpose_of(to_agent)),
                                     .from = fmt::format("dlrun of node {}", node),
                                     .rank = node},
                                    key, rendezvous::Deadline::after(kTimeToConnect));
  // Blocking: a Channel sets the flag itself if it takes the connection over.
  const int flags = ::fcntl(connection.fd.get(), F_GETFL);
  ::fcntl(connection.fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  return std::move(connection.fd);
}

}  // namespace

std::string frontend_for_tasks(std::uint16_t port, const rendezvous::JobKey& key) {
  try {
    return fmt::format("{}:{}", port,
                       munge_seal(std::string(kHeadOfCredential) + key.hex(), kLifeOfCredential));
  } catch (const Error&) {
    return std::to_string(port);
  }
}

void be_called_dlrun() {
  ::prctl(PR_SET_NAME, "dlrun");
}

std::optional<LinesToFrontend> connect_as_task_of_srun(CommandLine) {
  if (!env::is_set(Var::kSrunFrontend)) return std::nullopt;
  be_called_dlrun();
  const int node = static_cast<int>(env::require_int(Var::kSlurmNodeId));
  const std::string frontend = *env::get(Var::kSrunFrontend);
  env::unset(Var::kSrunFrontend);  // a dlrun that a rank starts is on its own
  const std::size_t colon = std::min(frontend.find(':'), frontend.size());
  const auto port = read_number<std::uint16_t>(std::string_view(frontend).substr(0, colon));
  DL_CHECK(port.has_value(), kInvalidArgument, "{} does not begin with a port",
           env::name_of(Var::kSrunFrontend));
  std::optional<rendezvous::JobKey> key =
      key_from_credential(frontend.substr(std::min(colon + 1, frontend.size())));
  if (!key) key = key_from_input();
  return LinesToFrontend{.in = connect_back(*key, *port, /*to_agent=*/true, node),
                         .out = connect_back(*key, *port, /*to_agent=*/false, node)};
}

}  // namespace dl::launcher
