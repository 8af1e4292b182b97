#include "nn/optim/state/state_writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "nn/optim/state/state_names.h"

namespace dl::optim {
namespace {

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

void add_once(std::vector<std::string>& names, std::string_view name) {
  if (!has(names, name)) names.emplace_back(name);
}

// One or two options that no other optimizer of torch.optim has.
struct Sign {
  std::string_view option;
  std::string_view second;
  std::string_view writer;
};
constexpr std::array<Sign, 12> kSigns = {{{"dampening", "", "SGD"},
                                          {"momentum_decay", "", "NAdam"},
                                          {"centered", "", "RMSprop"},
                                          {"initial_accumulator_value", "", "Adagrad"},
                                          {"rho", "", "Adadelta"},
                                          {"lambd", "", "ASGD"},
                                          {"etas", "", "Rprop"},
                                          {"line_search_fn", "", "LBFGS"},
                                          {"ns_steps", "", "Muon"},
                                          {"betas", "amsgrad", "Adam or AdamW"},
                                          {"betas", "decoupled_weight_decay", "RAdam"},
                                          {"betas", "", "Adamax or SparseAdam"}}};

// The names that are not in `others`, except names that all optimizers may have.
std::vector<std::string> beyond(const std::vector<std::string>& names,
                                const std::vector<std::string>& others) {
  std::vector<std::string> rest;
  for (const std::string& name : names) {
    if (name != kParams && !is_scheduler_option(name) && name != kMaximize && !has(others, name)) {
      rest.push_back(name);
    }
  }
  return rest;
}

}  // namespace

void StateNames::add_option(std::string_view name) {
  add_once(options, name.substr(0, name.find('.')));
}

void StateNames::add_tensor(std::string_view name) {
  add_once(tensors, name);
}

std::string writer_of(const StateNames& names) {
  for (const Sign& sign : kSigns) {
    if (has(names.options, sign.option) &&
        (sign.second.empty() || has(names.options, sign.second))) {
      return std::string(sign.writer);
    }
  }
  return {};
}

std::string told_apart(std::string_view reader, const StateNames& wanted, const StateNames& given) {
  const std::string writer = writer_of(given);
  std::vector<std::string> more = beyond(given.options, wanted.options);
  std::erase_if(more, [&](const std::string& name) { return has(given.off, name); });
  std::ranges::copy(beyond(given.tensors, wanted.tensors), std::back_inserter(more));
  const std::vector<std::string> fewer = beyond(wanted.options, given.options);
  const bool same = writer == reader || writer == fmt::format("{} or AdamW", reader) ||
                    writer == fmt::format("Adam or {}", reader);
  const bool all_there =
      std::ranges::all_of(fewer, [&](const auto& name) { return has(wanted.may_lack, name); });
  if (writer.empty() || same || (more.empty() && all_there)) return {};
  std::string text = fmt::format("the state was written by {}: it ", writer);
  if (!more.empty()) {
    text += fmt::format("has {}, which {} does not have", fmt::join(more, ", "), reader);
  }
  if (!fewer.empty()) {
    text += fmt::format("{}lacks {}", more.empty() ? "" : ", and ", fmt::join(fewer, ", "));
  }
  return text;
}

}  // namespace dl::optim
