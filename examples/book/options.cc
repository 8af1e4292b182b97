#include "examples/book/options.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "core/base/system/output.h"
#include "core/device/parallel.h"
#include "examples/support/training/choices/rows.h"
#include "examples/support/training/command_line.h"
#include "examples/train_image/choices/models.h"
#include "nn/compile/compile.h"

namespace dl::examples::book {
std::variant<Options, int> parse_options(int argc, const char* const* argv) {
  constexpr int kBadUsage = 2;
  Options o;
  CLI::App app(
      "Training programs of \"Accelerate Model Training with PyTorch 2.X\", by chapter: 1 a CNN on "
      "Fashion-MNIST, 2 with other settings, 3 with compiled steps, 4 on CIFAR-10, 5 with workers "
      "that read ahead, 6 with fewer filters, 7 in mixed precision, 8 on several ranks, 9 on a "
      "machine's CPUs, 10 on its GPUs, 11 on several machines.",
      "book");
  app.add_option("chapter", o.chapter, "1 to 11")->required()->transform(whole(1, 11));
  auto* const data_dir =
      app.add_option("--data-dir", o.data_dir,
                     "folder with the chapter's data set; from 8 on, the digits without it");
  app.add_flag("--digits", o.digits, "train on the digits that come with dlrun instead")
      ->excludes(data_dir);
  app.add_option("--epochs", o.epochs, "passes over the training set")
      ->transform(whole(1, kMostCounted));
  app.add_option("--batch-size", o.batch_size,
                 "samples a step of each rank; of all with --global-batch fixed")
      ->transform(whole(1, kMostCounted));
  app.add_option("--lr", o.lr, "learning rate of Adam")->transform(real(0, 1e9));
  app.add_option("--workers", o.workers, "threads that read data ahead")
      ->transform(whole(0, kMostThreads));
  app.add_option("--threads", o.threads,
                 "threads to compute with; from chapter 8 on, all ranks share them")
      ->transform(whole(1, kMostThreads));
  app.add_option("--device", o.device,
                 "cpu, cuda or cuda:N; without it the CPU, but GPUs from chapter 8 on if they are "
                 "there (9: the CPU)");
  app.add_option("--model", o.model, "network of chapters 9 to 11")
      ->check(CLI::IsMember(names_of(models())))
      ->capture_default_str();
  app.add_option("--ranks", o.ranks,
                 "ranks of chapter 8 (4); the most of chapter 10 (a GPU each, at most 8 on a CPU); "
                 "of each machine of chapter 11 (2)")
      ->transform(whole(1, kMostThreads));
  app.add_option(
         "--global-batch", o.batches,
         "what more ranks do with a batch: fixed: they divide it; growing: each has one, "
         "as in the book; scaled: so, and the learning rate grows too; several in turn (10: all, "
         "else growing)")
      ->check(CLI::IsMember({"fixed", "growing", "scaled"}));
  app.add_option("--seeds", o.seeds, "trainings that a row of chapters 9 to 11 averages")
      ->transform(whole(1, kMostCounted));
  app.add_option("--checkpoint-dir", o.checkpoint_dir,
                 "folder into which chapter 8 saves each epoch, and from which it goes on");
  std::vector<std::string> backends = compiler::list_backends();
  backends.emplace_back("auto");
  app.add_option("--backend", o.backend, "what repeats the steps of chapter 3")
      ->check(CLI::IsMember(backends))
      ->capture_default_str();
  app.add_option("--sparsity", o.sparsities,
                 "percent of each convolution's filters that chapter 6 prunes; several in turn")
      ->transform(whole(1, 99))
      ->capture_default_str();
  app.add_flag("--json", o.json, "chapters 6 and 8 to 11 print a JSON object a line");
  app.add_option("--plot", o.plot, "SVG file for the results of chapters 6 and 9 to 11");
  app.add_option("--onnx", o.onnx, "export the trained network of chapter 1 to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return kBadUsage;
    require_written(stdout, "standard output");
    return 0;
  }
  return o;
}

}  // namespace dl::examples::book
