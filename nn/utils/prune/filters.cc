#include "nn/utils/prune/filters.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "core/base/error.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/reduce/reduce.h"
#include "core/tensor/factories.h"
#include "nn/utils/prune/channels.h"
#include "nn/utils/prune/prune.h"

namespace dl::nn::utils::prune {
namespace {

using detail::Channel;
using detail::ChannelMap;
using detail::kNone;
using detail::MappedTensor;

constexpr std::size_t kNoConfig = static_cast<std::size_t>(-1);

// Layers whose filters depend on each other, and their channels.
struct Together {
  std::vector<std::size_t> layers;  // numbers of mapped tensors
  std::vector<Channel> channels;
  std::size_t config = kNoConfig;
  double sparsity = 0;
};

struct Score {
  double sum = 0;
  double filters = 0;
};

bool lists(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void check_configs(Module& network, const std::vector<PruneConfig>& configs) {
  std::vector<std::string> paths;
  for (const NamedModule& each : network.named_modules()) paths.push_back(each.name);
  for (const PruneConfig& config : configs) {
    for (const auto* names : {&config.op_names, &config.exclude_op_names}) {
      for (const std::string& name : *names) {
        DL_CHECK(lists(paths, name), kNotFound, "prune_filters: {} has no module \"{}\"",
                 network.type_name(), name);
      }
    }
    for (const double sparsity : {config.sparsity_per_layer, config.total_sparsity}) {
      DL_CHECK(sparsity >= 0 && sparsity < 1, kInvalidArgument,
               "prune_filters: a sparsity is {}, wanted at least 0 and less than 1", sparsity);
    }
    DL_CHECK(config.max_sparsity_per_layer >= 0 && config.max_sparsity_per_layer <= 1,
             kInvalidArgument, "prune_filters: max_sparsity_per_layer is {}, wanted 0 to 1",
             config.max_sparsity_per_layer);
    DL_CHECK(config.sparsity_per_layer == 0 || config.total_sparsity == 0, kInvalidArgument,
             "prune_filters: a configuration has sparsity_per_layer and total_sparsity, wanted one "
             "of them");
  }
}

std::size_t config_of(const MappedTensor& layer, const std::vector<PruneConfig>& configs) {
  const std::string& path = layer.tensor.path;
  for (std::size_t i = configs.size(); i-- > 0;) {
    const PruneConfig& c = configs[i];
    const bool has_type = c.op_types.empty() || lists(c.op_types, layer.tensor.module->type_name());
    if (has_type && (c.op_names.empty() || lists(c.op_names, path)) &&
        !lists(c.exclude_op_names, path)) {
      return i;
    }
  }
  return kNoConfig;
}

std::vector<Together> dependent_layers(ChannelMap& map) {
  // The first layer that has a channel stands for it, until two of them turn out to be together.
  std::vector<std::size_t> part_of(map.tensors().size());
  std::iota(part_of.begin(), part_of.end(), std::size_t{0});
  const auto find = [&](std::size_t layer) {
    while (part_of[layer] != layer) layer = part_of[layer];
    return layer;
  };
  std::vector<std::size_t> first(map.channel_count(), kNoConfig);
  for (std::size_t t = 0; t < part_of.size(); ++t) {
    if (!map.tensors()[t].is_filters) continue;
    for (const Channel channel : map.tensors()[t].channels[0]) {
      std::size_t& layer = first[static_cast<std::size_t>(channel)];
      if (layer == kNoConfig) layer = t;
      const std::size_t one = find(layer);
      const std::size_t other = find(t);
      part_of[std::max(one, other)] = std::min(one, other);
    }
  }
  std::map<std::size_t, Together> groups;
  for (std::size_t t = 0; t < part_of.size(); ++t) {
    if (map.tensors()[t].is_filters) groups[find(t)].layers.push_back(t);
  }
  for (std::size_t channel = 0; channel < first.size(); ++channel) {
    groups[find(first[channel])].channels.push_back(static_cast<Channel>(channel));
  }
  std::vector<Together> result;
  for (auto& [layer, together] : groups) result.push_back(std::move(together));
  return result;
}

// Sets the configuration, and the smallest sparsity.
void choose_config(Together& together, ChannelMap& map, const std::vector<PruneConfig>& configs) {
  together.sparsity = 1;
  for (const std::size_t layer : together.layers) {
    const std::size_t config = config_of(map.tensors()[layer], configs);
    if (config == kNoConfig) {
      together.config = kNoConfig;
      return;
    }
    const bool is_first = together.config == kNoConfig;
    const bool is_global = configs[config].total_sparsity > 0;
    DL_CHECK(is_first || config == together.config ||
                 (!is_global && configs[together.config].total_sparsity == 0),
             kInvalidArgument,
             "prune_filters: the filters of \"{}\" and \"{}\" depend on each other; name both in "
             "the configuration with total_sparsity",
             map.tensors()[together.layers[0]].tensor.path, map.tensors()[layer].tensor.path);
    together.config = config;
    together.sparsity = std::min(together.sparsity, configs[config].sparsity_per_layer);
  }
  for (const std::size_t layer : together.layers) {
    for (const Channel channel : map.tensors()[layer].channels[0]) {
      DL_CHECK(map.obstacle(channel).empty(), kNotImplemented,
               "prune_filters: a filter of \"{}\" cannot be cut out, because {}; name the layer in "
               "exclude_op_names",
               map.tensors()[layer].tensor.path, map.obstacle(channel));
    }
  }
}

std::vector<Score> scores_of(ChannelMap& map) {
  std::vector<Score> scores(map.channel_count());
  for (const MappedTensor& each : map.tensors()) {
    if (!each.is_filters) continue;
    const Tensor norms = sum(abs(each.tensor.value.to(DType::kF64)).flatten(1), 1).contiguous();
    for (std::size_t i = 0; i < each.channels[0].size(); ++i) {
      Score& score = scores[static_cast<std::size_t>(each.channels[0][i])];
      score.sum += norms.data<double>()[i];
      score.filters += 1;
    }
  }
  return scores;
}

std::int64_t share(double sparsity, std::size_t all) {
  return static_cast<std::int64_t>(sparsity * static_cast<double>(all));
}

// How many filters of each layer may still go, and which filters a channel takes with it.
class Room {
 public:
  Room(const std::vector<const Together*>& groups, ChannelMap& map, double most_of_a_layer) {
    for (const Together* const group : groups) {
      for (const std::size_t layer : group->layers) {
        const std::vector<Channel>& filters = map.tensors()[layer].channels[0];
        const std::int64_t most = share(most_of_a_layer, filters.size());
        left_[layer] = std::min(most, std::ssize(filters) - 1);
        for (const Channel channel : filters) ++filters_of_[channel][layer];
      }
    }
  }
  bool take(Channel channel) {
    const std::map<std::size_t, std::int64_t>& filters = filters_of_[channel];
    for (const auto& [layer, count] : filters) {
      if (left_[layer] < count) return false;
    }
    for (const auto& [layer, count] : filters) left_[layer] -= count;
    return true;
  }

 private:
  std::map<std::size_t, std::int64_t> left_;                           // of each layer
  std::map<Channel, std::map<std::size_t, std::int64_t>> filters_of_;  // in each layer
};

// Marks at most `count` channels of these groups to prune, the first among equal scores.
void choose_channels(const std::vector<const Together*>& groups, ChannelMap& map,
                     const std::vector<Score>& scores, std::int64_t count, double most_of_a_layer,
                     std::vector<bool>& pruned) {
  struct Candidate {
    double score;
    Channel channel;
  };
  std::vector<Candidate> candidates;
  for (const Together* const group : groups) {
    for (const Channel channel : group->channels) {
      const Score& score = scores[static_cast<std::size_t>(channel)];
      candidates.push_back({score.sum / score.filters, channel});
    }
  }
  std::ranges::stable_sort(candidates, {}, &Candidate::score);
  Room room(groups, map, most_of_a_layer);
  for (const Candidate& each : candidates) {
    if (count == 0) return;
    if (!room.take(each.channel)) continue;
    --count;
    pruned[static_cast<std::size_t>(each.channel)] = true;
  }
}

// Masks the elements that belong to these channels.
void mask_channels(const MappedTensor& mapped, const std::vector<bool>& pruned) {
  if (!mapped.tensor.is_parameter) return;
  const Tensor mask = ones_like(mapped.tensor.value);
  bool has_some = false;
  for (std::size_t d = 0; d < mapped.channels.size(); ++d) {
    if (!mapped.makes_channels(d)) continue;
    for (std::size_t i = 0; i < mapped.channels[d].size(); ++i) {
      const Channel channel = mapped.channels[d][i];
      if (channel == kNone || !pruned[static_cast<std::size_t>(channel)]) continue;
      mask.select(static_cast<std::int64_t>(d), static_cast<std::int64_t>(i)).fill_(0);
      has_some = true;
    }
  }
  if (has_some) custom_from_mask(*mapped.tensor.module, mapped.tensor.name, mask);
}

}  // namespace

std::vector<PrunedLayer> prune_filters(Module& network, const Tensor& sample,
                                       const std::vector<PruneConfig>& configs) {
  check_configs(network, configs);
  ChannelMap map(network, sample);
  std::vector<Together> all = dependent_layers(map);
  for (Together& together : all) choose_config(together, map, configs);
  std::vector<bool> pruned(map.channel_count(), false);
  {
    const NoGradGuard no_grad;
    const std::vector<Score> scores = scores_of(map);
    for (std::size_t c = 0; c < configs.size(); ++c) {
      std::vector<const Together*> globally;
      std::size_t channels = 0;
      for (const Together& together : all) {
        if (together.config == kNoConfig) continue;
        const std::size_t size = together.channels.size();
        if (configs[c].total_sparsity > 0 && together.config == c) {
          globally.push_back(&together);
          channels += size;
        } else if (together.config == c) {
          choose_channels({&together}, map, scores, share(together.sparsity, size),
                          together.sparsity, pruned);
        }
      }
      choose_channels(globally, map, scores, share(configs[c].total_sparsity, channels),
                      configs[c].max_sparsity_per_layer, pruned);
    }
  }
  std::vector<PrunedLayer> result;
  for (const MappedTensor& each : map.tensors()) {
    if (!each.is_filters || config_of(each, configs) == kNoConfig) continue;
    PrunedLayer layer{.name = each.tensor.path, .filters = std::ssize(each.channels[0])};
    layer.pruned = std::ranges::count_if(each.channels[0], [&](Channel channel) {
      return pruned[static_cast<std::size_t>(channel)];
    });
    result.push_back(std::move(layer));
  }
  for (const MappedTensor& each : map.tensors()) mask_channels(each, pruned);
  return result;
}

}  // namespace dl::nn::utils::prune
