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

std::string settings_of_steps(const Options& options) {
  // Checkpoints hold this text, so an option that came later is in it only if it is used.
  std::string text = fmt::format(
      "--dataset {} --batch-size {} --lr {} --momentum {} --seed {} --amp {}", options.dataset,
      options.batch_size, options.lr, options.momentum, options.seed, options.amp);
  const Options unused{};
  const auto add = [&](const char* option, const auto& value, const auto& default_value) {
    if (value != default_value) text += fmt::format(" {} {}", option, value);
  };
  add("--model", options.model, unused.model);
  add("--image-size", options.image_size, unused.image_size);
  add("--augment", options.augment, unused.augment);
  add("--optimizer", options.optimizer, unused.optimizer);
  add("--weight-decay", options.weight_decay, unused.weight_decay);
  if (options.schedule != unused.schedule) {
    text += fmt::format(" --schedule {} --epochs {} --warmup-epochs {}", options.schedule,
                        options.epochs, options.warmup_epochs);
  }
  if (options.schedule == "step") {
    text += fmt::format(" --step-epochs {} --gamma {}", options.step_epochs, options.gamma);
  }
  add("--label-smoothing", options.label_smoothing, unused.label_smoothing);
  add("--clip-norm", options.clip_norm, unused.clip_norm);
  add("--ema", options.ema, unused.ema);
  return text;
}

void require_equal_settings(const Options& options, collectives::ProcessGroup& group) {
  const std::string checkpoints =
      options.checkpoint_dir.empty()
          ? ""
          : fmt::format(" --checkpoint-dir {} --checkpoint-every {}{}", options.checkpoint_dir,
                        options.checkpoint_every, options.resume ? " --resume" : "");
  const std::string evaluations =
      options.eval_every == 0 ? "" : fmt::format(" --eval-every {}", options.eval_every);
  // Ranks capture a step on their GPUs together, though its numbers are the same without.
  const std::string mine =
      fmt::format("{} --epochs {}{}{}{}", settings_of_steps(options), options.epochs,
                  options.compiles ? " --compile" : "", evaluations, checkpoints);
  const std::vector<std::string> all = collectives::all_gather_bytes(group, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    DL_CHECK(all[rank] == all[0], kMismatch,
             "rank {} was started with {}, rank 0 with {}; give all ranks the same", rank,
             all[rank], all[0]);
  }
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
