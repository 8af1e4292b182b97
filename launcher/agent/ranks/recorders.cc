#include "launcher/agent/ranks/recorders.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "collectives/record/snapshot.h"
#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/process/process_stat.h"

namespace dl::launcher {
namespace {

namespace record = collectives::record;

}  // namespace

std::string why_no_recorders() {
  if (env::get(env::Var::kRecorder) == "off" || record::kBytes <= file_size_limit()) return "";
  return fmt::format(
      "no flight recorders are kept: the limit of a file (ulimit -f) is {} bytes, wanted {}",
      file_size_limit(), record::kBytes);
}

UniqueFd make_recorder(const record::Who& who) {
  if (env::get(env::Var::kRecorder) == "off" || record::kBytes > file_size_limit()) return {};
  UniqueFd fd(::memfd_create("flight-recorder", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw_errno(errno, "memfd_create for a flight recorder");
  record::Header header{};
  record::describe(header, who);
  // The rest of the file takes no memory until a rank opens the recorder.
  if (::ftruncate(fd.get(), static_cast<off_t>(record::kBytes)) != 0 ||
      ::pwrite(fd.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header) ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    throw_errno(errno, "making a flight recorder");
  }
  return fd;
}

std::uint64_t recorder_ticks() noexcept {
  static const record::ClockKind clock = record::best_clock();
  return record::ticks(clock);
}

RecorderCopy copy_recorder(int fd, const RankState& state) {
  RecorderCopy copy;
  // A recorder that was not opened has holes, which a read would fill.
  std::uint64_t owner = 0;
  const bool read = ::pread(fd, &owner, sizeof owner, offsetof(record::Header, owner)) ==
                    static_cast<ssize_t>(sizeof owner);
  copy.was_opened = read && owner != 0;
  if (copy.was_opened) {
    void* const at = ::mmap(nullptr, record::kBytes, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) throw_errno(errno, "mapping a flight recorder");
    copy.memory = record::take_snapshot(*static_cast<const record::Memory*>(at));
    ::munmap(at, record::kBytes);
  } else {
    copy.memory = std::make_unique<record::Memory>();
    if (::pread(fd, static_cast<void*>(&copy.memory->header), sizeof(record::Header), 0) < 0) {
      throw_errno(errno, "reading a flight recorder");
    }
    copy.memory->header.copied_at_ns = record::realtime_ns();
  }
  record::Header& header = copy.memory->header;
  header.pid = state.pid;
  header.end = state.end;
  header.status = state.status;
  header.ended_at = state.ended_at;
  std::fill(std::begin(header.fate), std::end(header.fate), '\0');
  state.fate.copy(header.fate, sizeof header.fate);
  header.was_stopped = state.was_stopped ? 1 : 0;
  header.is_cause = state.is_cause ? 1 : 0;
  if (state.end == record::End::kRunning) {
    const std::uint64_t pid = copy.was_opened ? owner : static_cast<std::uint64_t>(state.pid);
    header.process_state = read_stat(fmt::format("/proc/{}", pid)).state;
  }
  return copy;
}

}  // namespace dl::launcher
