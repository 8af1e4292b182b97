// compile: records what a function does once, and then does it again without the function, on a
// CPU and on a GPU.
//
//     auto step = dl::compile([&](const Tensor& x, const Tensor& y) {
//       optimizer.zero_grad();
//       const Tensor loss = nn::functional::cross_entropy(model(x), y);
//       loss.backward();
//       optimizer.step();
//       return loss;
//     });
//     for (const data::Batch& batch : loader) show(step(batch[0], batch[1]));
//
// There is no compiler. A backend repeats the kernels; `auto` takes the one of the inputs' device:
//
// tape, on CPUs: the first call with inputs of one form runs the function and writes down the
// kernels that it calls, with their memory (core/tape). The next calls (`checks`) run it again, and
// compare what it does. From then on a call copies its inputs and calls the kernels, element-wise
// ones together with normalisation: no checks, no graph, no allocation. Optimizers, a GradScaler
// and DistributedDataParallel are called as they are, so they read their options and state anew.
//
// cuda_graph, on GPUs: the first call (`warmup_steps`) runs the function, the next one captures it
// into a CUDA graph, which computes nothing. From then on a call copies its inputs and launches the
// graph. Learning rates are read anew, other options are those of the capture. If the function
// calls collectives on the GPU, as those of DistributedDataParallel, the ranks of their groups tell
// each other whether they have captured it: either all launch graphs, or all run the function. So
// all ranks call it with the same forms of inputs. An error of a group is thrown by the next call.
// The capture has its own stream, and launches use the current one. Graphs share memory
// (GraphMemory).
//
// The results are those of the function, bit by bit. Dropout draws from its generator.
//
// Put a whole training step into the function, or a forward under a NoGradGuard. Everything that it
// reads beside tensors is as in the first call: a number, a counter, a branch. A call of another
// form has a tape of its own: other shapes, dtypes, strides, numbers of threads, autocast, gradient
// mode, p of a dropout layer. A change of the model's arrangement (train() and eval(),
// requires_grad_(), hooks, to(), replace_module()) records again.
//
// What cannot be repeated is named once in a warning, and calls run the function: a result that is
// read on the host (item()), schedulers (step them outside); on a CPU also random numbers beside
// dropout and bernoulli(), hooks; on a GPU copies from and to the host or another
// GPU, and what creates state: an optimizer's first step, DistributedDataParallel's first pass.
//
// Ownership: holds the function, the memory of tapes and graphs, and groups of ranks. What the
// function uses (optimizers, scalers, modules, generators) must outlive it. Thread-safety: none;
// the function must not hand tensors to other threads.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/device/cuda/graph.h"
#include "core/device/stream.h"
#include "core/tensor/tensor.h"

namespace dl {

namespace detail {
class CompiledFunction;
class GraphPools;
}  // namespace detail

namespace compiler {
// "eager", which runs the function in each call, "tape" and "cuda_graph".
std::vector<std::string> list_backends();

// Memory that the graphs of several functions share, as with torch.cuda.graph_pool_handle():
//
//     const dl::compiler::GraphMemory memory;
//     auto step = dl::compile(train, {.memory = memory});
//     auto eval = dl::compile(predict, {.memory = memory});
//
// The graphs never run at once: a call's work comes after that of the last call, also if that was
// on another stream. No graph writes over results of another one, nor over its gradients or tensors
// that its function keeps. One thread at a time calls or destroys the functions. A handle: the
// memory lives as long as the last graph.
class GraphMemory {
 public:
  GraphMemory();
  GraphMemory(const GraphMemory&);
  GraphMemory& operator=(const GraphMemory&);
  ~GraphMemory();

 private:
  friend class dl::detail::CompiledFunction;
  Ref<detail::GraphPools> pools_;
};
}  // namespace compiler

struct CompileOptions {
  bool enabled = true;             // false: as the backend eager
  std::string backend = "auto";    // or one of compiler::list_backends()
  std::optional<Device> device{};  // inputs are copied there; nullopt: they stay on theirs
  bool whole = false;          // a function that cannot be repeated is an error (kNotImplemented)
  int checks = 3;              // calls after the first that run the function, too, and compare
  std::int64_t check = 0;      // so does every so many-th call; 0: none does
  std::size_t most_tapes = 4;  // or graphs; calls of further forms run the function
  int warmup_steps = 1;        // on a GPU: calls of a form before its capture, at least 1
  // Graphs compute in this memory, which functions may share; nullopt: those of the function share
  // memory of its own. Call the largest form first: later graphs then fit into its memory. Each
  // graph but the first has gradients of its own, unless zero_grad(false) keeps them.
  std::optional<compiler::GraphMemory> memory{};
};

// What tapes and graphs are and do.
struct CompileSummary {
  std::size_t tapes = 0;
  std::size_t graphs = 0;          // of CUDA
  std::size_t steps = 0;           // of all tapes
  std::size_t chains = 0;          // of steps that run together, part by part
  std::size_t arena_bytes = 0;     // the memory that tapes share among their steps
  std::size_t separate_bytes = 0;  // what it would be without sharing
  double capture_ms = 0;           // of tapes, beside the time of the function itself
  std::int64_t replays = 0;        // calls that did not run the function
  std::int64_t runs = 0;           // calls that did
  std::string why_not;             // why a call ran the function; empty: only to record and check
  // "2 tapes of 412 steps (31 chains), 3.1 MiB (9.4 MiB without sharing), captured in 1.2 ms; 96
  // replays, 4 runs"
  std::string str() const;
};

namespace detail {
class CompiledFunction {
 public:
  using Function = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  explicit CompiledFunction(CompileOptions options);
  ~CompiledFunction();
  CompiledFunction(CompiledFunction&&) noexcept;

  std::vector<Tensor> call(std::span<const Tensor> inputs, const Function& function);
  CompileSummary summary() const;

 private:
  struct Entry;

  std::vector<Tensor> record(Entry& entry, std::span<const Tensor> inputs,
                             const Function& function);
  std::vector<Tensor> replay(Entry& entry, std::span<const Tensor> inputs);
  std::vector<Tensor> call_graph(Entry& entry, std::span<const Tensor> inputs,
                                 const Function& function);
  // Returns why it has failed on a rank; empty on success.
  std::string capture(Entry& entry, const Function& function);
  // "tape" or "cuda_graph" for these inputs.
  std::string_view backend_for(std::span<const Tensor> inputs) const;
  // Why these inputs cannot have a tape or a graph; empty: they can.
  std::string obstacle_in(std::span<const Tensor> inputs, std::string_view backend) const;
  Device device_for(std::span<const Tensor> inputs) const;
  bool is_first_rank() const;
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Function& function,
                          std::string why);
  Entry* entry_for(std::span<const Tensor> inputs, std::string_view backend);
  void end(std::string why);

  CompileOptions options_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<cuda::PeersWatch::Found> peers_;  // of the groups that the function calls
  compiler::GraphMemory memory_;
  bool keeps_tensors_ = false;  // beside results and gradients, so that its graphs share no memory
  bool has_ended_ = false;
  std::string why_not_;
  double capture_ms_ = 0;
  std::int64_t replays_ = 0;
  std::int64_t runs_ = 0;
};
}  // namespace detail

template <typename F>
class Compiled {
 public:
  Compiled(F function, CompileOptions options)
      : function_(std::move(function)), compiled_(std::move(options)) {}

  // Calls function(inputs...), which returns a Tensor, a vector of them, or nothing. Throws what
  // it throws.
  template <std::same_as<Tensor>... Inputs>
  auto operator()(const Inputs&... inputs) {
    using Result = std::invoke_result_t<F&, const Inputs&...>;
    const Tensor all[] = {inputs..., Tensor()};
    const std::span<const Tensor> given(all, sizeof...(inputs));
    std::vector<Tensor> results = compiled_.call(given, [this](std::span<const Tensor> in) {
      return call_with(in, std::make_index_sequence<sizeof...(Inputs)>{});
    });
    if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
      return results;
    } else if constexpr (!std::is_void_v<Result>) {
      return std::move(results.front());
    }
  }

  CompileSummary summary() const { return compiled_.summary(); }

 private:
  template <std::size_t... i>
  std::vector<Tensor> call_with(std::span<const Tensor> in, std::index_sequence<i...>) {
    using Result = std::invoke_result_t<F&, decltype(in[i])...>;
    if constexpr (std::is_void_v<Result>) {
      function_(in[i]...);
      return {};
    } else if constexpr (std::is_same_v<Result, std::vector<Tensor>>) {
      return function_(in[i]...);
    } else {
      static_assert(std::is_same_v<Result, Tensor>,
                    "a compiled function returns a Tensor, a std::vector<Tensor> or nothing");
      return {function_(in[i]...)};
    }
  }

  F function_;
  detail::CompiledFunction compiled_;
};

template <typename F>
Compiled<F> compile(F function, CompileOptions options = {}) {
  return Compiled<F>(std::move(function), std::move(options));
}

}  // namespace dl
