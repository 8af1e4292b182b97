#include "rendezvous/net/handshake/job_key.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/namespaces.h"
#include "core/base/system/output.h"

namespace dl::rendezvous {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
// A key file has at most this many bytes: the hexadecimal text, and white space around it.
constexpr std::size_t kLongestKey = 256;

int digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// A copy of the key's text, wiped on destruction.
struct Text {
  std::string text;
  ~Text() { ::explicit_bzero(text.data(), text.size()); }
};

JobKey read_key(int fd, std::string_view what) {
  Text read{std::string(kLongestKey + 1, '\0')};
  std::size_t size = 0;
  while (size < read.text.size()) {
    const ssize_t n =
        ::pread(fd, read.text.data() + size, read.text.size() - size, static_cast<off_t>(size));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, what);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  read.text.resize(size);
  try {
    return JobKey::from_hex(read.text);
  } catch (const Error& error) {
    throw_error(error.kind(), "{}: {}", what, error.what());
  }
}

void write_or_throw(int fd, std::string_view text, std::string_view what) {
  if (const int error = write_all(fd, text); error != 0) throw_errno(error, what);
}

// Only a memfd with our seals counts as the key. A program between dlrun and this one may have
// closed the descriptor, and then opened another file under its number. A kernel with
// vm.memfd_noexec adds a seal, so more seals are accepted.
bool is_key_memfd(int fd) noexcept {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  return seals >= 0 && (seals & kSeals) == kSeals;
}

// Kubernetes mounts a Secret read-only, on a memory file system of the pod's own. The file belongs
// to root and has mode 0644 or, for a group, 0440. Only the pod's processes see it. On a host,
// other users may read such a file. So it counts only if this process is not in the host's PID
// namespace.
bool is_secret_of_container(int fd, const struct stat& status) {
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return false;
  if (status.st_uid != 0 && status.st_uid != ::geteuid()) return false;
  struct statfs system{};
  struct statvfs mount{};
  return ::fstatfs(fd, &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC) &&
         ::fstatvfs(fd, &mount) == 0 && (mount.f_flag & ST_RDONLY) != 0 &&
         is_in_own_pid_namespace();
}

// `what` begins the texts of errors.
JobKey read_key_file(const std::string& path, const std::string& what) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw_errno(errno, what);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw_errno(errno, what);
  DL_CHECK(S_ISREG(status.st_mode), kInvalidArgument, "{} is not a regular file", what);
  const bool is_own = (status.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  DL_CHECK(
      is_own || is_secret_of_container(fd.get(), status), kInvalidArgument,
      "{} can be read by others (mode {:04o}); chmod 600 it (a container's secret may keep its "
      "mode on a read-only tmpfs)",
      what, status.st_mode & 07777U);
  return read_key(fd.get(), what);
}

}  // namespace

JobKey JobKey::generate() {
  JobKey key;
  std::size_t size = 0;
  while (size < kBytes) {
    const ssize_t n = ::getrandom(key.bytes_.data() + size, kBytes - size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, "getrandom");
    size += static_cast<std::size_t>(n);
  }
  return key;
}

JobKey JobKey::from_hex(const std::string& text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::string_view digits = text;
  digits.remove_prefix(std::min(digits.find_first_not_of(kSpace), digits.size()));
  digits = digits.substr(0, digits.find_last_not_of(kSpace) + 1);
  DL_CHECK(digits.size() == 2 * kBytes, kParse,
           "a job key is {} hexadecimal digits, this text has {} characters", 2 * kBytes,
           digits.size());
  JobKey key;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const int high = digit(digits[2 * i]);
    const int low = digit(digits[2 * i + 1]);
    DL_CHECK(high >= 0 && low >= 0, kParse,
             "a job key is {} hexadecimal digits, character {} or {} of this text is not one",
             2 * kBytes, 2 * i + 1, 2 * i + 2);
    key.bytes_[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return key;
}

std::optional<JobKey> JobKey::from_environment() {
  const std::optional<std::string> path = env::get(env::Var::kKeyFile);
  if (const std::optional<std::int64_t> number = env::get_int(env::Var::kKeyFd)) {
    const std::string what = fmt::format("{}={}", env::name_of(env::Var::kKeyFd), *number);
    const bool possible = *number >= 0 && *number <= std::int64_t{1} << 30;
    if (possible && is_key_memfd(static_cast<int>(*number))) {
      return read_key(static_cast<int>(*number), what);
    }
    // dlrun's own file has a path in /proc, which another PID namespace does not have.
    DL_CHECK(path && ::access(path->c_str(), F_OK) == 0, kInvalidArgument,
             "{} is not the job key's descriptor (a program in between, such as a container's "
             "runtime, has closed it), and {} {}; let the descriptor through, or set {} to a "
             "file of mode 0600",
             what, env::name_of(env::Var::kKeyFile), path ? "names no file here" : "is not set",
             env::name_of(env::Var::kKeyFile));
  }
  if (path) {
    return read_key_file(*path, fmt::format("{}={}", env::name_of(env::Var::kKeyFile), *path));
  }
  return std::nullopt;
}

JobKey JobKey::require_from_environment() {
  const std::optional<JobKey> key = from_environment();
  DL_CHECK(key.has_value(), kInvalidArgument,
           "no job key: {} and {} are not set; start the program with dlrun, or make a file with "
           "`(umask 077; openssl rand -hex 32 > job.key)` and set {} to it in every process of the "
           "job",
           env::name_of(env::Var::kKeyFd), env::name_of(env::Var::kKeyFile),
           env::name_of(env::Var::kKeyFile));
  return *key;
}

JobKey JobKey::from_file(const std::string& path) {
  return read_key_file(path, fmt::format("job key {}", path));
}

std::string JobKey::hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * kBytes);
  for (const std::uint8_t byte : bytes_) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

UniqueFd JobKey::to_memfd() const {
  UniqueFd fd(::memfd_create("dlrun-key", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw_errno(errno, "memfd_create for the job key");
  const Text text{hex()};
  write_or_throw(fd.get(), text.text, "write the job key's memfd");
  // With this mode it is also accepted as a key file, under /proc/<pid>/fd.
  if (::fchmod(fd.get(), S_IRUSR | S_IWUSR) != 0) throw_errno(errno, "chmod the job key's memfd");
  if (::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) throw_errno(errno, "seal the job key's memfd");
  return fd;
}

void JobKey::write_file(const std::string& path) const {
  const std::string what = fmt::format("write the job key to {}", path);
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                           S_IRUSR | S_IWUSR));
  if (!fd) throw_errno(errno, what);
  const Text text{hex() + "\n"};
  write_or_throw(fd.get(), text.text, what);
}

JobKey::~JobKey() {
  ::explicit_bzero(bytes_.data(), bytes_.size());
}

}  // namespace dl::rendezvous
