#include "examples/support/training/checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "collectives/compose/objects.h"
#include "core/base/error.h"

namespace dl::examples {
namespace {

namespace fs = std::filesystem;

// "PATH is a symbolic link to TARGET, which is not there": of the path or a folder above it. The
// system says "File exists" of such a link.
std::optional<std::string> find_broken_link(const fs::path& path) {
  std::error_code ignored;
  for (fs::path part = path; !part.empty(); part = part.parent_path()) {
    if (fs::is_symlink(part, ignored) && !fs::exists(part, ignored)) {
      return fmt::format("{} is a symbolic link to {}, which is not there", part.string(),
                         fs::read_symlink(part, ignored).string());
    }
    if (part == part.parent_path()) break;
  }
  return std::nullopt;
}

}  // namespace

void require_equal_settings(const std::string& settings, const RunOptions& run,
                            collectives::ProcessGroup& group) {
  const std::string checkpoints =
      run.checkpoint_dir.empty()
          ? ""
          : fmt::format(" --checkpoint-dir {} --checkpoint-every {}{}", run.checkpoint_dir,
                        run.checkpoint_every, run.resume ? " --resume" : "");
  // Ranks capture a step on their GPUs together, though its numbers are the same without.
  const std::string mine = settings + (run.compiles ? " --compile" : "") + checkpoints;
  const std::vector<std::string> all = collectives::all_gather_bytes(group, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    DL_CHECK(all[rank] == all[0], kMismatch,
             "rank {} was started with {}, rank 0 with {}; give all ranks the same", rank,
             all[rank], all[0]);
  }
}

void require_writable_places(const RunOptions& run, const collectives::ProcessGroup& group) {
  if (group.rank() == 0 && !run.save.empty()) require_writable(run.save);
  if (group.rank() == 0 && !run.checkpoint_dir.empty()) {
    require_writable_folder("--checkpoint-dir", run.checkpoint_dir);
  }
  if (!run.profile_dir.empty()) require_writable_folder("--profile", run.profile_dir);
}

void require_writable(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const bool writable = ::access(folder.empty() ? "." : folder.c_str(), W_OK) == 0;
  DL_CHECK(writable, kInvalidArgument, "--save {}: cannot write to its folder: {}", path,
           std::strerror(errno));
  std::error_code ignored;
  DL_CHECK(!fs::is_directory(path, ignored), kInvalidArgument,
           "--save {} is a folder, wanted a file's name", path);
  const bool is_new = !fs::exists(path, ignored);
  DL_CHECK(is_new || fs::is_regular_file(path, ignored), kInvalidArgument,
           "--save {} is a device or a pipe, wanted a file's name", path);
}

void require_writable_folder(std::string_view option, const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  DL_CHECK(!error, kInvalidArgument, "{} {}: cannot make it: {}", option, path,
           find_broken_link(path).value_or(error.message()));
  DL_CHECK(::access(path.c_str(), W_OK) == 0, kInvalidArgument, "{} {}: cannot write there: {}",
           option, path, std::strerror(errno));
}

}  // namespace dl::examples
