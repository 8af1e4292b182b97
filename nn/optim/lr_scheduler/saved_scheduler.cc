#include "nn/optim/lr_scheduler/saved_scheduler.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.h"
#include "core/base/text/printable.h"

namespace dl::optim {
namespace {

std::optional<std::int64_t> integer_of(const nn::Value& value) {
  if (value.is_int()) return value.as_int();
  const std::optional<double> number = value.number();
  // PyTorch stores some counts as floats, as 8.0.
  constexpr double kMost = 1LL << 53;
  if (!number || *number != std::floor(*number) || std::abs(*number) > kMost) return std::nullopt;
  return static_cast<std::int64_t>(*number);
}

// The numbers of a list, a tuple or a tensor of one dimension; nullopt for anything else.
std::optional<std::vector<double>> numbers_of(const nn::Value& value) {
  std::vector<double> numbers;
  if (value.is_tensor() && value.as_tensor().dim() == 1) {
    const Tensor dense = value.as_tensor().cpu().to(DType::kF64).contiguous();
    return std::vector<double>(dense.data<double>(), dense.data<double>() + dense.numel());
  }
  if (!value.is_list() && !value.is_tuple()) return std::nullopt;
  for (const nn::Value& each : value.as_list()) {
    const std::optional<double> number = each.number();
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// The largest count in a Counter.
constexpr std::int64_t kMostRepeats = 1'000'000;

std::optional<std::vector<std::int64_t>> integers_of(const nn::Value& value) {
  std::vector<std::int64_t> integers;
  if (value.is_list() || value.is_tuple()) {
    for (const nn::Value& each : value.as_list()) {
      const std::optional<std::int64_t> integer = integer_of(each);
      if (!integer) return std::nullopt;
      integers.push_back(*integer);
    }
    return integers;
  }
  if (!value.is_dict()) return std::nullopt;
  std::int64_t all = 0;
  for (const auto& [key, times] : value.as_dict()) {
    if (!key.is_int() || !times.is_int() || times.as_int() < 0) return std::nullopt;
    if (times.as_int() > kMostRepeats - all) return std::nullopt;
    all += times.as_int();
    integers.insert(integers.end(), static_cast<std::size_t>(times.as_int()), key.as_int());
  }
  return integers;
}

}  // namespace

bool holds_tensors_only(const nn::Value& state) {
  return state.is_dict() && std::ranges::all_of(state.as_dict(), [](const auto& entry) {
           return entry.second.is_tensor();
         });
}

SavedScheduler::SavedScheduler(std::string_view owner, const nn::Value& state)
    : owner_(owner), state_(state) {
  DL_CHECK(state.is_dict() &&
               std::ranges::all_of(state.as_dict(),
                                   [](const auto& entry) { return entry.first.is_string(); }),
           kMismatch,
           "{}: load_state_dict: the state is {}, wanted a dict of names, as a scheduler's "
           "state_dict() is; does it stand under another key of the file?",
           owner, state.is_dict() ? "a dict with other keys than texts" : state.type_name());
}

const nn::Value* SavedScheduler::find(std::string_view name) {
  taken_.emplace(name);
  return state_.find(name);
}

void SavedScheduler::refuse(std::string_view name, const nn::Value& value,
                            std::string_view wanted) const {
  throw_error(ErrorKind::kMismatch, "{}: load_state_dict: {} is {}, wanted {}", owner_,
              quoted_name(name), value.type_name(), wanted);
}

void SavedScheduler::take(std::string_view name, double& to) {
  const nn::Value* const value = find(name);
  if (value == nullptr) return;
  const std::optional<double> number = value->number();
  if (!number) refuse(name, *value, "a number");
  to = *number;
}

void SavedScheduler::take(std::string_view name, std::int64_t& to) {
  const nn::Value* const value = find(name);
  if (value == nullptr) return;
  const std::optional<std::int64_t> integer = integer_of(*value);
  if (!integer) refuse(name, *value, "a whole number");
  to = *integer;
}

void SavedScheduler::take(std::string_view name, bool& to) {
  const nn::Value* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_bool()) refuse(name, *value, "a bool");
  to = value->as_bool();
}

void SavedScheduler::take(std::string_view name, std::string& to) {
  const nn::Value* const value = find(name);
  if (value == nullptr) return;
  if (!value->is_string()) refuse(name, *value, "a text");
  to = value->as_string();
}

void SavedScheduler::take(std::string_view name, std::vector<double>& to) {
  const nn::Value* const value = find(name);
  if (value == nullptr) return;
  auto numbers = numbers_of(*value);
  if (!numbers) refuse(name, *value, "a list of numbers");
  to = std::move(*numbers);
}

void SavedScheduler::take(std::string_view name, std::vector<std::int64_t>& to) {
  const nn::Value* const value = find(name);
  if (value == nullptr) return;
  auto integers = integers_of(*value);
  if (!integers) refuse(name, *value, "a list or a Counter of whole numbers");
  to = std::move(*integers);
}

const nn::Value& SavedScheduler::needed(std::string_view name) {
  const nn::Value* const value = find(name);
  DL_CHECK(value != nullptr, kMismatch,
           "{}: load_state_dict: \"{}\" is missing; does the state belong to another scheduler?",
           owner_, name);
  return *value;
}

std::int64_t SavedScheduler::integer(std::string_view name) {
  needed(name);
  std::int64_t integer = 0;
  take(name, integer);
  return integer;
}

double SavedScheduler::number(std::string_view name) {
  needed(name);
  double number = 0;
  take(name, number);
  return number;
}

std::vector<double> SavedScheduler::numbers(std::string_view name, std::size_t count) {
  needed(name);
  std::vector<double> numbers;
  take(name, numbers);
  DL_CHECK(
      numbers.size() == count, kMismatch,
      "{}: load_state_dict: \"{}\" has {} numbers, wanted {}; does the state belong to another "
      "model?",
      owner_, name, numbers.size(), count);
  return numbers;
}

void SavedScheduler::finish() const {
  for (const auto& [key, value] : state_.as_dict()) {
    const std::string& name = key.as_string();
    DL_CHECK(name.starts_with('_') || name == "verbose" || taken_.contains(name), kMismatch,
             "{}: load_state_dict: the state has {}, which {} does not; was it written by another "
             "scheduler?",
             owner_, quoted_name(name), owner_);
  }
}

}  // namespace dl::optim
