// ChannelMap: which slices of which parameters belong to one channel of a network, so that they
// must be masked together and can be cut out together.
//
// A channel begins as a filter: a row of the weight of a convolution or of a linear layer. It is
// followed through the operations of a forward pass (trace.h), element by element, so that views,
// copies and concatenations need no rule. Operations that combine two channels, as an addition
// does, make them one. What cannot be followed, or would not give 0 for a channel of zeros, is an
// obstacle: the channel must stay.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nn/utils/prune/trace.h"

namespace dl::nn::utils::prune::detail {

// A channel's number; kNone: an index that belongs to no channel.
using Channel = std::int32_t;
inline constexpr Channel kNone = -1;

struct MappedTensor {
  OfModule tensor;
  bool is_filters = false;  // its first dimension counts filters
  // Along each dimension, the channel of each index; empty for a dimension without channels. Along
  // dimension 0 of filters, and along all dimensions of other tensors, a channel's elements are 0
  // if it is masked. Dimension 1 of filters reads channels.
  std::vector<std::vector<Channel>> channels{};

  bool makes_channels(std::size_t dim) const {
    return !channels[dim].empty() && (dim == 0 || !is_filters);
  }
};

class ChannelMap {
 public:
  // Throws kNotImplemented if the forward pass cannot be followed.
  ChannelMap(Module& network, const Tensor& sample);

  std::vector<MappedTensor>& tensors() noexcept { return tensors_; }
  std::size_t channel_count() const noexcept { return obstacles_.size(); }
  // Why the channel must stay: "softmax reads it"; empty: it can be cut.
  const std::string& obstacle(Channel channel) const {
    return obstacles_[static_cast<std::size_t>(channel)];
  }

 private:
  void keep(const std::vector<Channel>& channels, const std::string& why);
  void map_elements(MappedTensor& mapped, const std::vector<Channel>& elements);
  void keep_if_shared(const MappedTensor& mapped);

  std::vector<MappedTensor> tensors_;
  std::vector<std::string> obstacles_;
};

}  // namespace dl::nn::utils::prune::detail
