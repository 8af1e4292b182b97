#include <fmt/core.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "launcher/doctor/checks/families.h"

namespace dl::launcher::doctor {
namespace {

constexpr std::uint64_t kFewFiles = 10'000;

// statfs(2)'s f_type.
struct FileSystem {
  std::uint64_t magic;
  std::string_view name;
  bool is_of_network;
};
constexpr std::array kFileSystems = {
    FileSystem{0xef53, "ext4", false},      FileSystem{0x58465342, "xfs", false},
    FileSystem{0x9123683e, "btrfs", false}, FileSystem{0x794c7630, "overlay", false},
    FileSystem{0x01021994, "tmpfs", false}, FileSystem{0x2fc12fc1, "zfs", false},
    FileSystem{0x6969, "nfs", true},        FileSystem{0x0bd00bd0, "lustre", true},
    FileSystem{0x47504653, "gpfs", true},   FileSystem{0x19830326, "beegfs", true},
    FileSystem{0x00c36400, "ceph", true},   FileSystem{0xff534d42, "cifs", true},
    FileSystem{0xfe534d42, "smb2", true},   FileSystem{0x65735546, "fuse", true},
    FileSystem{0x01021997, "9p", true},     FileSystem{0xaad7aaea, "panfs", true},
};

}  // namespace

DiskFacts read_disk(const std::string& path) {
  namespace fs = std::filesystem;
  DiskFacts facts{.path = path, .error = {}, .type = {}};
  // dlrun makes the folder; what counts is the nearest one that is there.
  std::error_code error;
  fs::path folder = fs::absolute(path, error);
  while (!fs::exists(folder, error) && !error && folder.has_relative_path()) {
    folder = folder.parent_path();
  }
  struct statfs room{};
  if (error || ::statfs(folder.c_str(), &room) != 0) {
    facts.error = error ? error.message() : std::strerror(errno);
    return facts;
  }
  if (!fs::is_directory(folder, error)) {
    facts.error = folder.string() + " is no folder";
    return facts;
  }
  const auto magic = static_cast<std::uint64_t>(room.f_type) & 0xffffffffU;
  const auto* const known = std::ranges::find(kFileSystems, magic, &FileSystem::magic);
  if (known != kFileSystems.end()) {
    facts.type = known->name;
    facts.is_of_network = known->is_of_network;
  }
  facts.is_writable = ::access(folder.c_str(), W_OK | X_OK) == 0;
  facts.free = static_cast<std::uint64_t>(room.f_bavail) * static_cast<std::uint64_t>(room.f_bsize);
  // Some file systems have no number of files.
  if (room.f_files > 0) facts.files_free = room.f_ffree;
  return facts;
}

Checks check_disk(const DiskFacts& facts) {
  const std::string name = "disk of --log-dir";
  const std::string elsewhere = "give another folder: dlrun --log-dir DIR";
  if (!facts.error.empty()) {
    return {judged(name, fmt::format("{}: {}", facts.path, facts.error),
                   {{true, Verdict::kWrong, "dlrun cannot write logs there", elsewhere}})};
  }
  std::string found = fmt::format("{}: {}, {} free", facts.path,
                                  facts.type.empty() ? "?" : facts.type, size_text(facts.free));
  if (facts.files_free < kFewFiles) {
    found += facts.files_free == 0 ? ", no inodes free"
                                   : fmt::format(", {} inodes free", facts.files_free);
  }
  return {judged(name, found,
                 {{!facts.is_writable, Verdict::kWrong, "this user may not write there", elsewhere},
                  {facts.files_free == 0, Verdict::kWrong,
                   "the file system takes no further file, although it has room: dlrun goes on "
                   "without logs",
                   "df -i, and delete files, or " + elsewhere},
                  {facts.free < 64 * kMiB, Verdict::kWrong,
                   "the disk is full: dlrun goes on without the logs that find no room", elsewhere},
                  {facts.free < kGiB || facts.files_free < kFewFiles, Verdict::kWarn,
                   "logs and flight recorders may fill the disk", elsewhere},
                  {facts.is_of_network, Verdict::kWarn,
                   "a network file system may hang, and then logs wait for it; on each host's own "
                   "disk they do "
                   "not",
                   elsewhere}})};
}

}  // namespace dl::launcher::doctor
