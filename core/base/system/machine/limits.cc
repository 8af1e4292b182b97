#include "core/base/system/machine/limits.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <system_error>

#include "core/base/system/machine/cgroup.h"

#include "core/base/error.h"

namespace dl {
namespace {

std::string cure_of(const rlimit& limit) {
  return limit.rlim_cur < limit.rlim_max
             ? fmt::format("`ulimit -n {}` is allowed", limit.rlim_max)
             : "it is the hard limit, which root raises (limits.conf, LimitNOFILE=); fewer ranks "
               "on this node need less";
}

std::string text_of_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return "";
  return fmt::format("; the limit (ulimit -n) is {} and one more is wanted: {}", limit.rlim_cur,
                     cure_of(limit));
}

rlim_t address_space_limit() noexcept {
  rlimit memory{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(RLIMIT_AS, &memory);
  return memory.rlim_cur;
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

// Counts the open descriptors with numbers below the limit.
std::uint64_t count_open_files(rlim_t limit) {
  std::uint64_t open = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> listed(::opendir("/proc/self/fd"), ::closedir);
  if (!listed) {  // there is no descriptor for it, or no /proc
    for (rlim_t fd = 0; fd < limit; ++fd) {
      open += ::fcntl(static_cast<int>(fd), F_GETFD) >= 0 ? 1 : 0;
    }
    return open;
  }
  while (const dirent* const entry = ::readdir(listed.get())) {
    const std::string_view name = entry->d_name;
    int fd = -1;
    std::from_chars(name.data(), name.data() + name.size(), fd);  // not "." and ".."
    const bool counts = fd >= 0 && static_cast<rlim_t>(fd) < limit && fd != ::dirfd(listed.get());
    open += counts ? 1 : 0;
  }
  return open;
}

}  // namespace

std::uint64_t file_size_limit() noexcept {
  rlimit limit{};
  const bool is_limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_limited ? limit.rlim_cur : std::numeric_limits<std::uint64_t>::max();
}

void require_open_files(std::uint64_t more, std::string_view who) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::uint64_t open = count_open_files(limit.rlim_cur);
  DL_CHECK(open + more <= limit.rlim_cur, kIo,
           "{} wants {} more open files, {} are open, and the limit (ulimit -n) is {}: {}", who,
           more, open, limit.rlim_cur, cure_of(limit));
}

bool is_out_of_files(int error) noexcept {
  return error == EMFILE || error == ENFILE;
}

std::string system_error_text(int error) {
  std::string text = std::strerror(error);
  if (error == EMFILE) return text + text_of_open_files();
  if (error == ENFILE) {
    return text + "; the whole system's limit (sysctl fs.file-max) is reached";
  }
  if (error == EFBIG && file_size_limit() != std::numeric_limits<std::uint64_t>::max()) {
    return text + fmt::format(
                      "; the limit of a file (ulimit -f) is {} bytes, and it wants to grow "
                      "beyond",
                      file_size_limit());
  }
  if (error == ENOMEM && address_space_limit() != RLIM_INFINITY) {
    return text + fmt::format("; the limit (ulimit -v) is {} bytes", address_space_limit());
  }
  return text;
}

bool is_resource_exhausted(int error) noexcept {
  return error == EAGAIN || error == ENOMEM || error == ENOSPC || is_out_of_files(error);
}

std::string spawn_error_text(int error) {
  if (error != EAGAIN && error != ENOMEM) return system_error_text(error);
  rlimit processes{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(RLIMIT_NPROC, &processes);
  const rlim_t memory = address_space_limit();
  std::string text = std::strerror(error);
  if (error == ENOMEM || memory != RLIM_INFINITY) {
    return text + fmt::format(
                      "; no room for a process or thread more: the limits are {} bytes "
                      "of memory (ulimit -v) and {} processes and threads (ulimit -u)",
                      limit_text(memory), limit_text(processes.rlim_cur));
  }
  text += fmt::format("; no process or thread more: the limit of this user (ulimit -u) is {}",
                      limit_text(processes.rlim_cur));
  if (const auto group = pids_limit()) {
    text += fmt::format(", that of the control group (pids.max) is {}", *group);
  }
  return text;
}

std::string out_of_memory_text() {
  const rlim_t memory = address_space_limit();
  if (memory == RLIM_INFINITY) {
    return "out of memory; is it limited (memory.max of the control group)?";
  }
  return fmt::format("out of memory: the limit (ulimit -v) is {} bytes", memory);
}

std::string text_with_limits(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return out_of_memory_text();
  }
  const auto* const system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr) return error.what();
  const std::error_code& code = system->code();
  if (code == std::errc::too_many_files_open || code == std::errc::too_many_files_open_in_system) {
    return system_error_text(code.value());
  }
  const bool is_of_room =
      code == std::errc::resource_unavailable_try_again || code == std::errc::not_enough_memory;
  return is_of_room ? spawn_error_text(code.value()) : error.what();
}

}  // namespace dl
