#include "nn/utils/prune/prune.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/index/index.h"
#include "core/ops/reduce/reduce.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "nn/module/computed.h"

namespace dl::nn::utils::prune {
namespace {

using nn::detail::Computed;

// The mask that a method makes of scores and the mask so far, both of the parameter's shape.
using Method = std::function<Tensor(const Tensor& scores, const Tensor& mask)>;

std::string orig_of(std::string_view name) {
  return std::string(name) + "_orig";
}
std::string mask_of(std::string_view name) {
  return std::string(name) + "_mask";
}

std::vector<double> on_host(const Tensor& tensor) {
  const Tensor flat = tensor.detach().cpu().to(DType::kF64).contiguous();
  const auto* const first = flat.data<double>();
  return {first, first + flat.numel()};
}

// A mask of these numbers, like the tensor.
Tensor mask_like(const Tensor& like, const std::vector<double>& numbers) {
  return tensor(numbers, {.dtype = DType::kF64})
      .view(like.sizes())
      .to(like.dtype())
      .to(like.device());
}

enum class Extreme : bool { kLargest, kSmallest };

// The places of the k largest or smallest scores. Ties are broken as torch.topk() does on CPUs,
// which depends on the algorithm (ATen/native/TopKImpl.h).
std::vector<std::size_t> top(const std::vector<double>& scores, std::int64_t k, Extreme extreme) {
  using Scored = std::pair<double, std::size_t>;
  std::vector<Scored> queue;
  for (std::size_t i = 0; i < scores.size(); ++i) queue.emplace_back(scores[i], i);
  const auto select = [&](const auto& before) {
    const auto end = queue.begin() + k;
    if (k * 64 <= std::ssize(queue)) {
      std::partial_sort(queue.begin(), end, queue.end(), before);
    } else if (k > 0) {
      std::nth_element(queue.begin(), end - 1, queue.end(), before);
    }
  };
  // NaN is the largest.
  if (extreme == Extreme::kLargest) {
    select([](const Scored& a, const Scored& b) {
      return (std::isnan(a.first) && !std::isnan(b.first)) || a.first > b.first;
    });
  } else {
    select([](const Scored& a, const Scored& b) {
      return (!std::isnan(a.first) && std::isnan(b.first)) || a.first < b.first;
    });
  }
  std::vector<std::size_t> places;
  for (std::int64_t i = 0; i < k; ++i) places.push_back(queue[static_cast<std::size_t>(i)].second);
  return places;
}

// Sets elements to 0: choose() gets the scores of the elements that the mask keeps, and names them.
template <typename Choose>
Tensor without_elements(const Tensor& scores, const Tensor& mask, const Choose& choose) {
  const std::vector<double> all = on_host(scores);
  std::vector<double> kept = on_host(mask);
  std::vector<std::size_t> places;
  std::vector<double> candidates;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != 1) continue;
    places.push_back(i);
    candidates.push_back(all[i]);
  }
  for (const std::size_t i : choose(candidates)) kept[places[i]] = 0;
  return mask_like(mask, kept);
}

Method unstructured(Unstructured kind, Amount amount) {
  return [kind, amount](const Tensor& scores, const Tensor& mask) {
    return without_elements(scores, mask, [&](std::vector<double>& candidates) {
      const std::int64_t count = amount.of(std::ssize(candidates));
      if (kind == Unstructured::kL1) {
        for (double& each : candidates) each = std::abs(each);
        return top(candidates, count, Extreme::kSmallest);
      }
      if (count == 0) return std::vector<std::size_t>();
      const Tensor drawn = rand({std::ssize(candidates)}, {.dtype = scores.dtype()});
      return top(on_host(drawn), count, Extreme::kLargest);
    });
  };
}

// keep() gets the scores of the channels along `dim` that the mask keeps, and names the channels
// that stay.
template <typename Keep>
Tensor with_channels(const Tensor& scores, const Tensor& mask, std::int64_t dim, const Keep& keep) {
  DL_CHECK(scores.dim() >= 2, kShape,
           "prune: the parameter has shape {}, wanted at least two dimensions to prune channels",
           scores.sizes().str());
  const auto d =
      static_cast<std::int64_t>(wrap_dim(dim, scores.sizes().size(), "prune: the dimension"));
  std::vector<std::int64_t> others;
  for (std::int64_t i = 0; i < scores.dim(); ++i) {
    if (i != d) others.push_back(i);
  }
  const std::vector<double> sums = on_host(sum(mask, DimList(Dims(others))));
  std::vector<std::int64_t> channels;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != 0) channels.push_back(static_cast<std::int64_t>(i));
  }
  const Tensor candidates = index_select(scores.cpu(), d, tensor(channels));
  std::vector<double> kept(sums.size(), 0);
  for (const std::size_t i : keep(candidates, DimList(Dims(others)), std::ssize(channels))) {
    kept[static_cast<std::size_t>(channels[i])] = 1;
  }
  Shape shape;
  for (std::int64_t i = 0; i < scores.dim(); ++i) shape.push_back(i == d ? std::ssize(kept) : 1);
  return mask * tensor(kept, {.dtype = DType::kF64}).view(shape).to(mask.dtype()).to(mask.device());
}

// The tensor of this name that the module computes with.
Tensor& pruned_or_parameter(Module& module, std::string_view name) {
  Tensor* const computed = Computed::find(module, name);
  return computed != nullptr ? *computed : module.get_parameter(name);
}

Tensor masked(Module& module, const std::string& orig, const std::string& mask) {
  const Tensor& value = *Computed::find_registered(module, orig);
  return Computed::find_registered(module, mask)->to(value.dtype()) * value;
}

// Throws if the names that pruning gives are not valid, or are there already.
void check_names(Module& module, std::string_view name) {
  DL_CHECK(name.find('.') == name.npos, kInvalidArgument,
           "prune: the name \"{}\" contains a dot; give the submodule and its parameter's name",
           name);
  if (Computed::find(module, name) != nullptr) return;
  const std::vector<NamedModule> children = module.named_children();
  for (const std::string& made : {orig_of(name), mask_of(name)}) {
    const bool is_child = std::ranges::find(children, made, &NamedModule::name) != children.end();
    DL_CHECK(!is_child && Computed::find_registered(module, made) == nullptr &&
                 Computed::find(module, made) == nullptr,
             kInvalidArgument,
             "prune: {} has a tensor or module \"{}\" already, which pruning \"{}\" makes",
             module.type_name(), made, name);
  }
}

Module& apply(Module& module, std::string_view name, const Method& method,
              const Tensor& importance_scores = {}) {
  check_names(module, name);
  const Tensor now = pruned_or_parameter(module, name).detach();
  DL_CHECK(!importance_scores.defined() || importance_scores.sizes() == now.sizes(), kShape,
           "prune: importance_scores has shape {}, wanted that of \"{}\", {}",
           importance_scores.sizes().str(), name, now.sizes().str());
  const std::string orig = orig_of(name);
  const std::string mask = mask_of(name);
  const bool is_first = Computed::find(module, name) == nullptr;
  const Tensor before = is_first ? ones_like(now) : *Computed::find_registered(module, mask);
  Tensor after;
  {
    const NoGradGuard no_grad;
    after = method(importance_scores.defined() ? importance_scores.detach() : now, before);
  }
  if (is_first) {
    const Tensor parameter = module.get_parameter(name);
    const bool is_trained = parameter.requires_grad();
    module.register_parameter(orig, parameter).requires_grad_(is_trained);
    module.register_buffer(mask, after);
    Computed::begin(module, name, [orig, mask](Module& m) { return masked(m, orig, mask); });
  } else {
    const NoGradGuard no_grad;
    Computed::find_registered(module, mask)->copy_(after);
  }
  *Computed::find(module, name) = masked(module, orig, mask);
  return module;
}

}  // namespace

Amount::Amount(double share, std::int64_t number) : share_(share), number_(number) {
  DL_CHECK(share >= 0 && share <= 1, kInvalidArgument,
           "prune: the amount is {}, wanted a share from 0 to 1; a whole number counts elements",
           share);
}

void Amount::refuse_number(std::int64_t number) {
  throw_error(ErrorKind::kInvalidArgument, "prune: the amount is {}, wanted at least 0", number);
}

std::int64_t Amount::of(std::int64_t all) const {
  if (number_ < 0) {
    return static_cast<std::int64_t>(std::nearbyint(share_ * static_cast<double>(all)));
  }
  DL_CHECK(number_ <= all, kInvalidArgument,
           "prune: the amount is {}, but only {} are not pruned yet", number_, all);
  return number_;
}

Module& l1_unstructured(Module& module, std::string_view name, Amount amount,
                        const Tensor& importance_scores) {
  return apply(module, name, unstructured(Unstructured::kL1, amount), importance_scores);
}

Module& random_unstructured(Module& module, std::string_view name, Amount amount) {
  return apply(module, name, unstructured(Unstructured::kRandom, amount));
}

Module& ln_structured(Module& module, std::string_view name, Amount amount, double n,
                      std::int64_t dim, const Tensor& importance_scores) {
  const Method method = [=](const Tensor& scores, const Tensor& mask) {
    const auto keep = [&](const Tensor& candidates, const DimList& others, std::int64_t count) {
      return top(on_host(norm(candidates, n, others)), count - amount.of(count), Extreme::kLargest);
    };
    return with_channels(scores, mask, dim, keep);
  };
  return apply(module, name, method, importance_scores);
}

Module& random_structured(Module& module, std::string_view name, Amount amount, std::int64_t dim) {
  return apply(module, name, [=](const Tensor& scores, const Tensor& mask) {
    return with_channels(scores, mask, dim, [&](const Tensor&, const DimList&, std::int64_t count) {
      const std::int64_t pruned = amount.of(count);
      std::vector<double> drawn(static_cast<std::size_t>(count), 0);
      double most = -1;  // the largest number of a channel that goes
      if (pruned > 0) {
        drawn = on_host(rand({count}));
        std::vector<double> sorted = drawn;
        std::ranges::sort(sorted);
        most = sorted[static_cast<std::size_t>(pruned - 1)];
      }
      std::vector<std::size_t> kept;
      for (std::size_t i = 0; i < drawn.size(); ++i) {
        if (drawn[i] > most) kept.push_back(i);
      }
      return kept;
    });
  });
}

void global_unstructured(std::span<const ParameterOf> parameters, Unstructured method,
                         Amount amount) {
  DL_CHECK(!parameters.empty(), kInvalidArgument,
           "global_unstructured: there are no parameters, wanted at least one");
  const NoGradGuard no_grad;
  std::vector<Tensor> scores;
  std::vector<Tensor> masks;
  for (const ParameterOf& each : parameters) {
    check_names(each.module, each.name);
    const Tensor now = pruned_or_parameter(each.module, each.name).detach();
    const Tensor& given = each.importance_scores;
    DL_CHECK(!given.defined() || given.sizes() == now.sizes(), kShape,
             "global_unstructured: importance_scores has shape {}, wanted that of \"{}\", {}",
             given.sizes().str(), each.name, now.sizes().str());
    const Tensor* const mask = Computed::find(each.module, each.name) == nullptr
                                   ? nullptr
                                   : Computed::find_registered(each.module, mask_of(each.name));
    scores.push_back((given.defined() ? given.detach() : now).reshape({-1}));
    masks.push_back((mask == nullptr ? ones_like(now) : *mask).reshape({-1}));
  }
  const Tensor all = unstructured(method, amount)(cat(scores, 0), cat(masks, 0));
  std::int64_t first = 0;
  for (const ParameterOf& each : parameters) {
    const Shape shape = pruned_or_parameter(each.module, each.name).sizes();
    const std::int64_t count = pruned_or_parameter(each.module, each.name).numel();
    custom_from_mask(each.module, each.name, all.narrow(0, first, count).view(shape));
    first += count;
  }
}

Module& custom_from_mask(Module& module, std::string_view name, const Tensor& mask) {
  return apply(module, name, [&](const Tensor& scores, const Tensor& before) {
    DL_CHECK(mask.defined() && mask.sizes() == scores.sizes(), kShape,
             "custom_from_mask: the mask has shape {}, wanted that of \"{}\", {}",
             mask.defined() ? mask.sizes().str() : "none", name, scores.sizes().str());
    return before * mask.to(before.dtype()).to(before.device());
  });
}

Module& identity(Module& module, std::string_view name) {
  return apply(module, name, [](const Tensor&, const Tensor& mask) { return mask; });
}

Module& remove(Module& module, std::string_view name) {
  DL_CHECK(Computed::find(module, name) != nullptr, kInvalidArgument,
           "prune::remove: \"{}\" of {} is not pruned", name, module.type_name());
  const NoGradGuard no_grad;
  Tensor parameter = *Computed::find_registered(module, orig_of(name));
  parameter.copy_(masked(module, orig_of(name), mask_of(name)));
  Computed::drop(module, orig_of(name));
  Computed::drop(module, mask_of(name));
  Computed::end(module, name, parameter);
  return module;
}

bool is_pruned(Module& module) {
  return std::ranges::any_of(module.named_modules(), [](const NamedModule& each) {
    return !Computed::names(*each.module).empty();
  });
}

}  // namespace dl::nn::utils::prune
