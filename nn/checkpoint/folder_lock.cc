#include "nn/checkpoint/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include "core/base/deadline.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/text/printable.h"

namespace dl::nn {
namespace {

using namespace std::chrono_literals;

// The kernel does not notify when a lock is free, so poll.
constexpr auto kLookAgain = 10ms;

// The process that holds a lock on the folder, by /proc/locks; empty if it is on another host or in
// a container that this process cannot see.
std::string holder_of(int folder) {
  struct stat about{};
  if (::fstat(folder, &about) != 0) return "another process";
  const std::string inode = fmt::format(":{}", about.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // 1: FLOCK  ADVISORY  WRITE 4711 08:02:1234 0 EOF
    std::istringstream words(line);
    std::string number;
    std::string kind;
    std::string advisory;
    std::string write;
    std::string pid;
    std::string file;
    words >> number >> kind >> advisory >> write >> pid >> file;
    if (kind != "FLOCK" || !file.ends_with(inode)) continue;
    std::string name;
    std::getline(std::ifstream("/proc/" + pid + "/comm"), name);
    if (!name.empty()) return fmt::format("process {} ({})", pid, printable(name));
  }
  return "another process";
}

}  // namespace

FolderLock::FolderLock(const std::string& path, const std::string& what,
                       std::chrono::nanoseconds timeout)
    : folder_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!folder_) throw_errno(errno, fmt::format("{}: open {}", what, path));
  const dl::detail::Deadline deadline = dl::detail::Deadline::after(timeout);
  while (::flock(folder_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return;  // this file system has no flock()
    const bool is_first = other_.empty();
    if (is_first) other_ = holder_of(folder_.get());
    DL_CHECK(
        !deadline.has_passed(), kTimeout,
        "{}: {} saves into {}, too, and has not ended in {} s; let one process save, as rank 0",
        what, other_, path, std::chrono::duration<double>(timeout).count());
    if (is_first) {
      log::warning("{}: {} saves into {}, too; waiting for it. Let one process save, as rank 0",
                   what, other_, path);
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  is_held_ = true;
}

}  // namespace dl::nn
