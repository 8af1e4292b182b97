#include "examples/train_cnn/options.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>

#include "core/base/output.h"
#include "core/base/version.h"

namespace dl::examples {
namespace {

// Nobody means an empty name: a variable of the calling script is not set.
std::string refuse_empty(const std::string& name) {
  return name.empty() ? "an empty name; leave it out" : std::string();
}

// CLI11 takes -1 for 2^64 - 1, and as much for anything larger.
std::string refuse_no_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  const bool read = error == std::errc() && end == text.data() + text.size();
  return read ? std::string() : "'" + text + "' is no whole number from 0 to 2^64 - 1";
}

}  // namespace

std::variant<Options, int> parse_options(int argc, const char* const* argv) {
  constexpr std::int64_t kMost = 1'000'000'000;
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
      ->check(CLI::Range(std::int64_t{0}, kMost))
      ->capture_default_str();
  app.add_option("--batch-size", o.batch_size, "samples a step on each rank")
      ->check(CLI::Range(std::int64_t{1}, kMost))
      ->capture_default_str();
  app.add_option("--lr", o.lr, "learning rate of SGD")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  app.add_option("--momentum", o.momentum, "momentum of SGD")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "of initial weights and shuffles; the same on every rank")
      ->check(refuse_no_seed)
      ->capture_default_str();
  app.add_option("--device", o.device,
                 "where to compute: cpu, cuda (the GPU that is this rank's) or cuda:N")
      ->capture_default_str();
  app.add_option("--threads", o.threads, "threads a rank computes with; default OMP_NUM_THREADS")
      ->check(CLI::Range(1, 4096));
  app.add_option("--workers", o.workers, "threads a rank reads data with; 0 reads between steps")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--save", o.save, "write the trained parameters to this safetensors file")
      ->check(refuse_empty);
  app.add_option("--load", o.load, "begin with the parameters of this safetensors file")
      ->check(refuse_empty);
  app.add_option("--log-every", o.log_every, "steps between two lines")
      ->check(CLI::Range(std::int64_t{1}, kMost))
      ->capture_default_str();
  app.add_option("--amp", o.amp, "mixed precision: products and convolutions in bf16 or f16")
      ->check(CLI::IsMember({"off", "bf16", "f16"}))
      ->capture_default_str();
  app.add_flag("--capture", o.capture,
               "capture a step into a CUDA graph, and launch that; where it cannot, say why");
  app.add_flag("--json", o.json, "print one JSON object a step, and one at the end, on stdout");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kBadUsage;
    require_written(stdout, "standard output");
    return 0;
  }
  return o;
}

}  // namespace dl::examples
