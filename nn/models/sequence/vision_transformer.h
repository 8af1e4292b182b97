// The vision transformer (Dosovitskiy et al. 2021), with torchvision's names and initial values:
// torchvision's weights load into it.
//
//     nn::models::VisionTransformer small({.image_size = 32, .patch_size = 4, .num_classes = 10});
//     nn::models::VisionTransformer large(nn::models::vit_options("l_16"));
#pragma once

#include <cstdint>
#include <string_view>

#include "nn/layers/activation/dropout.h"
#include "nn/layers/conv/conv.h"
#include "nn/layers/norm.h"
#include "nn/module/module.h"
#include "nn/module/sequential.h"

namespace dl::nn::models {

// The defaults are ViT-B/16's.
struct VisionTransformerOptions {
  std::int64_t image_size = 224;  // height and width
  std::int64_t patch_size = 16;   // of the squares that the image is divided into
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;
  std::int64_t hidden_dim = 768;
  std::int64_t mlp_dim = 3072;
  double dropout = 0;
  double attention_dropout = 0;
  std::int64_t num_classes = 1000;
};

// Options of "b_16" (86,567,656 parameters), "b_32" (88,224,232), "l_16" (304,326,632), "l_32"
// (306,535,400) and "h_14" (632,045,800). Throws kInvalidArgument for another name.
VisionTransformerOptions vit_options(std::string_view name);

// Input [N, 3, image_size, image_size] -> logits [N, num_classes]. The last layer's weights are
// initially 0, as torchvision's are.
class VisionTransformer : public Module {
 public:
  // Throws kInvalidArgument unless sizes are positive, patch_size divides image_size, num_heads
  // divides hidden_dim, and dropouts are in [0, 1].
  explicit VisionTransformer(const VisionTransformerOptions& options = {});
  // Throws kShape for images of another size.
  Tensor forward(const Tensor& input) override;

 private:
  VisionTransformerOptions options_;
  Tensor& class_token_;  // [1, 1, hidden_dim]
  Conv2d& conv_proj_;
  Module& encoder_;
  Sequential& heads_;
};

}  // namespace dl::nn::models
