// Recorder: writes down what a thread's operations do to memory, while they do it, so that a Tape
// can do it again without the code that called them.
//
// It sees every kernel, because all are called in one place (core/ops/dispatch/dispatch.h), and
// everything else that changes memory or an object of autograd through run() and did(). Tensors are
// written down as parts of blocks: a block that was made during the recording is known by its
// number, another one by its storage, which the recording then holds.
//
// What cannot be repeated is refused by name, and the program goes on: a result that is read on the
// host, random numbers outside of an operation, a hook. Memory that the program itself fills (a
// constant) keeps its values.
//
// One recorder a thread; the thread that made it uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/memory/storage.h"
#include "core/tape/step.h"
#include "core/tensor/tensor.h"

namespace dl::tape {

// A block of memory of a recording.
struct Block {
  std::size_t bytes = 0;
  std::int64_t first = 0;  // the first and the last step that uses it
  std::int64_t last = -1;  // -1: no step does
  // Held: memory from before the recording, or that lives on after it, or that the program filled.
  Ref<Storage> storage{};
  bool is_older = false;  // than the recording
};

struct Recording {
  // What has to hold before a run, because the recording has found it so.
  using Condition = std::function<bool()>;

  std::vector<std::unique_ptr<Step>> steps;
  std::vector<Block> blocks;
  std::vector<Condition> conditions;
  std::string refused;  // why it cannot be repeated; empty: it can
};

// The first step of `b` that does something else than that of `a`, in words: "step 12: a number of
// conv2d differs"; empty: there is none.
std::string difference(const Recording& a, const Recording& b);

class Recorder final : public ThreadWatch {
 public:
  Recorder();
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // This thread's recorder, unless it has none or is inside a step.
  static Recorder* current() noexcept {
    return of_thread_ != nullptr && of_thread_->inside_ == 0 ? of_thread_ : nullptr;
  }

  // Ends the recording.
  Recording finish();

  // Calls the function and writes it down. It must touch no memory but that of its tensors.
  template <typename R, typename... Params>
  R run(const Call<R, Params...>& call, std::type_identity_t<Params>... arguments);
  // The program gets this tensor: a run fills its memory, even if its elements are elsewhere now
  // (core/tensor/layout/deferred.h).
  void gives(const Tensor& result);
  // The tensor as steps know it; the recording holds memory that is older than itself.
  Operand operand_of(const Tensor& tensor);
  // What runs of the last call do if its result is not the one of now.
  void refuse_with(Step::Refuse refuse) {
    if (inside_ == 0 && !recording_.steps.empty())
      recording_.steps.back()->set_refuse(std::move(refuse));
  }
  // Calls `act` and writes it down: something with objects that outlive the recording, above all
  // `object`, which tells the step from one with another object. `failed` is called if a run ends
  // with an error, before or after this step.
  void run_host(std::string_view name, const void* object, const std::function<void()>& act,
                HostStep::Failed failed = {});
  // Writes down what has happened already: `again` does it in later runs.
  void did(std::string_view name, std::function<void()> again, HostStep::Failed failed = {});
  // Calls `act` without writing anything down.
  template <typename Act>
  void aside(const Act& act) {
    const Inside inside(*this);
    act();
  }
  // The recording cannot be repeated. The first reason counts.
  void refuse(std::string why);

  void made(const Storage& storage) override;
  void freed(const Storage& storage) noexcept override;
  void accessed(const Storage& storage, const std::source_location* reader) override;
  void unrepeatable(std::string_view what, RepeatedBy by) override;
  void changed(std::string_view what, std::function<void()> again) override;
  void needs(const void* object, std::function<bool()> condition,
             std::function<void()> restore) override;
  void settled(const void* object) override;

 private:
  // While it lives, nothing is written down.
  class Inside {
   public:
    explicit Inside(Recorder& recorder) noexcept : recorder_(recorder) { ++recorder_.inside_; }
    ~Inside() { --recorder_.inside_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Recorder& recorder_;
  };

  struct Living {
    std::int64_t block = 0;
    const Storage* storage = nullptr;
  };
  struct Place {
    std::int64_t block;
    std::int64_t bytes;  // from the block's beginning
  };

  Place place_of(const void* address, const Storage& storage);
  void add(std::unique_ptr<Step> step);
  std::string after() const;

  static inline thread_local constinit Recorder* of_thread_ = nullptr;

  Recording recording_;
  int inside_ = 0;
  std::map<const char*, Living> living_;  // blocks of the recording, by their beginning
  std::map<const Storage*, std::int64_t> older_;
  std::set<const void*> settled_;
};

// Recorder::refuse_with(), if this thread records.
template <typename F>
void refuse_with(const F& refuse) {
  if (Recorder* const recorder = Recorder::current()) [[unlikely]]
    recorder->refuse_with(refuse);
}

// Calls call.function(arguments...), as a step if this thread records.
template <typename R, typename... Params>
R run(const Call<R, Params...>& call, std::type_identity_t<Params>... arguments) {
  if (Recorder* const recorder = Recorder::current()) [[unlikely]] {
    return recorder->run(call, std::forward<Params>(arguments)...);
  }
  return call.function(std::forward<Params>(arguments)...);
}
template <typename R, typename... Params>
R run(std::string_view name, std::size_t results, R (*function)(Params...),
      std::type_identity_t<Params>... arguments) {
  return run(Call<R, Params...>{.name = name, .results = results, .function = function},
             std::forward<Params>(arguments)...);
}

template <typename R, typename... Params>
R Recorder::run(const Call<R, Params...>& call, std::type_identity_t<Params>... arguments) {
  if constexpr (!can_be_held<R, Params...>) {
    refuse(std::string(call.name) + " gives numbers to the program");
    const Inside inside(*this);
    return call.function(std::forward<Params>(arguments)...);
  } else {
    std::vector<Operand> operands;
    const auto hold = [&](const auto& argument) {
      if constexpr (detail::is_tensor<decltype(argument)>) {
        operands.push_back(operand_of(argument));
        return detail::InOperands();
      } else if constexpr (detail::is_tensor_list<decltype(argument)>) {
        for (const Tensor& tensor : argument) operands.push_back(operand_of(tensor));
        return detail::InOperands{.count = argument.size()};
      } else {
        return argument;
      }
    };
    // A braced list is evaluated in order, and the operands are needed before the arguments go.
    std::tuple<detail::Held<Params>...> held{hold(arguments)...};
    auto step = std::apply(
        [&](auto&&... each) {
          return std::make_unique<CallStep<R, Params...>>(call, std::move(operands),
                                                          std::move(each)...);
        },
        std::move(held));
    CallStep<R, Params...>& as_called = *step;
    add(std::move(step));
    const Inside inside(*this);
    as_called.see_arguments(arguments...);
    if constexpr (std::is_void_v<R>) {
      call.function(std::forward<Params>(arguments)...);
    } else {
      const R result = call.function(std::forward<Params>(arguments)...);
      as_called.set_result(result);
      return result;
    }
  }
}

}  // namespace dl::tape
