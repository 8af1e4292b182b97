// SavedScheduler: reads the state of a PyTorch scheduler from nn::load_pth(), a dict of numbers,
// lists and texts that mixes options and counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nn/serialize/value.h"

namespace dl::optim {

// Loads a state that was checked; does not throw.
using TakeOver = std::function<void()>;

// True if a dict has only tensors, as dlrun's own state_dict() in a file of PyTorch's format.
bool holds_tensors_only(const nn::Value& state);

class SavedScheduler {
 public:
  // `owner` is the scheduler's name in errors. Both must outlive this. Throws kMismatch if the
  // state is not a dict whose keys are texts.
  SavedScheduler(std::string_view owner, const nn::Value& state);

  // Sets `to` if the state has the name. All throw kMismatch for a value of another type.
  void take(std::string_view name, double& to);
  void take(std::string_view name, std::int64_t& to);
  void take(std::string_view name, bool& to);
  void take(std::string_view name, std::string& to);
  void take(std::string_view name, std::vector<double>& to);
  // A list, or a Counter: a dict from numbers to their counts.
  void take(std::string_view name, std::vector<std::int64_t>& to);
  // Like take(); throws kMismatch also if there is no such name, or another number of elements.
  std::int64_t integer(std::string_view name);
  double number(std::string_view name);
  std::vector<double> numbers(std::string_view name, std::size_t count);
  // Null if there is none. The name then counts as taken.
  const nn::Value* find(std::string_view name);
  // Throws kMismatch if a name was not taken, such as an option of another scheduler. Names that
  // begin with '_', which are PyTorch's own, and "verbose" are ignored.
  void finish() const;

  [[noreturn]] void refuse(std::string_view name, const nn::Value& value,
                           std::string_view wanted) const;

 private:
  const nn::Value& needed(std::string_view name);

  std::string_view owner_;
  const nn::Value& state_;
  std::set<std::string, std::less<>> taken_;
};

}  // namespace dl::optim
