// Functions as cases, for the tables of edges.cc and dtypes.cc.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/nn/onnx/cases/cases.h"

namespace dl::onnx {

using In = std::span<const Tensor>;
using Out = std::vector<Tensor>;
using Calls = std::vector<std::vector<Tensor>>;
using Axes = std::map<std::int64_t, std::string>;

class Nothing final : public nn::Module {};

// Adds "edge_NAME"; calls are the inputs of each call.
struct Edges {
  Writer& to;

  void fixed(const std::string& name, const Forward& forward, const Calls& calls) const {
    to.add("edge_" + name, [&] {
      return Case{.model = std::make_shared<Nothing>(), .forward = forward, .inputs = calls};
    });
  }
  // These axes of all inputs are dynamic.
  void dynamic(const std::string& name, const Forward& forward, const Calls& calls,
               const Axes& axes = {{0, "batch"}}) const {
    to.add("edge_" + name, [&] {
      ExportOptions options;
      for (std::size_t i = 0; i < calls[0].size(); ++i) {
        options.dynamic_axes[calls[0].size() == 1 ? "input" : "input_" + std::to_string(i + 1)] =
            axes;
      }
      return Case{.model = std::make_shared<Nothing>(),
                  .forward = forward,
                  .inputs = calls,
                  .options = options};
    });
  }
  template <typename M>
  void layer(const std::string& name, M made, const Calls& calls,
             const Axes& axes = {{0, "batch"}}) const {
    const auto model = std::make_shared<M>(std::move(made));
    to.add("edge_" + name, [&] {
      return Case{.model = model,
                  .forward = [=](In in) { return Out{(*model)(in[0])}; },
                  .inputs = calls,
                  .options = {.dynamic_axes = {{"input", axes}}}};
    });
  }
};

}  // namespace dl::onnx
