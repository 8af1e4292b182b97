#include "core/tape/step.h"

#include <fmt/core.h>

#include <typeinfo>

namespace dl::tape {

std::string Step::difference(const Step& other) const {
  if (typeid(*this) != typeid(other) || name_ != other.name_) {
    return fmt::format("{} was {}", other.name_, name_);
  }
  if (operands_.size() != other.operands_.size()) {
    return fmt::format("{} has {} tensors, and had {}", name_, other.operands_.size(),
                       operands_.size());
  }
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    if (!operands_[i].same_as(other.operands_[i])) {
      return fmt::format("tensor {} of {} is another one", i + 1, name_);
    }
  }
  const std::string_view what = differing(other);
  return what.empty() ? std::string() : fmt::format("{} of {} differs", what, name_);
}

}  // namespace dl::tape
