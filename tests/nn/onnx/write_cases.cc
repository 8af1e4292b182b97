// Writes networks as files of ONNX, with inputs and outputs to compare by onnxruntime: see
// tests/nn/onnx/compare.py.
//
//     onnx_cases FOLDER [RANDOM [FIRST]]
#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "core/autograd/grad_mode.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "nn/models/book.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/resnet.h"
#include "nn/onnx/export.h"
#include "nn/serialize/npy/npy.h"
#include "tests/nn/onnx/random_network.h"
#include "tests/nn/onnx/small_network.h"

namespace {

using namespace dl;

Tensor batch_of(std::int64_t size, const Shape& image) {
  Shape shape = image;
  shape.insert(0, size);
  return randn(shape);
}

// For batches of 2, 1 and 5 NAME.<batch>.in.npy and NAME.<batch>.out.npy.
void write_results(const std::string& path, nn::Module& model, const Shape& image) {
  const NoGradGuard no_grad;
  model.eval();
  for (const std::int64_t size : {2, 1, 5}) {
    const Tensor input = batch_of(size, image);
    nn::save_npy(fmt::format("{}.{}.in.npy", path, size), input);
    nn::save_npy(fmt::format("{}.{}.out.npy", path, size), model(input).contiguous());
  }
}

// NAME.onnx and its results.
void write_case(const std::string& folder, const std::string& name, nn::Module& model,
                const Shape& image, bool external = false) {
  const NoGradGuard no_grad;
  const std::string path = fmt::format("{}/{}", folder, name);
  model.train();  // so that running statistics are those of such inputs
  for (int i = 0; i < 20 && !name.starts_with("random"); ++i) model(batch_of(4, image));
  onnx::export_model(model, batch_of(2, image), path + ".onnx",
                     {.dynamic_axes = {{"input", {{0, "batch"}}}}, .external_data = external});
  write_results(path, model, image);
}

void write_models(const std::string& folder) {
  onnx::export_small_network(folder + "/small.onnx");
  manual_seed(123);
  onnx::SmallNetwork small;
  write_results(folder + "/small", small, {1, 6, 6});
  nn::Sequential book = nn::models::book_cnn();
  write_case(folder, "book", book, {1, 28, 28});
  nn::Sequential mlp = nn::models::mlp();
  write_case(folder, "mlp", mlp, {50});
  nn::models::DenseNet densenet;
  write_case(folder, "densenet121", densenet, {3, 64, 64}, true);
  nn::models::EfficientNet efficientnet;
  write_case(folder, "efficientnet_b0", efficientnet, {3, 64, 64}, true);
  nn::models::ResNet resnet18({.depth = 18});
  write_case(folder, "resnet18", resnet18, {3, 64, 64}, true);
  nn::models::ResNet resnet50({.depth = 50});
  write_case(folder, "resnet50", resnet50, {3, 64, 64}, true);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("onnx_cases FOLDER [RANDOM [FIRST]]\n", stderr);
    return 2;
  }
  const std::string folder = argv[1];
  const int count = argc > 2 ? std::atoi(argv[2]) : 200;
  const int first = argc > 3 ? std::atoi(argv[3]) : 0;
  int failed = 0;
  const auto attempt = [&](const std::string& name, const std::function<void()>& act) {
    try {
      act();
    } catch (const std::exception& error) {
      fmt::print("{}: {}\n", name, error.what());
      ++failed;
    }
  };
  if (first == 0) attempt("models", [&] { write_models(folder); });
  for (int i = first; i < first + count; ++i) {
    const std::string name = fmt::format("random{}", i);
    attempt(name, [&] {
      onnx::RandomNetwork network(static_cast<std::uint32_t>(i));
      write_case(folder, name, network, {3, 12, 10});
    });
  }
  fmt::print("{} of {} random networks failed\n", failed, count);
  return failed == 0 ? 0 : 1;
}
