// Step: one entry of a tape. It holds a function with its arguments, tensors as operands, and calls
// it again in every run.
//
// One thread at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "core/args/part_work.h"
#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace dl::tape {

// The name of steps that give a leaf its gradient: a recording without any had no backward pass.
inline constexpr std::string_view kGradientStep = "gradient";

// A tensor of a step: the elements of a block of memory. Blocks are numbered by the recorder.
struct Operand {
  static constexpr std::int64_t kUndefined = -1;

  std::int64_t block = kUndefined;
  std::int64_t first = 0;  // bytes from the block's beginning to the first element
  Shape sizes{};
  Strides strides{};
  DType dtype = DType::kF32;
  std::int64_t numel = 0;
  Tensor bound{};  // what the function gets, once the tape is bound

  bool same_as(const Operand& other) const {
    return block == other.block && first == other.first && sizes == other.sizes &&
           strides == other.strides && dtype == other.dtype;
  }
};

// Operands over which a kernel with PartHooks passes part by part, by their numbers.
struct PartOperands {
  static constexpr int kNone = -1;

  int read = kNone;       // what PartHooks::before precedes
  int also_read = kNone;  // another input of as many elements
  int written = kNone;    // what PartHooks::after follows
  bool in_place = false;  // `written` may be the memory of `read`
};

// A function that a step calls.
template <typename R, typename... Params>
struct Call {
  std::string_view name;
  std::size_t results;  // the last so many of its tensors are what it changes
  R (*function)(Params...);
  PartOperands parts{};
  // What the function does with a part of the elements; for element-wise functions only.
  PartWork (*in_parts)(Params...) = nullptr;
  std::string_view kernel{};  // its name in core/ops/op_list.def; empty: it is another function
};

// In place of a number of results: a function may change any of its tensors.
inline constexpr std::size_t kAnyTensor = static_cast<std::size_t>(-1);

class Step {
 public:
  // Throws what the program's code throws for this result of the step, the number of a bad element.
  using Refuse = std::function<void(std::int64_t bad, std::span<const Operand> operands)>;

  Step(std::string name, std::vector<Operand> operands, std::size_t results = kAnyTensor,
       PartOperands parts = {}, std::string_view kernel = {})
      : name_(std::move(name)),
        kernel_(kernel),
        operands_(std::move(operands)),
        results_(std::min(results, operands_.size())),
        parts_(parts) {}
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  virtual ~Step() = default;

  virtual void run() = 0;
  // A run has ended with this error, before or after this step; called for the last step first.
  virtual void abandon(const std::exception_ptr&) noexcept {}
  // Element-wise steps, once their operands are bound: what they do with a part of the elements.
  virtual PartWork in_parts() const { return {}; }
  // Steps with PartOperands: what to call for each part from now on.
  virtual void set_hooks(const PartHooks&) {}
  // What a run does if the step's result is not that of the recording.
  void set_refuse(Refuse refuse) { refuse_ = std::move(refuse); }
  // Whether it is a call of the program's, of which the tape knows no operands.
  virtual bool is_opaque() const noexcept { return false; }

  // Empty if `other`, the step in the same place of another recording, does the same; else what
  // differs: "a number of conv2d differs".
  std::string difference(const Step& other) const;

  const std::string& name() const noexcept { return name_; }
  // The kernel that it calls, by its name in core/ops/op_list.def; empty: it calls another
  // function.
  std::string_view kernel() const noexcept { return kernel_; }
  // The first argument of this type, tensors aside; null: there is none.
  template <typename T>
  const T* argument() const {
    return static_cast<const T*>(find_argument(typeid(T)));
  }
  std::span<Operand> operands() noexcept { return operands_; }
  std::span<const Operand> operands() const noexcept { return operands_; }
  // Whether it changes operand i.
  bool changes(std::size_t i) const noexcept { return i + results_ >= operands_.size(); }
  const PartOperands& parts() const noexcept { return parts_; }
  // The step does the same with each element of its tensors, in the same order of memory.
  bool is_elementwise() const noexcept { return is_elementwise_; }

 protected:
  void mark_elementwise() noexcept { is_elementwise_ = true; }
  void refuse(std::int64_t bad) const {
    if (refuse_) refuse_(bad, operands_);
  }
  const Tensor& tensor(std::size_t i) const noexcept { return operands_[i].bound; }

 private:
  // What differs beside tensors: "a number"; empty: nothing. `other` is of the same class.
  virtual std::string_view differing(const Step& other) const = 0;
  virtual const void* find_argument(const std::type_info&) const { return nullptr; }

  std::string name_;
  std::string_view kernel_;
  std::vector<Operand> operands_;
  std::size_t results_;
  PartOperands parts_;
  bool is_elementwise_ = false;
  Refuse refuse_;
};

// Something that a step does with objects that outlive the tape, not with operands.
class HostStep final : public Step {
 public:
  using Failed = std::function<void(const std::exception_ptr&)>;

  HostStep(std::string name, const void* object, std::function<void()> act, Failed failed)
      : Step(std::move(name), {}),
        object_(object),
        act_(std::move(act)),
        failed_(std::move(failed)) {}
  void run() override { act_(); }
  void abandon(const std::exception_ptr& error) noexcept override {
    try {
      if (failed_) failed_(error);
    } catch (...) {  // the caller gets `error`, not this exception
    }
  }
  bool is_opaque() const noexcept override { return true; }

 private:
  std::string_view differing(const Step& other) const override {
    return object_ == static_cast<const HostStep&>(other).object_ ? "" : "the object";
  }

  const void* object_;
  std::function<void()> act_;
  Failed failed_;
};

namespace detail {
template <typename T>
inline constexpr bool is_tensor = std::is_same_v<std::remove_cvref_t<T>, Tensor>;
template <typename T>
inline constexpr bool is_span = false;
template <typename T, std::size_t n>
inline constexpr bool is_span<std::span<T, n>> = true;

template <typename T>
inline constexpr bool is_tensor_list =
    std::is_same_v<std::remove_cvref_t<T>, std::span<const Tensor>>;

// Takes the place of a tensor, or of a list of so many, among the held arguments.
struct InOperands {
  std::size_t count = 1;
  bool operator==(const InOperands&) const = default;
};
template <typename T>
using Held =
    std::conditional_t<is_tensor<T> || is_tensor_list<T>, InOperands, std::remove_cvref_t<T>>;
}  // namespace detail

// True if the result and all arguments of such a function can be held by a step. A result must be
// the same in each run: it is the number of a bad element, or none.
template <typename R, typename... Params>
inline constexpr bool can_be_held =
    (std::is_void_v<R> || std::is_same_v<R, bool> || std::is_same_v<R, std::int64_t>) &&
    ((!detail::is_span<std::remove_cvref_t<Params>> || detail::is_tensor_list<Params>) && ...);

template <typename R, typename... Params>
class CallStep final : public Step {
 public:
  CallStep(const Call<R, Params...>& call, std::vector<Operand> operands,
           detail::Held<Params>... held)
      : Step(std::string(call.name), std::move(operands), call.results, call.parts, call.kernel),
        function_(call.function),
        in_parts_(call.in_parts),
        held_(std::move(held)...) {}

  // The arguments when the step was recorded.
  void see_arguments(const std::remove_cvref_t<Params>&... arguments) {
    if (in_parts_ != nullptr && in_parts_(arguments...)) mark_elementwise();
  }

  // The result when the step was recorded.
  template <typename Result>
  void set_result(const Result& result) {
    result_ = result;
  }

  void run() override {
    if constexpr (std::is_void_v<R>) {
      call(function_, std::index_sequence_for<Params...>{});
    } else {
      const R result = call(function_, std::index_sequence_for<Params...>{});
      if (result == result_) return;
      refuse(static_cast<std::int64_t>(result));
      throw_error(ErrorKind::kInternal, "{}: a run of a tape took another way", name());
    }
  }
  PartWork in_parts() const override {
    return is_elementwise() ? call(in_parts_, std::index_sequence_for<Params...>{}) : PartWork();
  }
  void set_hooks(const PartHooks& hooks) override {
    if constexpr (requires { std::get<0>(held_).hooks; }) std::get<0>(held_).hooks = hooks;
  }

 private:
  struct Nothing {};

  template <typename Result, std::size_t... i>
  Result call(Result (*function)(Params...), std::index_sequence<i...>) const {
    std::size_t next = 0;
    // A braced list is evaluated in order.
    const std::size_t places[] = {place<i, Params>(next)..., 0};
    return function(argument<i, Params>(places)...);
  }
  // The first operand of argument i, which is `next`; sets that to the first of the next argument.
  template <std::size_t i, typename T>
  std::size_t place(std::size_t& next) const {
    const std::size_t first = next;
    if constexpr (std::is_same_v<detail::Held<T>, detail::InOperands>) {
      next += std::get<i>(held_).count;
    }
    return first;
  }
  std::vector<Tensor> tensors(std::size_t first, std::size_t count) const {
    std::vector<Tensor> result;
    result.reserve(count);
    for (std::size_t i = first; i < first + count; ++i) result.push_back(tensor(i));
    return result;
  }
  template <std::size_t i, typename T>
  decltype(auto) argument(const std::size_t* places) const {
    if constexpr (detail::is_tensor<T>) {
      return tensor(places[i]);
    } else if constexpr (detail::is_tensor_list<T>) {
      return tensors(places[i], std::get<i>(held_).count);
    } else {
      return std::get<i>(held_);
    }
  }
  std::string_view differing(const Step& other) const override {
    const auto& with = static_cast<const CallStep&>(other);
    return function_ == with.function_ && held_ == with.held_ ? "" : "a number";
  }
  const void* find_argument(const std::type_info& type) const override {
    const void* found = nullptr;
    const auto look = [&]<typename T>(const T& each) {
      if (found == nullptr && typeid(T) == type) found = &each;
    };
    std::apply([&](const auto&... each) { (look(each), ...); }, held_);
    return found;
  }

  R (*function_)(Params...);
  PartWork (*in_parts_)(Params...);
  std::tuple<detail::Held<Params>...> held_;
  std::conditional_t<std::is_void_v<R>, Nothing, R> result_{};
};

}  // namespace dl::tape
