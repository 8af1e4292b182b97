#include "rendezvous/stores/file_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "core/base/system/unique_fd.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/wire.h"
#include "rendezvous/stores/store_checks.h"

namespace dl::rendezvous {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::uint8_t, 8> kMagic{'d', 'l', 'k', 'e', 'y', 0, 0, 2};
constexpr std::string_view kKeyPrefix = "key-";
constexpr std::string_view kLockName = "lock";
constexpr std::string_view kNewName = "new";
constexpr std::string_view kMadeName = "made";  // the directory was made by a store
constexpr auto kFirstPause = 1ms;
constexpr auto kLongestPause = 50ms;

// A file is named by the hash of its key, because a key may be longer than a file name and contain
// any character. The file contains the key itself.
std::string file_name(std::string_view key) {
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const int done =
      ::EVP_Digest(key.data(), key.size(), digest.data(), &size, ::EVP_sha256(), nullptr);
  DL_CHECK(done == 1, kInternal, "store: OpenSSL has no SHA-256");
  std::string name(kKeyPrefix);
  for (std::size_t i = 0; i < 20; ++i) name += fmt::format("{:02x}", digest[i]);
  return name;
}

// Returns nullopt if there is no such file.
std::optional<std::string> read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd && errno == ENOENT) return std::nullopt;
  if (!fd) throw_errno(errno, fmt::format("store: open {}", path));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw_errno(errno, fmt::format("store: stat {}", path));
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t size = 0;
  while (size < content.size()) {
    const ssize_t n = ::read(fd.get(), content.data() + size, content.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_errno(errno, fmt::format("store: read {}", path));
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  content.resize(size);
  return content;
}

std::string host_and_pid() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}", host.data(), ::getpid());
}

}  // namespace

FileStore::FileStore(std::string directory, std::chrono::nanoseconds warn_after)
    : directory_(std::move(directory)), warn_after_(warn_after) {
  DL_CHECK(!directory_.empty(), kInvalidArgument, "store: the directory's name is empty");
  make_directory();
  struct stat status{};
  if (::stat(directory_.c_str(), &status) != 0) {
    throw_errno(errno, fmt::format("store: stat {}", directory_));
  }
  DL_CHECK(S_ISDIR(status.st_mode), kInvalidArgument, "store: {} is not a directory", directory_);
  DL_CHECK(status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0,
           kInvalidArgument,
           "store: {} can be written by others, who could join the job (owner {}, mode {:04o}); "
           "use a directory of your own with mode 0700",
           directory_, status.st_uid, status.st_mode & 07777U);
}

// Does nothing if the directory exists.
void FileStore::make_directory() const {
  if (::mkdir(directory_.c_str(), S_IRWXU) == 0) {
    const std::string mark = fmt::format("{}/{}", directory_, kMadeName);
    const UniqueFd fd(::open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
    // ENOENT: another process has already removed the directory.
    if (!fd && errno != ENOENT) throw_errno(errno, fmt::format("store: write {}", mark));
  } else if (errno != EEXIST) {
    throw_errno(errno, fmt::format("store: make the directory {}", directory_));
  }
}

void FileStore::check_open() {
  const Lock lock(mutex_);
  if (closed_) throw_error(ErrorKind::kAborted, "store: closed: {}", *closed_);
}

void FileStore::poll_until(Deadline deadline, const std::function<bool()>& is_over,
                           const std::function<std::string()>& describe) {
  Patience patience(warn_after_);
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    check_open();
    if (is_over()) return;
    if (deadline.has_passed()) throw Error(ErrorKind::kTimeout, describe());
    if (patience.should_warn()) log::warning("{}", describe());
    Lock lock(mutex_);
    const Deadline until = Deadline::earlier(deadline, Deadline::after(pause));
    closing_.wait_until(lock.native(), until.when(),
                        [&]() DL_REQUIRES(mutex_) { return closed_.has_value(); });
    pause = std::min<std::chrono::milliseconds>(pause * 2, kLongestPause);
  }
}

// flock() locks an open file description, and each call opens its own, so threads and forked
// processes exclude each other. If remove_if() has removed the locked file, the lock excludes no
// other process: then the call starts again in a new directory.
UniqueFd FileStore::lock(std::string_view call, Deadline deadline) {
  const std::string path = fmt::format("{}/{}", directory_, kLockName);
  UniqueFd fd;
  const auto is_in_place = [&] {
    struct stat own{};
    struct stat present{};
    return ::fstat(fd.get(), &own) == 0 && ::lstat(path.c_str(), &present) == 0 &&
           own.st_ino == present.st_ino && own.st_dev == present.st_dev;
  };
  const auto try_lock = [&] {
    for (;;) {
      if (!fd) {
        fd.reset(
            ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
        if (!fd && errno != ENOENT) {
          throw_errno(errno, fmt::format("store: {}: open {}", call, path));
        }
        if (!fd) {
          make_directory();
          return false;
        }
      }
      if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) {
        if (is_in_place()) return true;
        fd.reset();
      } else if (errno == EWOULDBLOCK) {
        return false;
      } else if (errno != EINTR) {
        throw_errno(errno, fmt::format("store: {}: lock {}", call, path));
      }
    }
  };
  poll_until(deadline, try_lock, [&] {
    return fmt::format("store: {}: {} is locked, last by {}", call, path,
                       read_file(path).value_or("an unknown process"));
  });
  // This content is only for the text of another process's timeout.
  const std::string who = host_and_pid();
  if (::ftruncate(fd.get(), 0) != 0 ||
      ::pwrite(fd.get(), who.data(), who.size(), 0) != static_cast<ssize_t>(who.size())) {
    throw_errno(errno, fmt::format("store: {}: write {}", call, path));
  }
  return fd;
}

std::optional<std::string> FileStore::value_of(const std::string& key) const {
  const std::string path = fmt::format("{}/{}", directory_, file_name(key));
  const std::optional<std::string> content = read_file(path);
  if (!content) return std::nullopt;
  WireReader reader({reinterpret_cast<const std::uint8_t*>(content->data()), content->size()});
  const std::span<const std::uint8_t> magic = reader.take_bytes(kMagic.size());
  const std::span<const std::uint8_t> named = reader.take_bytes(reader.take<std::uint16_t>());
  const std::span<const std::uint8_t> value = reader.take_rest();
  DL_CHECK(reader.ok_and_done() && std::ranges::equal(magic, kMagic), kParse,
           "store: {} is not a file of this store", path);
  const std::string other(named.begin(), named.end());
  DL_CHECK(other == key, kInternal, "store: keys '{}' and '{}' have one hash", key, other);
  return std::string(value.begin(), value.end());
}

void FileStore::write(const std::string& key, const std::string& value) const {
  WireWriter head;
  head.put_bytes(kMagic);
  head.put(static_cast<std::uint16_t>(key.size()));
  const std::string whole = std::string(head.bytes().begin(), head.bytes().end()) + key + value;
  std::string_view content = whole;
  // All writers use one name: the lock allows one writer, which overwrites the rest of a killed
  // one.
  const std::string temporary = fmt::format("{}/{}", directory_, kNewName);
  {
    UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
                       S_IRUSR | S_IWUSR));
    if (!fd) throw_errno(errno, fmt::format("store: write {}", temporary));
    while (!content.empty()) {
      const ssize_t n = ::write(fd.get(), content.data(), content.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw_errno(errno, fmt::format("store: write {}", temporary));
      content.remove_prefix(static_cast<std::size_t>(n));
    }
    // NFS reports a lack of space only here.
    if (::close(fd.release()) != 0) throw_errno(errno, fmt::format("store: write {}", temporary));
  }
  const std::string path = fmt::format("{}/{}", directory_, file_name(key));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    throw_errno(errno, fmt::format("store: rename {} to {}", temporary, path));
  }
}

void FileStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  check_key("set", key);
  check_value("set", key, value);
  check_open();
  const UniqueFd held = lock("set", deadline);
  write(std::string(key), std::string(value));
}

std::string FileStore::get(std::string_view key, Deadline deadline) {
  check_key("get", key);
  const auto start = Deadline::Clock::now();
  const std::vector<std::string> keys{std::string(key)};
  std::optional<std::string> value;
  poll_until(
      deadline, [&] { return (value = value_of(keys.front())).has_value(); },
      [&] { return missing_text("get", keys, 1, start); });
  return std::move(*value);
}

std::optional<std::string> FileStore::try_get(std::string_view key, Deadline) {
  check_key("try_get", key);
  check_open();
  return value_of(std::string(key));
}

void FileStore::wait(std::span<const std::string> keys, Deadline deadline) {
  for (const std::string& key : keys) check_key("wait", key);
  const auto start = Deadline::Clock::now();
  std::vector<std::string> missing(keys.begin(), keys.end());
  const auto look = [&] {
    const auto is_there = [&](const std::string& key) { return value_of(key).has_value(); };
    std::erase_if(missing, is_there);
    if (!missing.empty()) return false;
    // The keys have appeared one after the other. Check that all of them exist at the same time.
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(missing),
                 [&](const std::string& key) { return !is_there(key); });
    return missing.empty();
  };
  poll_until(deadline, look, [&] { return missing_text("wait", missing, keys.size(), start); });
}

std::int64_t FileStore::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  check_key("add", key);
  check_open();
  const UniqueFd held = lock("add", deadline);
  const std::string name(key);
  const std::int64_t sum = add_to_number(key, value_of(name), delta);
  write(name, std::to_string(sum));
  return sum;
}

Store::Swap FileStore::compare_and_set(std::string_view key,
                                       const std::optional<std::string>& expected,
                                       std::string_view desired, Deadline deadline) {
  check_key("compare_and_set", key);
  check_value("compare_and_set", key, desired);
  check_open();
  const UniqueFd held = lock("compare_and_set", deadline);
  const std::string name(key);
  Swap swap{.swapped = false, .present = value_of(name)};
  if (swap.present == expected) {
    write(name, std::string(desired));
    swap = {.swapped = true, .present = std::string(desired)};
  }
  return swap;
}

bool FileStore::remove_if(std::string_view key, std::string_view value, Deadline deadline) {
  check_key("remove", key);
  const UniqueFd held = lock("remove", deadline);
  if (value_of(std::string(key)) != value) return false;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory_.c_str()), &::closedir);
  if (!listing) throw_errno(errno, fmt::format("store: list {}", directory_));
  bool made = false;
  bool has_others = false;
  std::vector<std::string> own;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    made = made || name == kMadeName;
    if (name.starts_with(kKeyPrefix) || name == kNewName || name == kMadeName) {
      own.emplace_back(name);
    } else if (name != kLockName && name != "." && name != "..") {
      has_others = true;
    }
  }
  // Remove the lock file last: after that, others may begin a new store under these names.
  own.emplace_back(kLockName);
  // Others may still write into the directory. So rename it first, which takes it away in one step.
  std::string place = directory_;
  const bool removes_directory = made && !has_others;
  if (removes_directory) {
    while (place.ends_with('/')) place.pop_back();
    place += fmt::format(".removed-{}", ::getpid());
    if (::rename(directory_.c_str(), place.c_str()) != 0) {
      throw_errno(errno, fmt::format("store: rename {} to {}", directory_, place));
    }
  }
  for (const std::string& name : own) {
    const std::string path = fmt::format("{}/{}", place, name);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
      throw_errno(errno, fmt::format("store: remove {}", path));
    }
  }
  if (removes_directory && ::rmdir(place.c_str()) != 0 && errno != ENOENT) {
    throw_errno(errno, fmt::format("store: remove {}", place));
  }
  return true;
}

void FileStore::close(std::string_view reason) noexcept {
  const Lock lock(mutex_);
  if (!closed_) closed_ = reason;
  closing_.notify_all();
}

}  // namespace dl::rendezvous
