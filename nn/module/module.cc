#include "nn/module/module.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <typeinfo>
#include <unordered_set>

#include "core/autograd/grad_mode.h"
#include "core/base/text/printable.h"
#include "core/device/cuda/cuda.h"
#include "core/memory/storage.h"
#include "core/tape/arrangement.h"

namespace dl::nn {
namespace {

// Skips further handles to an array that was seen before.
class Unseen {
 public:
  bool operator()(const Tensor& tensor) {
    return tensor.defined() && seen_.insert(tensor.impl()).second;
  }

 private:
  std::unordered_set<const TensorImpl*> seen_;
};

std::vector<Tensor> tensors_of(StateDict named) {
  std::vector<Tensor> tensors;
  tensors.reserve(named.size());
  for (NamedTensor& entry : named) tensors.push_back(std::move(entry.tensor));
  return tensors;
}

// A leaf made by bring(tensor), with the gradient moved likewise.
template <typename Bring>
Tensor brought(const Tensor& tensor, const Bring& bring) {
  const Tensor grad = tensor.grad();
  Tensor result = bring(tensor.detach());
  // A frozen parameter may still hold a gradient.
  if (grad.defined()) result.requires_grad_().set_grad(bring(grad.detach()));
  if (is_floating(result.dtype())) result.requires_grad_(tensor.requires_grad());
  return result;
}

}  // namespace

Module::Module(Module&& other) noexcept
    : parameters_(std::move(other.parameters_)),
      computed_(std::move(other.computed_)),
      buffers_(std::move(other.buffers_)),
      children_(std::move(other.children_)),
      hooks_(std::move(other.hooks_)),
      training_(other.training_),
      gone_(std::exchange(other.gone_, Gone::kMoved)),
      replaced_(std::move(other.replaced_)) {
  if (std::exchange(other.seen_, nullptr) != nullptr) tape::rearranged();
}

double Module::in_tape(const double& number) const {
  ThreadWatch* const watch = dl::detail::thread_watch;
  if (watch == nullptr) return number;
  if (seen_ == nullptr) seen_ = std::shared_ptr<const Module>(this, [](const Module*) {});
  watch->needs(&number,
               [life = std::weak_ptr(seen_), &number, value = number] {
                 return life.expired() || number == value;
               },
               {});
  return number;
}

void Module::refuse_moved(std::string_view use) const {
  DL_CHECK(gone_ != Gone::kReplaced, kInvalidArgument,
           "{}: {}: replace_module() put another module in this one's place; use what it returned, "
           "or what named_modules() lists",
           type_name(), use);
  throw_error(ErrorKind::kInvalidArgument,
              "{}: {}: the module was moved from, and holds nothing any more; use the one that was "
              "made of it",
              type_name(), use);
}

template <typename M, typename Visit>
void Module::walk(M& module, const std::string& prefix, std::string_view use, const Visit& visit) {
  module.check_not_moved(use);
  visit(prefix, module);
  for (const Child& child : module.children_) {
    walk(static_cast<M&>(*child.module), prefix + child.name + ".", use, visit);
  }
}

Tensor Module::forward(const Tensor& /*input*/) {
  throw_error(ErrorKind::kNotImplemented, "{}: forward() of one tensor is not defined",
              type_name());
}

Tensor Module::forward_fused(const Tensor& /*input*/, const Fusion& /*fusion*/) {
  throw_error(ErrorKind::kNotImplemented, "{}: forward_fused() is not defined", type_name());
}

void Module::require_free_name(std::string_view kind, std::string_view name) const {
  check_not_moved("a registration");
  DL_CHECK(!name.empty(), kInvalidArgument, "{}: the name of a {} is empty", type_name(), kind);
  DL_CHECK(name.find('.') == name.npos, kInvalidArgument,
           "{}: the name of {} \"{}\" contains a dot, which separates modules", type_name(), kind,
           name);
  const bool taken =
      std::ranges::any_of(parameters_, [&](const NamedTensor& p) { return p.name == name; }) ||
      std::ranges::any_of(computed_, [&](const NamedTensor& c) { return c.name == name; }) ||
      std::ranges::any_of(buffers_, [&](const Buffer& b) { return b.entry.name == name; }) ||
      std::ranges::any_of(children_, [&](const Child& c) { return c.name == name; });
  DL_CHECK(!taken, kInvalidArgument, "{}: {} \"{}\": the name is already registered{}", type_name(),
           kind, name, kind == "module" ? "; replace_module() replaces a module" : "");
}

void Module::adopt(std::string name, std::unique_ptr<Module> module) {
  require_free_name("module", name);
  module->check_not_moved("a registration in another module");
  children_.push_back({std::move(name), std::move(module)});
}

std::size_t Module::index_of(std::string_view name, std::string_view use,
                             std::string_view path) const {
  const auto found = std::ranges::find(children_, name, &Child::name);
  if (found == children_.end()) {
    std::string present;
    for (const Child& c : children_) {
      present += (present.empty() ? "\"" : ", \"") + c.name + '"';
    }
    throw_error(ErrorKind::kNotFound, "{}(\"{}\"): {} has no module \"{}\"; it has {}", use, path,
                type_name(), name, present.empty() ? "none" : present);
  }
  return static_cast<std::size_t>(found - children_.begin());
}

Module::Place Module::place_of(std::string_view path) {
  check_not_moved("replace_module");
  const std::size_t dot = path.rfind('.');
  Module* parent = this;
  if (dot != path.npos) parent = &get_submodule(path.substr(0, dot));
  const std::string_view name = dot == path.npos ? path : path.substr(dot + 1);
  return {parent, parent->index_of(name, "replace_module", path)};
}

void Module::retire(std::unique_ptr<Module> module) {
  for (const NamedModule& each : module->named_modules()) {
    for (NamedTensor& p : each.module->parameters_) p.tensor = Tensor();
    for (NamedTensor& c : each.module->computed_) c.tensor = Tensor();
    for (Buffer& b : each.module->buffers_) b.entry.tensor = Tensor();
    each.module->gone_ = Gone::kReplaced;
  }
  tape::rearranged();
  replaced_.push_back(std::move(module));
}

Tensor& Module::register_parameter(std::string name, Tensor value) {
  require_free_name("parameter", name);
  if (value.defined()) {
    DL_CHECK(is_floating(value.dtype()), kDType,
             "{}: parameter \"{}\" is {}, wanted a floating dtype; register_buffer() takes others",
             type_name(), name, dl::name_of(value.dtype()));
    DL_CHECK(value.is_leaf(), kInvalidArgument,
             "{}: parameter \"{}\" was computed from other tensors; register its detach()",
             type_name(), name);
    value.requires_grad_();
  }
  return parameters_.emplace_back(std::move(name), std::move(value)).tensor;
}

Tensor& Module::register_buffer(std::string name, Tensor value, BufferOptions options) {
  require_free_name("buffer", name);
  return buffers_.emplace_back(NamedTensor{std::move(name), std::move(value)}, options.persistent)
      .entry.tensor;
}

StateDict Module::named_parameters(bool recurse) const {
  check_not_moved("named_parameters");
  StateDict result;
  Unseen unseen;
  const auto gather = [&](const std::string& prefix, const Module& module) {
    for (const NamedTensor& p : module.parameters_) {
      if (unseen(p.tensor)) result.push_back({prefix + p.name, p.tensor});
    }
  };
  if (recurse) {
    walk(*this, "", "named_parameters", gather);
  } else {
    gather("", *this);
  }
  return result;
}

StateDict Module::named_buffers(bool recurse) const {
  check_not_moved("named_buffers");
  StateDict result;
  Unseen unseen;
  const auto gather = [&](const std::string& prefix, const Module& module) {
    for (const Buffer& b : module.buffers_) {
      if (unseen(b.entry.tensor)) result.push_back({prefix + b.entry.name, b.entry.tensor});
    }
  };
  if (recurse) {
    walk(*this, "", "named_buffers", gather);
  } else {
    gather("", *this);
  }
  return result;
}

std::vector<Tensor> Module::parameters() const {
  check_not_moved("parameters");
  return tensors_of(named_parameters());
}

std::vector<Tensor> Module::buffers() const {
  check_not_moved("buffers");
  return tensors_of(named_buffers());
}

std::vector<NamedModule> Module::named_modules() {
  std::vector<NamedModule> result;
  walk(*this, "", "named_modules", [&](const std::string& prefix, Module& module) {
    result.push_back({prefix.substr(0, prefix.empty() ? 0 : prefix.size() - 1), &module});
  });
  return result;
}

std::vector<Module*> Module::modules() {
  std::vector<Module*> result;
  walk(*this, "", "modules",
       [&](const std::string&, Module& module) { result.push_back(&module); });
  return result;
}

std::vector<Module*> Module::children() {
  check_not_moved("children");
  std::vector<Module*> result;
  for (const Child& c : children_) result.push_back(c.module.get());
  return result;
}

std::vector<NamedModule> Module::named_children() {
  check_not_moved("named_children");
  std::vector<NamedModule> result;
  for (const Child& c : children_) result.push_back({c.name, c.module.get()});
  return result;
}

Module& Module::get_submodule(std::string_view path) {
  check_not_moved("get_submodule");
  Module* module = this;
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t dot = rest.find('.');
    const std::string_view name = rest.substr(0, dot);
    rest = dot == rest.npos ? std::string_view() : rest.substr(dot + 1);
    module = &module->child(module->index_of(name, "get_submodule", path));
  }
  return *module;
}

Tensor& Module::get_parameter(std::string_view path) {
  check_not_moved("get_parameter");
  const std::size_t dot = path.rfind('.');
  const std::string_view name = dot == path.npos ? path : path.substr(dot + 1);
  Module& module = get_submodule(dot == path.npos ? std::string_view() : path.substr(0, dot));
  const auto found = std::ranges::find(module.parameters_, name, &NamedTensor::name);
  if (found == module.parameters_.end() || !found->tensor.defined()) {
    std::string present;
    for (const NamedTensor& p : module.parameters_) {
      if (p.tensor.defined()) present += (present.empty() ? "\"" : ", \"") + p.name + '"';
    }
    throw_error(ErrorKind::kNotFound,
                "get_parameter(\"{}\"): {} has no parameter \"{}\"; it has {}", path,
                module.type_name(), name, present.empty() ? "none" : present);
  }
  return found->tensor;
}

std::int64_t Module::count_parameters() const {
  check_not_moved("count_parameters");
  std::int64_t count = 0;
  for (const NamedTensor& p : named_parameters()) count += p.tensor.numel();
  return count;
}

StateDict Module::state_dict() const {
  StateDict state;
  walk(*this, "", "state_dict", [&](const std::string& prefix, const Module& module) {
    for (const NamedTensor& p : module.parameters_) {
      if (p.tensor.defined()) state.push_back({prefix + p.name, p.tensor.detach()});
    }
    for (const Buffer& b : module.buffers_) {
      if (b.persistent && b.entry.tensor.defined()) {
        state.push_back({prefix + b.entry.name, b.entry.tensor.detach()});
      }
    }
  });
  return state;
}

Module& Module::set_training(bool training) {
  walk(*this, "", "train",
       [&](const std::string&, Module& module) { module.training_ = training; });
  tape::rearranged();
  return *this;
}

void Module::zero_grad(bool set_to_none) const {
  check_not_moved("zero_grad");
  for (const Tensor& p : parameters()) p.zero_grad(set_to_none);
}

Module& Module::requires_grad_(bool requires_grad) {
  check_not_moved("requires_grad_");
  for (Tensor& p : parameters()) p.requires_grad_(requires_grad);
  return *this;
}

Module& Module::apply(const std::function<void(Module&)>& visit) {
  check_not_moved("apply");
  DL_CHECK(visit != nullptr, kInvalidArgument, "{}: apply: there is no function", type_name());
  for (const Child& c : children_) c.module->apply(visit);
  visit(*this);
  return *this;
}

template <typename Bring>
void Module::replace_all(const Bring& bring) {
  NoGradGuard no_grad;
  // Parameters that share one tensor keep sharing it.
  std::vector<std::pair<Tensor, Tensor>> done;
  const auto replace_once = [&](Tensor& tensor) {
    if (!tensor.defined()) return;
    for (const auto& [before, after] : done) {
      if (tensor.is_same(before)) {
        tensor = after;
        return;
      }
    }
    const Tensor before = tensor;
    tensor = bring(before);
    done.emplace_back(before, tensor);
  };
  tape::rearranged();
  walk(*this, "", "to", [&](const std::string&, Module& module) {
    for (NamedTensor& p : module.parameters_) replace_once(p.tensor);
    for (Buffer& b : module.buffers_) replace_once(b.entry.tensor);
  });
}

Module& Module::to(DType dtype) {
  DL_CHECK(is_floating(dtype), kDType, "{}: to({}): wanted a floating dtype", type_name(),
           dl::name_of(dtype));
  replace_all([dtype](const Tensor& tensor) {
    if (!is_floating(tensor.dtype()) || tensor.dtype() == dtype) return tensor;
    return brought(tensor, [dtype](const Tensor& t) { return t.to(dtype); });
  });
  return *this;
}

Module& Module::to(Device device) {
  replace_all([device](const Tensor& tensor) {
    if (tensor.device() == device) return tensor;
    return brought(tensor, [device](const Tensor& t) { return t.to(device); });
  });
  return *this;
}

Module& Module::to(std::string_view device) {
  return to(cuda::parse_device(device));
}

std::string Module::type_name() const {
  return class_name(typeid(*this));
}

std::vector<std::string> Module::child_lines() const {
  std::vector<std::string> lines;
  std::vector<std::string> texts;
  for (const Child& c : children_) texts.push_back(c.module->str());
  for (std::size_t i = 0; i < texts.size();) {
    std::size_t end = i + 1;
    while (joins_equal_children() && end < texts.size() && texts[end] == texts[i]) ++end;
    lines.push_back(end == i + 1 ? fmt::format("({}): {}", children_[i].name, texts[i])
                                 : fmt::format("({}-{}): {} x {}", i, end - 1, end - i, texts[i]));
    i = end;
  }
  return lines;
}

// The layout of PyTorch's Module.__repr__.
std::string Module::str() const {
  check_not_moved("str");
  std::vector<std::string> lines;
  const std::string extra = extra_repr();
  for (std::size_t at = 0; at < extra.size();) {
    const std::size_t end = std::min(extra.find('\n', at), extra.size());
    lines.push_back(extra.substr(at, end - at));
    at = end + 1;
  }
  if (children_.empty() && lines.size() <= 1) {
    return fmt::format("{}({})", type_name(), extra);
  }
  for (std::string& line : child_lines()) lines.push_back(std::move(line));
  std::string text = type_name() + "(\n";
  for (const std::string& line : lines) {
    text += "  ";
    for (const char letter : line) {
      text += letter;
      if (letter == '\n') text += "  ";
    }
    text += '\n';
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  return out << module.str();
}

}  // namespace dl::nn
