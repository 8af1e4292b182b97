#include "launcher/frontend/starter.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "core/base/env.h"
#include "core/base/error.h"
#include "launcher/agent/agent.h"

namespace dl::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNeed = "several nodes need one secret: give its file in --key-file";
constexpr const char* kNoneKept = ", as none can be kept among this user's settings: ";

fs::path users_key() {
  if (const auto config = env::get(env::Var::kXdgConfigHome))
    return fs::path(*config) / "dlrun/key";
  const auto home = env::get(env::Var::kHome);
  DL_CHECK(home.has_value(), kNotFound, "{} (HOME is not set)", kNeed);
  return fs::path(*home) / ".config/dlrun/key";
}

[[noreturn]] void throw_no_key(int error, const fs::path& path) {
  throw_errno(error, fmt::format("{}{}create {}", kNeed, kNoneKept, path.string()));
}

// Makes the file under another name and links it into place. If two dlruns come first together,
// both end up with one key.
void make_key(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) throw_no_key(error.value(), path.parent_path());
  // The name is random instead of the pid, because containers that share a home directory have
  // equal pids.
  const auto random = rendezvous::JobKey::generate().hex().substr(0, 16);
  const std::string aside = fmt::format("{}.{}", path.string(), random);
  try {
    rendezvous::JobKey::generate().write_file(aside);
  } catch (const Error& failed) {
    throw_error(failed.kind(), "{}{}{}", kNeed, kNoneKept, failed.what());
  }
  const int failed = ::link(aside.c_str(), path.c_str()) == 0 ? 0 : errno;
  ::unlink(aside.c_str());
  if (failed != 0 && failed != EEXIST) throw_no_key(failed, path);
}

}  // namespace

rendezvous::JobKey job_secret(int nnodes, const std::string& key_file) {
  if (!key_file.empty()) return rendezvous::JobKey::from_file(key_file);
  if (nnodes == 1) return rendezvous::JobKey::generate();
  if (auto key = rendezvous::JobKey::from_environment()) return *key;
  const fs::path path = users_key();
  if (::access(path.c_str(), F_OK) != 0) make_key(path);
  return rendezvous::JobKey::from_file(path);
}

std::unique_ptr<AgentOrders> StartHere::start(AgentStart start) {
  return std::make_unique<Agent>(start.io, plan_, std::move(start.settings),
                                 job_secret(plan_.job.nnodes, start.key_file).to_memfd(),
                                 std::move(warden_), start.disk, start.output, start.events);
}

}  // namespace dl::launcher
