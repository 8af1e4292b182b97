// Writes networks as files of ONNX, with inputs and outputs to compare by onnxruntime: see
// tests/nn/onnx/compare.py.
//
//     onnx_cases FOLDER [RANDOM [FIRST]]
//     onnx_cases FOLDER NAME                those with NAME in their name
#include <fmt/core.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "core/autograd/grad_mode.h"
#include "core/random/tensor_random.h"
#include "nn/serialize/npy/npy.h"
#include "tests/nn/onnx/cases/cases.h"
#include "tests/nn/onnx/random_network.h"
#include "tests/nn/onnx/small_network.h"

namespace dl::onnx {

void Writer::write(const std::string& name, const Case& each) const {
  const std::string path = fmt::format("{}/{}", folder_, name);
  export_model(*each.model, each.inputs.front(), each.forward, path + ".onnx", each.options);
  each.model->eval();
  for (std::size_t call = 0; call < each.inputs.size(); ++call) {
    const auto save = [&](const std::vector<Tensor>& tensors, const char* what) {
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        nn::save_npy(fmt::format("{}.{}.{}.{}.npy", path, call, what, i), tensors[i]);
      }
    };
    save(each.inputs[call], "in");
    save(each.forward(each.inputs[call]), "out");
  }
}

void Writer::add(const std::string& name, const std::function<Case()>& make) {
  if (name.find(only_) == std::string::npos) return;
  const NoGradGuard no_grad;
  try {
    write(name, make());
  } catch (const std::exception& error) {
    fmt::print("{}: {}\n", name, error.what());
    ++failed_;
  }
}

std::vector<std::vector<Tensor>> batches_of(const std::function<Tensor(std::int64_t)>& make) {
  return {{make(2)}, {make(1)}, {make(5)}};
}

}  // namespace dl::onnx

namespace {

using namespace dl;

onnx::Case random_case(int seed) {
  const auto network = std::make_shared<onnx::RandomNetwork>(static_cast<std::uint32_t>(seed));
  return {.model = network,
          .forward = [=](std::span<const Tensor> in) { return std::vector{(*network)(in[0])}; },
          .inputs = onnx::batches_of([](std::int64_t size) { return randn({size, 3, 12, 10}); }),
          .options = {.dynamic_axes = {{"input", {{0, "batch"}}}}}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("onnx_cases FOLDER [RANDOM [FIRST]] or onnx_cases FOLDER NAME\n", stderr);
    return 2;
  }
  const std::string given = argc > 2 ? argv[2] : "200";
  const bool is_number = std::isdigit(static_cast<unsigned char>(given.front())) != 0;
  onnx::Writer writer(argv[1], is_number ? "" : given);
  const int count = is_number ? std::atoi(given.c_str()) : 0;
  const int first = argc > 3 ? std::atoi(argv[3]) : 0;
  if (first == 0) {
    onnx::write_layers(writer);
    onnx::write_edges(writer);
    onnx::write_dtypes(writer);
    onnx::write_networks(writer);
    onnx::export_small_network(std::string(argv[1]) + "/small.onnx");  // the committed file
  }
  for (int i = first; i < first + count; ++i) {
    writer.add(fmt::format("random{}", i), [&] { return random_case(i); });
  }
  fmt::print("{} failed\n", writer.failed());
  return writer.failed() == 0 ? 0 : 1;
}
