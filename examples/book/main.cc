// book: training programs of "Accelerate Model Training with PyTorch 2.X".
//
//     book 1 --data-dir FashionMNIST/raw      # a CNN on Fashion-MNIST
//     book 7 --digits --epochs 2              # mixed precision, on the digits that come with dlrun
#include <fmt/core.h>

#include <cstdio>

#include "core/base/error.h"
#include "core/base/system/output.h"
#include "core/device/parallel.h"
#include "examples/book/chapters.h"
#include "examples/book/options.h"

namespace {

using namespace dl::examples::book;

void run(const Options& options) {
  if (options.threads > 0) dl::set_num_threads(options.threads);
  switch (options.chapter) {
    case 1:
      return chapter1(options);
    case 2:
      return chapter2(options);
    case 3:
      return chapter3(options);
    case 4:
      return chapter4(options);
    case 5:
      return chapter5(options);
    case 6:
      return chapter6(options);
    case 8:
      return chapter8(options);
    case 9:
      return chapter9(options);
    case 10:
      return chapter10(options);
    case 11:
      return chapter11(options);
    default:
      return chapter7(options);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (const int* exit_code = std::get_if<int>(&options)) return *exit_code;
  try {
    run(std::get<Options>(options));
  } catch (const dl::Error& error) {
    dl::write_error(fmt::format("book: {}\n", error.what()));
    return error.kind() == dl::ErrorKind::kInvalidArgument ? 2 : 1;
  }
  dl::require_written(stdout, "standard output");
}
