#include "nn/module/sequential.h"

#include <typeinfo>

#include "nn/layers/activation.h"
#include "nn/layers/conv.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool.h"

namespace dl::nn {
namespace {

// The module as an M, unless it is of another class; a class derived from M computes something
// else.
template <typename M>
M* exactly(Module* module) noexcept {
  return module != nullptr && typeid(*module) == typeid(M) ? static_cast<M*>(module) : nullptr;
}

}  // namespace

Sequential::Sequential(std::initializer_list<Entry> modules) {
  for (const Entry& entry : modules) {
    adopt(entry.name_.empty() ? std::to_string(size()) : entry.name_, std::move(entry.module_));
  }
}

Module& Sequential::operator[](std::size_t index) const {
  check_not_moved("operator[]");
  DL_CHECK(index < size(), kIndex, "Sequential: there is no module {} among {}", index, size());
  return child(index);
}

// A ReLU is computed in one pass with the pooling after it, or else with the layer before it: the
// same bits, and one walk less over the images, forward and backward. A GELU goes with a linear
// layer where it is of the tanh form.
Tensor Sequential::forward(const Tensor& input) {
  check_not_moved("a call");
  const auto at = [&](std::size_t i) { return i < size() ? &child(i) : nullptr; };
  Tensor value = input;
  for (std::size_t i = 0; i < size(); ++i) {
    Module* const module = at(i);
    Module* const next = at(i + 1);
    auto* const linear = exactly<Linear>(module);
    if (exactly<ReLU>(module) != nullptr) {
      if (auto* const pool = exactly<MaxPool2d>(next)) {
        value = pool->forward_of_relu(value);
        ++i;
        continue;
      }
    } else if (exactly<ReLU>(next) != nullptr && exactly<MaxPool2d>(at(i + 2)) == nullptr) {
      auto* const conv = exactly<Conv2d>(module);
      if (linear != nullptr || conv != nullptr) {
        value = linear != nullptr ? linear->forward_activated(value, Activation::kRelu)
                                  : conv->forward_relu(value);
        ++i;
        continue;
      }
    } else if (auto* const gelu = exactly<GELU>(next);
               linear != nullptr && gelu != nullptr && gelu->is_tanh()) {
      value = linear->forward_activated(value, Activation::kGeluTanh);
      ++i;
      continue;
    }
    value = (*module)(value);
  }
  return value;
}

}  // namespace dl::nn
