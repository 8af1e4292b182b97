// Computed: tensors that a module computes from its parameters before each call, in the place of a
// parameter. The module's code reads them by the reference that register_parameter() returned.
//
// Thread-safety: that of Module.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nn/module/module.h"

namespace dl::nn::detail {

struct Computed {
  // Calls operations on tensors and nothing else, because tapes repeat it.
  using Function = std::function<Tensor(Module& module)>;

  // Takes a parameter's name out of the parameters. Calls of the module then read what
  // `compute` returns.
  static void begin(Module& module, std::string_view name, Function compute);
  // Makes a computed tensor's name the last parameter, of this value.
  static void end(Module& module, std::string_view name, Tensor parameter);
  // Ends the registration of a parameter or buffer. References to it become invalid.
  static void drop(Module& module, std::string_view name);

  static std::vector<std::string> names(const Module& module);
  // The computed tensor, parameter or buffer of this name; null if there is none.
  static Tensor* find(Module& module, std::string_view name);
  static Tensor* find_registered(Module& module, std::string_view name);

  // While it lives, nothing is computed on this thread: calls read the tensors of the last time.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    bool before_;
  };
};

}  // namespace dl::nn::detail
