#include "nn/utils/prune/channels.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/autograd/grad_mode.h"
#include "nn/utils/prune/follower.h"

namespace dl::nn::utils::prune::detail {
namespace {

// Numbers the sets that are channels.
class Numbers {
 public:
  Numbers(Sets& sets, std::vector<std::string>& obstacles) : sets_(sets), obstacles_(obstacles) {}

  Channel operator()(Label label) {
    const Label root = sets_.find(label);
    if (!sets_.is_channel(root)) return kNone;
    const auto [found, is_new] = numbers_.emplace(root, static_cast<Channel>(numbers_.size()));
    if (is_new) obstacles_.push_back(sets_.obstacle(root));
    return found->second;
  }
  std::vector<Channel> operator()(const std::vector<Label>& labels) {
    std::vector<Channel> result;
    for (const Label label : labels) result.push_back((*this)(label));
    return result;
  }

 private:
  Sets& sets_;
  std::vector<std::string>& obstacles_;
  std::map<Label, Channel> numbers_;
};

bool has_some(const std::vector<Channel>& channels) {
  return std::ranges::any_of(channels, [](Channel channel) { return channel != kNone; });
}

// The channels of the indices along a dimension, if an element's channel depends on that index
// alone; else none.
//   elements  of a tensor of this shape, in row-major order
std::vector<Channel> along(const std::vector<Channel>& elements, const Shape& shape,
                           std::size_t dim) {
  std::size_t inner = 1;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
  const auto size = static_cast<std::size_t>(shape[dim]);
  std::vector<Channel> channels;
  for (std::size_t i = 0; i < size; ++i) channels.push_back(elements[i * inner]);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] != channels[i / inner % size]) return {};
  }
  return channels;
}

}  // namespace

ChannelMap::ChannelMap(Module& network, const Tensor& sample) {
  const NoGradGuard no_grad;
  Follower follower(network, sample);
  Numbers number(follower.sets(), obstacles_);
  for (std::size_t t = 0; t < follower.tensors().size(); ++t) {
    MappedTensor mapped{.tensor = follower.tensors()[t]};
    mapped.channels.resize(static_cast<std::size_t>(mapped.tensor.value.dim()));
    if (const Follower::Filters& filters = follower.filters(t); !filters.rows.empty()) {
      mapped.is_filters = true;
      mapped.channels[0] = number(filters.rows);
      mapped.channels[1] = number(filters.columns);
    } else if (const std::vector<Label>* const labels = follower.elements(t); labels != nullptr) {
      map_elements(mapped, number(*labels));
    }
    tensors_.push_back(std::move(mapped));
  }
  for (const MappedTensor& each : tensors_) keep_if_shared(each);
}

void ChannelMap::keep(const std::vector<Channel>& channels, const std::string& why) {
  for (const Channel channel : channels) {
    if (channel == kNone) continue;
    std::string& obstacle = obstacles_[static_cast<std::size_t>(channel)];
    if (obstacle.empty()) obstacle = why;
  }
}

void ChannelMap::map_elements(MappedTensor& mapped, const std::vector<Channel>& elements) {
  if (!has_some(elements)) return;
  const Tensor& value = mapped.tensor.value;
  const bool is_whole =
      value.is_contiguous() && value.numel() == static_cast<std::int64_t>(elements.size());
  for (std::size_t d = 0; is_whole && d < mapped.channels.size(); ++d) {
    if (value.sizes()[d] == 1 && value.numel() > 1) continue;
    mapped.channels[d] = along(elements, value.sizes(), d);
    if (!mapped.channels[d].empty()) return;
  }
  keep(elements, mapped.tensor.str() + " has elements of several channels");
}

// Two layers that share a tensor would each mask and cut it.
void ChannelMap::keep_if_shared(const MappedTensor& mapped) {
  for (const MappedTensor& other : tensors_) {
    if (&other == &mapped ||
        other.tensor.value.storage().get() != mapped.tensor.value.storage().get()) {
      continue;
    }
    for (const std::vector<Channel>& channels : mapped.channels) {
      keep(channels, mapped.tensor.str() + " and " + other.tensor.str() + " are one tensor");
    }
  }
}

}  // namespace dl::nn::utils::prune::detail
