// Operations of layers, and losses.
#include "core/elementwise/losses.h"
#include "core/ops/conv/conv.h"
#include "core/ops/elementwise/activation.h"
#include "core/ops/index/embedding.h"
#include "core/ops/linear/linear.h"
#include "core/ops/loss/loss.h"
#include "core/ops/norm/norm.h"
#include "core/ops/pool/resample.h"
#include "core/ops/softmax/softmax.h"
#include "tests/parity/fuzz/case.h"

namespace dl::fuzz {
namespace {

IntPair pair(const Case& c, const char* name) {
  const Dims both = c.dims(name);
  return {both[0], both[1]};
}

Reduction reduction(const Case& c) {
  const std::string name = c.word("reduction");
  if (name == "none") return Reduction::kNone;
  if (name == "sum") return Reduction::kSum;
  return name == "batchmean" ? Reduction::kBatchMean : Reduction::kMean;
}

Results batch_norm_of(const Case& c) {
  const Tensor mean = c[3].defined() ? c[3].clone() : Tensor();
  const Tensor variance = c[4].defined() ? c[4].clone() : Tensor();
  Results results{batch_norm(
      c[0], mean, variance, c[1], c[2],
      {.training = c.flag("training"), .momentum = c.number("momentum"), .eps = c.number("eps")})};
  if (mean.defined()) results.insert(results.end(), {mean, variance});
  return results;
}

}  // namespace

void add_layers(Operations& operations) {
  const auto add = [&](const char* name, Operation f) { operations[name] = std::move(f); };
  // clang-format off
  add("softmax", [](const Case& c) { return Results{softmax(c[0], c.whole("dim"))}; });
  add("log_softmax", [](const Case& c) { return Results{log_softmax(c[0], c.whole("dim"))}; });
  add("layer_norm", [](const Case& c) { return Results{layer_norm(c[0], c.dims("shape"), c[1], c[2], c.number("eps"))}; });
  add("rms_norm", [](const Case& c) { return Results{rms_norm(c[0], c.dims("shape"), c[1], c.number("eps"))}; });
  add("group_norm", [](const Case& c) { return Results{group_norm(c[0], c.whole("groups"), c[1], c[2], c.number("eps"))}; });
  add("batch_norm", batch_norm_of);
  add("linear", [](const Case& c) { return Results{linear(c[0], c[1], c[2])}; });
  add("embedding", [](const Case& c) { return Results{embedding(c[1], c[0], c.has("padding_idx") ? std::optional(c.whole("padding_idx")) : std::nullopt)}; });
  add("conv2d", [](const Case& c) {
    return Results{conv2d(c[0], c[1], c[2], {.stride = pair(c, "stride"), .padding = pair(c, "padding"), .dilation = pair(c, "dilation"), .groups = c.whole("groups")})};
  });
  add("conv_transpose2d", [](const Case& c) {
    return Results{conv_transpose2d(c[0], c[1], c[2], {.stride = pair(c, "stride"), .padding = pair(c, "padding"), .output_padding = pair(c, "output_padding"), .dilation = pair(c, "dilation"), .groups = c.whole("groups")})};
  });
  add("max_pool2d", [](const Case& c) {
    return Results{max_pool2d(c[0], {.kernel = pair(c, "kernel"), .stride = pair(c, "stride"), .padding = pair(c, "padding"), .dilation = pair(c, "dilation"), .ceil_mode = c.flag("ceil_mode")})};
  });
  add("avg_pool2d", [](const Case& c) {
    return Results{avg_pool2d(c[0], {.kernel = pair(c, "kernel"), .stride = pair(c, "stride"), .padding = pair(c, "padding"), .ceil_mode = c.flag("ceil_mode"), .count_include_pad = c.flag("count_include_pad"), .divisor_override = c.has("divisor") ? std::optional(c.whole("divisor")) : std::nullopt})};
  });
  add("adaptive_avg_pool2d", [](const Case& c) { return Results{adaptive_avg_pool2d(c[0], pair(c, "size"))}; });
  add("upsample2d", [](const Case& c) {
    return Results{upsample2d(c[0], {.size = pair(c, "size"), .mode = c.flag("bilinear") ? UpsampleMode::kBilinear : UpsampleMode::kNearest, .align_corners = c.flag("align_corners")})};
  });
  // clang-format on
}

void add_losses(Operations& operations) {
  const auto add = [&](const char* name, Operation f) { operations[name] = std::move(f); };
  // clang-format off
  add("mse_loss", [](const Case& c) { return Results{mse_loss(c[0], c[1], {.reduction = reduction(c)})}; });
  add("l1_loss", [](const Case& c) { return Results{l1_loss(c[0], c[1], {.reduction = reduction(c)})}; });
  add("smooth_l1_loss", [](const Case& c) { return Results{smooth_l1_loss(c[0], c[1], {.reduction = reduction(c), .beta = c.number("a")})}; });
  add("huber_loss", [](const Case& c) { return Results{huber_loss(c[0], c[1], {.reduction = reduction(c), .delta = c.number("a")})}; });
  add("binary_cross_entropy", [](const Case& c) { return Results{binary_cross_entropy(c[0], c[1], {.weight = c[2], .reduction = reduction(c)})}; });
  add("binary_cross_entropy_with_logits", [](const Case& c) { return Results{binary_cross_entropy_with_logits(c[0], c[1], {.weight = c[2], .reduction = reduction(c), .pos_weight = c[3]})}; });
  add("kl_div", [](const Case& c) { return Results{kl_div(c[0], c[1], {.reduction = reduction(c), .log_target = c.flag("log_target")})}; });
  add("cross_entropy", [](const Case& c) { return Results{cross_entropy(c[0], c[1], {.weight = c[2], .ignore_index = c.whole("ignore_index"), .reduction = reduction(c), .label_smoothing = c.number("smoothing")})}; });
  add("nll_loss", [](const Case& c) { return Results{nll_loss(c[0], c[1], {.weight = c[2], .ignore_index = c.whole("ignore_index"), .reduction = reduction(c)})}; });
  add("cosine_similarity", [](const Case& c) { return Results{cosine_similarity(c[0], c[1], {.dim = c.whole("dim"), .eps = c.number("eps")})}; });
  add("cosine_embedding_loss", [](const Case& c) { return Results{cosine_embedding_loss(c[0], c[1], c[2], {.margin = c.number("margin"), .reduction = reduction(c)})}; });
  add("hinge_embedding_loss", [](const Case& c) { return Results{hinge_embedding_loss(c[0], c[1], {.margin = c.number("margin"), .reduction = reduction(c)})}; });
  add("soft_margin_loss", [](const Case& c) { return Results{soft_margin_loss(c[0], c[1], {.reduction = reduction(c)})}; });
  add("multilabel_soft_margin_loss", [](const Case& c) { return Results{multilabel_soft_margin_loss(c[0], c[1], {.weight = c[2], .reduction = reduction(c)})}; });
  add("ctc_loss", [](const Case& c) { return Results{ctc_loss(c.flag("softmax") ? log_softmax(c[0], -1) : c[0], c[1], c[2], c[3], {.blank = c.whole("blank"), .reduction = reduction(c), .zero_infinity = c.flag("zero_infinity")})}; });
  add("multi_margin_loss", [](const Case& c) { return Results{multi_margin_loss(c[0], c[1], {.p = c.number("p"), .margin = c.number("margin"), .weight = c[2], .reduction = reduction(c)})}; });
  add("multilabel_margin_loss", [](const Case& c) { return Results{multilabel_margin_loss(c[0], c[1], {.reduction = reduction(c)})}; });
  add("poisson_nll_loss", [](const Case& c) { return Results{poisson_nll_loss(c[0], c[1], {.log_input = c.flag("log_input"), .full = c.flag("full"), .eps = c.number("eps"), .reduction = reduction(c)})}; });
  add("gaussian_nll_loss", [](const Case& c) { return Results{gaussian_nll_loss(c[0], c[1], c[2], {.full = c.flag("full"), .eps = c.number("eps"), .reduction = reduction(c)})}; });
  add("margin_ranking_loss", [](const Case& c) { return Results{margin_ranking_loss(c[0], c[1], c[2], {.margin = c.number("margin"), .reduction = reduction(c)})}; });
  add("triplet_margin_loss", [](const Case& c) { return Results{triplet_margin_loss(c[0], c[1], c[2], {.margin = c.number("margin"), .p = c.number("p"), .eps = c.number("eps"), .swap = c.flag("swap"), .reduction = reduction(c)})}; });
  add("pairwise_distance", [](const Case& c) { return Results{pairwise_distance(c[0], c[1], {.p = c.number("p"), .eps = c.number("eps"), .keepdim = c.flag("keepdim")})}; });
  // clang-format on
  for (const PairLossFacts& row : kPairLossFacts) {
    if (!operations.contains(std::string(row.name))) {
      throw std::logic_error("losses.cc has no case of " + std::string(row.name));
    }
  }
}

}  // namespace dl::fuzz
