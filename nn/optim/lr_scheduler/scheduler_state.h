// SchedulerState: checked access by name to the numbers of a scheduler's state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "nn/serialize/state_dict.h"

namespace dl::optim {

class SchedulerState {
 public:
  // `owner` is the scheduler's name in errors. Both must outlive this.
  SchedulerState(std::string_view owner, const nn::StateDict& state)
      : owner_(owner), state_(state) {}

  // All throw kMismatch if there is no such name, or another number of elements.
  std::int64_t integer(std::string_view name) const { return tensor(name, 1).item<std::int64_t>(); }
  double number(std::string_view name) const { return tensor(name, 1).item<double>(); }
  std::vector<double> numbers(std::string_view name, std::size_t count) const {
    const Tensor values = tensor(name, count).to(DType::kF64).contiguous();
    return {values.data<double>(), values.data<double>() + count};
  }

 private:
  Tensor tensor(std::string_view name, std::size_t count) const {
    const Tensor* const found = nn::find(state_, name);
    const std::size_t there =
        found == nullptr || !found->defined() ? 0 : static_cast<std::size_t>(found->numel());
    DL_CHECK(found != nullptr && there == count, kMismatch,
             "{}: load_state_dict: \"{}\" has {} numbers, wanted {}; does the state belong to "
             "another scheduler or model?",
             owner_, name, there, count);
    return found->cpu();
  }

  std::string_view owner_;
  const nn::StateDict& state_;
};

}  // namespace dl::optim
