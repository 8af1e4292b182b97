// weights_for: files of timm and of Hugging Face's transformers, with the names of nn/models.
//
//     nn::models::MobileNetV2 model;
//     const nn::Safetensors file = nn::load_safetensors("mobilenetv2_100.safetensors");
//     model.load_state_dict(nn::models::weights_for(model, file.tensors));
#pragma once

#include "nn/module/module.h"
#include "nn/serialize/state_dict.h"

namespace dl::nn::models {

// The tensors of a file with the names and shapes of this model's state_dict. Known are, in any
// order of the file, the names of torchvision, and of
//   timm               VGG, MobileNetV2, MobileNetV3, EfficientNet, VisionTransformer; those of
//                      ResNet and DenseNet are torchvision's
//   transformers       ViTForImageClassification, GPT2LMHeadModel and GPT2Model
// A name is the place of a layer in the network: the layers of the file, in the order in which they
// compute, are those of the model. Queries, keys and values that the file has apart are joined, and
// sizes of 1 are added or left out. The tensors share the file's memory if their shape is the same.
//
// Throws kMismatch for a file of another network, with the first name that does not fit.
StateDict weights_for(const Module& model, const StateDict& file);

}  // namespace dl::nn::models
