// SavedModes: the training or eval mode of a network's modules, restored at the end of a scope.
//
// The modules live longer. Thread-safety: that of Module.
#pragma once

#include <utility>
#include <vector>

#include "nn/module/module.h"

namespace dl::nn::detail {

class SavedModes {
 public:
  explicit SavedModes(Module& network) {
    for (const NamedModule& each : network.named_modules()) {
      before_.emplace_back(each.module, each.module->is_training());
    }
  }
  // A parent sets its submodules, too, which come after it and get their own mode back.
  ~SavedModes() {
    for (const auto& [module, was_training] : before_) {
      if (was_training) {
        module->train();
      } else {
        module->eval();
      }
    }
  }
  SavedModes(const SavedModes&) = delete;
  SavedModes& operator=(const SavedModes&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> before_;
};

// Eval mode for all modules until the end of the scope.
class EvalMode {
 public:
  explicit EvalMode(Module& network) : modes_(network) { network.eval(); }

 private:
  SavedModes modes_;
};

}  // namespace dl::nn::detail
