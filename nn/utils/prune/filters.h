// Pruning of whole filters by their L1 norm, as Microsoft's NNI does it (L1NormPruner), and cutting
// them out (ModelSpeedup), which makes a smaller and faster network.
//
//     namespace prune = nn::utils::prune;
//     const Tensor sample = zeros({1, 3, 32, 32});
//     prune::prune_filters(net, sample, {{.op_types = {"Conv2d"}, .sparsity_per_layer = 0.5}});
//     train(net);  // the masked filters stay 0
//     prune::speed_up(net, sample);
//     train(net);  // with a new optimizer
//
// Both call the network on the sample once, after eval() and without gradients, to see which
// filters depend on each other. Filters whose results are added, or multiplied element by element,
// are pruned together. A filter's elements of biases, of weights of batch normalisation and of
// depthwise convolutions are masked with it, so that its channel is 0 everywhere. Channels are
// followed through element-wise operations, pooling and resampling, reductions within a channel,
// batch normalisation, reshaping and permuting, concatenation, convolutions with or without groups
// and linear layers. The network and the sample must be on the CPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "nn/module/module.h"

namespace dl::nn::utils::prune {

// The layers that `op_types` and `op_names` both allow, and how much of their filters to prune.
// Give one of the two sparsities, at least 0 and less than 1.
struct PruneConfig {
  std::vector<std::string> op_types{};          // "Conv2d", "Linear"; empty: all with filters
  std::vector<std::string> op_names{};          // paths: "layer1.0"; empty: all
  std::vector<std::string> exclude_op_names{};  // paths
  double sparsity_per_layer = 0;                // the share of each layer's filters
  double total_sparsity = 0;                    // the share of all these layers' filters together
  double max_sparsity_per_layer = 1;            // with total_sparsity; 0 to 1
};

struct PrunedLayer {
  std::string name;
  std::int64_t pruned = 0;  // filters
  std::int64_t filters = 0;
};

// Masks the filters with the smallest L1 norms with custom_from_mask() (prune.h): sparsity times
// their number, rounded down, in each layer. If filters depend on each other, the mean of their
// norms counts, and the smallest sparsity of their layers; a layer that no configuration names has
// sparsity 0. Each layer keeps a filter. If several configurations name a layer, the last counts.
//
// Returns the layers that a configuration names. Throws kNotFound for a name that is no module's,
// kInvalidArgument for a sparsity out of range, and kNotImplemented, with the layer and the
// operation, if a layer's channels cannot be cut out; the network is then as before.
std::vector<PrunedLayer> prune_filters(Module& network, const Tensor& sample,
                                       const std::vector<PruneConfig>& configs);

struct SpeedUp {
  std::int64_t parameters_before = 0;
  std::int64_t parameters_after = 0;
  std::vector<std::string> changes;  // "conv1.weight: [64, 3, 3, 3] -> [32, 3, 3, 3]"
};

// Cuts out the channels of which all filters are masked, and removes all masks. Then compares the
// network's results on the sample, and on random numbers of [0, 1) of its shape, with those before.
// Parameters that are cut are new tensors.
//
// Throws kInvalidArgument if nothing is pruned, or if a filter is masked and its bias is not;
// kMismatch if the cut network does not give the same result, as when forward() has a size written
// as a number. The network then has its old size, without masks, also if forward() throws.
SpeedUp speed_up(Module& network, const Tensor& sample);

}  // namespace dl::nn::utils::prune
