#include "examples/train_image/options.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/base/text/number.h"
#include "core/base/version.h"
#include "core/device/cuda/cuda.h"
#include "core/device/parallel.h"

namespace dl::examples {
namespace {

// Refuses an empty name: it usually means an unset variable in the calling script.
std::string refuse_empty(const std::string& name) {
  return name.empty() ? "an empty name; leave it out" : std::string();
}

CLI::Validator whole(std::int64_t least, std::uint64_t most) {
  return {whole_number(least, most), ""};
}

CLI::Validator real(double least, double most) {
  return {real_number(least, most), ""};
}

std::string refuse_no_device(const std::string& text) {
  if (text == "cuda") return {};  // whether there is one is asked later
  try {
    cuda::parse_device(text);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::variant<Options, int> parse_options(int argc, const char* const* argv) {
  constexpr std::uint64_t kMost = 1'000'000'000;
  constexpr int kBadUsage = 2;
  Options o;
  CLI::App app(
      "Trains a small convolutional network on images: alone, or on many ranks under dlrun.",
      "train_cnn");
  app.set_version_flag("--version", std::string("train_cnn ") + std::string(kVersion));
  app.add_option("--dataset", o.dataset,
                 "what to learn: digits (comes with dlrun) or a downloaded set")
      ->check(CLI::IsMember({"digits", "mnist", "fashion-mnist", "cifar10"}))
      ->capture_default_str();
  app.add_option("--data-dir", o.data_dir, "folder with the files of the set")->check(refuse_empty);
  app.add_option("--epochs", o.epochs, "passes over the training set; 0 only evaluates")
      ->transform(whole(0, kMost))
      ->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "samples a step on each rank")
      ->transform(whole(1, kMost))
      ->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate of SGD")
      ->transform(real(0, 1e9))
      ->capture_default_str();
  app.add_option("--momentum", o.momentum, "momentum of SGD")
      ->transform(real(0, 1))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of initial weights and shuffles; the same on every rank")
      ->transform(whole(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  app.add_option("--device", o.device,
                 "where to compute: cpu, cuda (the GPU that is this rank's) or cuda:N")
      ->check(refuse_no_device)
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads a rank computes with; default OMP_NUM_THREADS")
      ->transform(whole(1, kMostThreads));
  app.add_option("--workers", o.workers, "threads a rank reads data with; 0 reads between steps")
      ->transform(whole(0, kMostThreads))
      ->capture_default_str();
  app.add_option("--save", o.save, "write the trained parameters to this safetensors file")
      ->check(refuse_empty);
  app.add_option("--load", o.load, "begin with the parameters of this safetensors file")
      ->check(refuse_empty);
  auto* const checkpoint_dir =
      app.add_option("--checkpoint-dir", o.checkpoint_dir,
                     "save checkpoints here, on rank 0; all ranks read them")
          ->check(refuse_empty);
  app.add_option("--checkpoint-every", o.checkpoint_every, "steps between two checkpoints")
      ->transform(whole(1, kMost))
      ->needs(checkpoint_dir)
      ->capture_default_str();
  app.add_option("--checkpoint-keep", o.keep, "newest checkpoints that stay")
      ->transform(whole(1, 1'000'000))
      ->needs(checkpoint_dir)
      ->capture_default_str();
  app.add_flag("--resume", o.resume,
               "go on from the newest checkpoint; begin anew if there is none yet")
      ->needs(checkpoint_dir);
  app.add_option("--log-every", o.log_every, "steps between two lines")
      ->transform(whole(1, kMost))
      ->capture_default_str();
  app.add_option("--amp", o.amp, "mixed precision: products and convolutions in bf16 or f16")
      ->check(CLI::IsMember({"off", "bf16", "f16"}))
      ->capture_default_str();
  app.add_flag("--compile,--capture", o.compiles,
               "compile the step: a tape on a CPU, a CUDA graph on a GPU; if it cannot, say why");
  auto* const profile =
      app.add_option("--profile", o.profile_dir,
                     "show which operations 100 steps consist of; in DIR, a trace of each rank")
          ->type_name("[DIR]")
          ->expected(0, 1);
  bool shows_parallel_info = false;
  app.add_flag("--parallel-info", shows_parallel_info,
               "print threads, libraries and environment, and do nothing else");
  app.add_flag("--json", o.json, "print one JSON object a step, and one at the end, on stdout");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kBadUsage;
    require_written(stdout, "standard output");
    return 0;
  }
  o.profile = profile->count() > 0;
  if (shows_parallel_info) {
    if (o.threads > 0) set_num_threads(o.threads);
    std::fputs(parallel_info().c_str(), stdout);
    require_written(stdout, "standard output");
    return 0;
  }
  return o;
}

}  // namespace dl::examples
