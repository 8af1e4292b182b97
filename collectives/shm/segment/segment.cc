#include "collectives/shm/segment/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/sanitizers.h"

#if defined(__SANITIZE_THREAD__)
#include <map>

#include "core/base/mutex.h"
#endif

#include "core/base/error.h"
#include "core/base/system/machine/cgroup.h"
#include "core/base/system/machine/limits.h"

namespace dl::collectives::shm {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW;

// A signal interrupts fallocate() and undoes its work, so reserve in steps.
constexpr std::size_t kReserveStep = std::size_t{16} << 20;

// Memory that the kernel could hand out now. The kernel does not refuse an impossible size: it
// would reserve page after page until none is left for any process, and then kill one.
std::size_t available_memory() {
  std::FILE* const file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return std::numeric_limits<std::size_t>::max();
  std::array<char, 256> line{};
  std::size_t kilobytes = std::numeric_limits<std::size_t>::max() / 1024;
  while (std::fgets(line.data(), static_cast<int>(line.size()), file) != nullptr) {
    if (std::sscanf(line.data(), "MemAvailable: %zu", &kilobytes) == 1) break;
  }
  std::fclose(file);
  return kilobytes * 1024;
}

// Check the cgroup's limit beforehand, because the kernel kills a process of a group that reaches
// it.
void check_available(std::size_t bytes, const std::string& what) {
  const std::size_t available = available_memory();
  DL_CHECK(bytes <= available, kIo, "{}: this machine has {} bytes of memory left", what,
           available);
  const std::optional<std::uint64_t> left = memory_left_by_cgroup();
  DL_CHECK(
      !left || bytes <= *left, kIo,
      "{}: the memory limit of this process's control group leaves {} bytes; give the job more "
      "memory (--mem under SLURM), or run fewer ranks",
      what, *left);
}

#if defined(__SANITIZE_THREAD__)
// TSan tracks addresses: it would see no race between two mappings of one page. So in its build the
// ranks of one process share one mapping.
struct Mapping {
  void* data = nullptr;
  std::size_t bytes = 0;
  int users = 0;
};
Mutex mappings_mutex;
std::map<ino_t, Mapping>& mappings() DL_REQUIRES(mappings_mutex) {
  static std::map<ino_t, Mapping> all;
  return all;
}
#endif

std::byte* map_shared(int fd, std::size_t bytes) {
#if defined(__SANITIZE_THREAD__)
  struct stat status{};
  if (::fstat(fd, &status) != 0) throw_errno(errno, "look at a segment");
  const Lock lock(mappings_mutex);
  Mapping& known = mappings()[status.st_ino];
  if (known.users++ > 0) return static_cast<std::byte*>(known.data);
#endif
  void* const data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (data == MAP_FAILED) {
    throw_errno(errno, fmt::format("map {} bytes of shared memory", bytes));
  }
  ::madvise(data, bytes, MADV_DONTFORK);
#if defined(__SANITIZE_THREAD__)
  known.data = data;
  known.bytes = bytes;
#endif
  return static_cast<std::byte*>(data);
}

void unmap_shared(std::byte* data, std::size_t bytes) noexcept {
#if defined(__SANITIZE_THREAD__)
  const Lock lock(mappings_mutex);
  for (auto entry = mappings().begin(); entry != mappings().end(); ++entry) {
    if (entry->second.data != data) continue;
    if (--entry->second.users > 0) return;
    mappings().erase(entry);
    break;
  }
#endif
  ::munmap(data, bytes);
}

// True if all of a range is private anonymous writable memory, and not a stack.
bool is_ordinary(const std::byte* data, std::size_t bytes) {
  std::FILE* const file = std::fopen("/proc/self/maps", "re");
  if (file == nullptr) return false;
  auto at = reinterpret_cast<std::uintptr_t>(data);
  const std::uintptr_t end = at + bytes;
  std::array<char, 512> line{};
  while (at < end && std::fgets(line.data(), static_cast<int>(line.size()), file) != nullptr) {
    std::uintptr_t from = 0, to = 0;
    std::array<char, 5> rights{};
    unsigned long inode = 0;
    if (std::sscanf(line.data(), "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %lu", &from, &to,
                    rights.data(), &inode) != 4 ||
        to <= at) {
      continue;
    }
    if (from > at || std::string_view(rights.data()) != "rw-p" || inode != 0 ||
        std::string_view(line.data()).find("[stack") != std::string_view::npos) {
      break;
    }
    at = to;
  }
  std::fclose(file);
  return at >= end;
}

}  // namespace

Segment Segment::make(std::size_t bytes) {
  Segment segment;
  segment.fd_.reset(::memfd_create("dlrun-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const std::string what = fmt::format("reserve {} bytes of shared memory", bytes);
  if (!segment.fd_) throw_errno(errno, what);
  check_available(bytes, what);
  if (bytes > file_size_limit()) throw_errno(EFBIG, what);  // fallocate() would send SIGXFSZ
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t step = std::min(bytes - at, kReserveStep);
    if (::fallocate(segment.fd_.get(), 0, static_cast<off_t>(at), static_cast<off_t>(step)) == 0) {
      at += step;
    } else if (errno != EINTR) {
      throw_errno(errno, what);
    }
  }
  if (::fcntl(segment.fd_.get(), F_ADD_SEALS, kSeals) != 0) throw_errno(errno, what);
  segment.data_ = map_shared(segment.fd_.get(), bytes);
  segment.bytes_ = bytes;
  return segment;
}

Segment Segment::map(UniqueFd fd, std::size_t bytes) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) throw_errno(errno, "look at a peer's segment");
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  DL_CHECK(seals >= 0 && (seals & F_SEAL_SHRINK) != 0, kMismatch,
           "a peer's segment may shrink; it was not made by dlrun");
  DL_CHECK(static_cast<std::size_t>(status.st_size) == bytes, kMismatch,
           "a peer's segment has {} bytes, wanted {}; install the same dlrun everywhere",
           status.st_size, bytes);
  Segment segment;
  segment.data_ = map_shared(fd.get(), bytes);
  segment.bytes_ = bytes;
  return segment;
}

Segment Segment::take_over(std::byte* data, std::size_t bytes) {
#if defined(__SANITIZE_THREAD__)
  static_cast<void>(&is_ordinary);
  throw_error(ErrorKind::kNotImplemented,
              "under ThreadSanitizer {} bytes at {} cannot be shared in their place", bytes,
              static_cast<const void*>(data));
#else
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  DL_CHECK(bytes > 0 && reinterpret_cast<std::uintptr_t>(data) % page == 0 && bytes % page == 0,
           kInvalidArgument,
           "{} bytes at {} are not whole pages of {} bytes, and only those can be shared; allocate "
           "symmetric memory instead",
           bytes, static_cast<const void*>(data), page);
  DL_CHECK(is_ordinary(data, bytes), kInvalidArgument,
           "{} bytes at {} are not all private anonymous memory that may be written (a file's, a "
           "stack, shared already?), and cannot be shared; allocate symmetric memory instead",
           bytes, static_cast<const void*>(data));
  Segment segment = make(bytes);
  std::memcpy(segment.data_, data, bytes);
  if (::mremap(segment.data_, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, data) == MAP_FAILED) {
    throw_errno(errno, fmt::format("share {} bytes in their place", bytes));
  }
  segment.data_ = data;
  segment.is_taken_over_ = true;
  return segment;
#endif
}

bool Segment::make_private([[maybe_unused]] std::size_t offset,
                           [[maybe_unused]] std::size_t bytes) const noexcept {
#if !defined(__SANITIZE_THREAD__)  // there the ranks are threads that share one mapping
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = offset / page * page;
  const std::size_t size = (offset + bytes + page - 1) / page * page - begin;
  void* const fresh =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  std::memcpy(fresh, data_ + begin, size);
  if (::mremap(fresh, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, data_ + begin) == MAP_FAILED) {
    const int why = errno;
    ::munmap(fresh, size);
    errno = why;
    return false;
  }
#endif
  return true;
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      is_taken_over_(std::exchange(other.is_taken_over_, false)),
      made_in_(other.made_in_) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(is_taken_over_, other.is_taken_over_);
  std::swap(made_in_, other.made_in_);
  return *this;
}

Segment::~Segment() {
  // In a forked child something else may be mapped there by now.
  if (made_in_.is_in_child()) return;
  if (is_taken_over_) {
    make_private(0, bytes_);  // if no other process maps the pages, they may stay shared
  } else if (data_ != nullptr) {
    unmap_shared(data_, bytes_);
  }
}

}  // namespace dl::collectives::shm
