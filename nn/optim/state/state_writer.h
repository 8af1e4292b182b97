// Recognises the optimizer that saved a state, by the names of its options, for error texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dl::optim {

// The names of a state, each once: "momentum", "exp_avg".
struct StateNames {
  std::vector<std::string> options{};  // of all groups, as PyTorch calls them: "betas"
  std::vector<std::string> off{};      // options that are off, and mean nothing to other optimizers
  std::vector<std::string> may_lack{};  // options that a state may lack
  std::vector<std::string> tensors{};   // of all parameters
  void add_option(std::string_view name);
  void add_tensor(std::string_view name);
};

// "AdamW", "Adam or AdamW"; empty if the options are not of a known optimizer.
std::string writer_of(const StateNames& names);

// "the state was written by AdamW: it has betas, exp_avg, which SGD does not have, and lacks
// momentum"; empty unless the writer is known, is not `reader`, and the names differ.
std::string told_apart(std::string_view reader, const StateNames& wanted, const StateNames& given);

}  // namespace dl::optim
