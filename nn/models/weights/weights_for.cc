#include "nn/models/weights/weights_for.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/ops/index/index.h"

namespace dl::nn::models {
namespace {

using Names = std::span<const std::string_view>;

// Layers of one prefix, in the order in which they compute. "#" stands for a number. Names with
// "|" between them are one tensor of the model: their weights are joined, then their biases.
struct Part {
  std::string_view prefix;
  Names layers;             // behind the prefix
  std::string_view only{};  // a part with this layer; else with none of another part's
};

constexpr std::string_view kItself[] = {""};

// timm's blocks. One without "conv_pwl" does not widen its channels.
constexpr std::string_view kWidening[] = {
    "conv_pw", "bn1", "conv_dw", "bn2", "se.conv_reduce", "se.conv_expand", "conv_pwl", "bn3"};
constexpr std::string_view kSeparable[] = {"conv",           "conv_dw", "bn1", "se.conv_reduce",
                                           "se.conv_expand", "conv_pw", "bn2"};
constexpr Part kMobile[] = {
    {"conv_stem", kItself},      {"bn1", kItself},       {"blocks.#.#.", kWidening, "conv_pwl"},
    {"blocks.#.#.", kSeparable}, {"conv_head", kItself}, {"bn2", kItself},
    {"classifier", kItself}};

constexpr std::string_view kVGGHead[] = {"pre_logits.fc1", "pre_logits.fc2", "head.fc"};
constexpr Part kVGG[] = {{"features.#", kItself}, {"", kVGGHead}};

constexpr std::string_view kTimmBlock[] = {"norm1", "attn.qkv", "attn.proj",
                                           "norm2", "mlp.fc1",  "mlp.fc2"};
constexpr Part kTimmViT[] = {{"cls_token", kItself}, {"patch_embed.proj", kItself},
                             {"pos_embed", kItself}, {"blocks.#.", kTimmBlock},
                             {"norm", kItself},      {"head", kItself}};

constexpr std::string_view kHFLayer[] = {
    "layernorm_before",
    "attention.attention.query|attention.attention.key|attention.attention.value",
    "attention.output.dense",
    "layernorm_after",
    "intermediate.dense",
    "output.dense"};
constexpr std::string_view kHF5Layer[] = {
    "layernorm_before", "attention.q_proj|attention.k_proj|attention.v_proj",
    "attention.o_proj", "layernorm_after",
    "mlp.fc1",          "mlp.fc2"};
constexpr Part kHFViT[] = {{"vit.embeddings.cls_token", kItself},
                           {"vit.embeddings.patch_embeddings.projection", kItself},
                           {"vit.embeddings.position_embeddings", kItself},
                           {"vit.encoder.layer.#.", kHFLayer},
                           {"vit.layers.#.", kHF5Layer},  // since version 5
                           {"vit.layernorm", kItself},
                           {"classifier", kItself}};

// Families by a name that no other has.
struct Family {
  std::string_view mark;
  std::span<const Part> parts;
};
constexpr Family kFamilies[] = {{"conv_stem.weight", kMobile},
                                {"pre_logits.fc1.weight", kVGG},
                                {"patch_embed.proj.weight", kTimmViT},
                                {"vit.embeddings.cls_token", kHFViT}};

constexpr std::string_view kTensors[] = {"weight", "bias", "running_mean", "running_var",
                                         "num_batches_tracked"};

// The place of a tensor in the order of a network; joined ones differ in `piece` alone.
struct Place {
  std::vector<std::int64_t> layer;
  std::int64_t piece = 0;
  auto operator<=>(const Place&) const = default;
};

// What is left of `name` behind the prefix, whose numbers are appended.
std::optional<std::string_view> behind(std::string_view prefix, std::string_view name,
                                       std::vector<std::int64_t>& numbers) {
  for (; !prefix.empty(); prefix.remove_prefix(1)) {
    if (prefix.front() == '#') {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
      if (error != std::errc()) return std::nullopt;
      numbers.push_back(number);
      name.remove_prefix(static_cast<std::size_t>(end - name.data()));
      continue;
    }
    if (name.empty() || name.front() != prefix.front()) return std::nullopt;
    name.remove_prefix(1);
  }
  return name;
}

// The place of "LAYER.weight" or "LAYER" among the layers.
std::optional<Place> place_among(Names layers, std::string_view rest) {
  const std::size_t dot = rest.rfind('.');
  std::string_view layer = dot == std::string_view::npos ? "" : rest.substr(0, dot);
  const auto* const tensor = std::ranges::find(kTensors, rest.substr(dot + 1));
  std::int64_t number = tensor - std::begin(kTensors);
  if (tensor == std::end(kTensors)) {
    layer = rest;
    number = 0;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::string_view names = layers[i];
    for (std::int64_t piece = 0;; ++piece) {
      const std::size_t bar = names.find('|');
      if (names.substr(0, bar) == layer) {
        return Place{{static_cast<std::int64_t>(i), number}, piece};
      }
      if (bar == std::string_view::npos) break;
      names.remove_prefix(bar + 1);
    }
  }
  return std::nullopt;
}

std::optional<Place> place_of(std::span<const Part> parts, std::string_view name,
                              const std::set<std::string, std::less<>>& all) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    std::vector<std::int64_t> numbers;
    const auto rest = behind(parts[i].prefix, name, numbers);
    if (!rest) continue;
    if (!parts[i].only.empty()) {
      const std::string_view prefix = name.substr(0, name.size() - rest->size());
      if (!all.contains(std::string(prefix) + std::string(parts[i].only) + ".weight")) continue;
    }
    const auto inner = place_among(parts[i].layers, *rest);
    if (!inner) continue;
    // Parts of one prefix have one place.
    const auto first = std::ranges::find(parts, parts[i].prefix, &Part::prefix);
    Place place{{first - parts.begin()}, inner->piece};
    place.layer.insert(place.layer.end(), numbers.begin(), numbers.end());
    place.layer.insert(place.layer.end(), inner->layer.begin(), inner->layer.end());
    return place;
  }
  return std::nullopt;
}

// The sizes that are not 1.
std::vector<std::int64_t> extents(const Shape& shape) {
  std::vector<std::int64_t> result;
  std::ranges::copy_if(shape, std::back_inserter(result), [](std::int64_t n) { return n != 1; });
  return result;
}

// timm's VGG keeps the weights of its linear layers as those of convolutions.
bool is_flattened(const Shape& from, const Shape& to) {
  if (from.size() != 4 || to.size() != 2 || from[0] != to[0]) return false;
  return from[1] * from[2] * from[3] == to[1];
}

Tensor shaped(const Tensor& tensor, const NamedTensor& wanted, const std::string& name) {
  const Shape& shape = wanted.tensor.sizes();
  DL_CHECK(extents(tensor.sizes()) == extents(shape) || is_flattened(tensor.sizes(), shape),
           kMismatch, "weights_for: {} of the file has shape {}, and {} of the model {}", name,
           tensor.sizes().str(), wanted.name, shape.str());
  return tensor.sizes() == shape ? tensor : tensor.reshape(shape);
}

StateDict in_order(const StateDict& state, const StateDict& file, std::span<const Part> parts) {
  std::set<std::string, std::less<>> all;
  for (const NamedTensor& each : file) all.insert(each.name);
  std::map<Place, const NamedTensor*> places;
  for (const NamedTensor& each : file) {
    const auto place = place_of(parts, each.name, all);
    DL_CHECK(place, kMismatch,
             "weights_for: the file has {}, which no network of nn/models with such names has",
             each.name);
    DL_CHECK(places.emplace(*place, &each).second, kMismatch, "weights_for: the file has {} twice",
             each.name);
  }
  StateDict result;
  auto next = places.begin();
  for (const NamedTensor& wanted : state) {
    DL_CHECK(next != places.end(), kMismatch,
             "weights_for: the file has too few tensors: {} of the model is none of them",
             wanted.name);
    const std::string& name = next->second->name;
    const std::vector<std::int64_t>& layer = next->first.layer;
    std::vector<Tensor> pieces;
    for (; next != places.end() && next->first.layer == layer; ++next) {
      pieces.push_back(next->second->tensor);
    }
    const Tensor tensor = pieces.size() == 1 ? pieces.front() : cat(pieces, 0);
    result.push_back({wanted.name, shaped(tensor, wanted, name)});
  }
  DL_CHECK(next == places.end(), kMismatch,
           "weights_for: the file has {}, for which the model has no tensor", next->second->name);
  return result;
}

// Files of GPT-2 without its last layer lack the first prefix; old ones have masks, too.
StateDict of_gpt2(const StateDict& state, const StateDict& file) {
  constexpr std::string_view kPrefix = "transformer.";
  const bool has_prefix = state.front().name.starts_with(kPrefix);
  StateDict result;
  for (const auto& [name, tensor] : file) {
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) continue;
    std::string bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
    if (bare == "lm_head.weight") {
      if (has_prefix) result.push_back({bare, tensor});
      continue;
    }
    result.push_back({has_prefix ? std::string(kPrefix) + bare : bare, tensor});
  }
  return result;
}

}  // namespace

StateDict weights_for(const Module& model, const StateDict& file) {
  const StateDict state = model.state_dict();
  const auto is_there = [&](const NamedTensor& each) { return find(file, each.name) != nullptr; };
  if (std::ranges::all_of(state, is_there) && file.size() == state.size()) return file;
  for (const Family& family : kFamilies) {
    if (find(file, family.mark) != nullptr) return in_order(state, file, family.parts);
  }
  const bool is_gpt2 =
      find(file, "wte.weight") != nullptr || find(file, "transformer.wte.weight") != nullptr;
  return is_gpt2 ? of_gpt2(state, file) : file;
}

}  // namespace dl::nn::models
