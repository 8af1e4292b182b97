#include "examples/train_image/choices/models.h"

#include "examples/support/training/choices/rows.h"
#include "nn/models/book.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/mobilenet.h"
#include "nn/models/resnet.h"
#include "nn/models/sequence/vision_transformer.h"
#include "nn/models/vgg.h"

namespace dl::examples {
namespace {

namespace nm = nn::models;

// Below this side, an image that is halved five times has too few pixels left.
constexpr std::int64_t kSmallImage = 64;

std::unique_ptr<nn::Module> make_book(const ImageInput& in) {
  return std::make_unique<nn::Sequential>(
      nm::book_cnn({.channels = in.channels, .size = in.side, .classes = in.classes}));
}

template <int kDepth>
std::unique_ptr<nn::Module> make_resnet(const ImageInput& in) {
  return std::make_unique<nm::ResNet>(nm::ResNetOptions{
      .depth = kDepth, .num_classes = in.classes, .small_images = in.side < kSmallImage});
}

template <int kSize>
std::unique_ptr<nn::Module> make_efficientnet(const ImageInput& in) {
  return std::make_unique<nm::EfficientNet>(
      nm::EfficientNetOptions{.size = kSize, .num_classes = in.classes});
}

template <int kDepth, bool kBatchNorm>
std::unique_ptr<nn::Module> make_vgg(const ImageInput& in) {
  return std::make_unique<nm::VGG>(
      nm::VGGOptions{.depth = kDepth, .batch_norm = kBatchNorm, .num_classes = in.classes});
}

template <bool kSmall>
std::unique_ptr<nn::Module> make_mobilenet_v3(const ImageInput& in) {
  return std::make_unique<nm::MobileNetV3>(
      nm::MobileNetV3Options{.small = kSmall, .num_classes = in.classes});
}

// For small images: 64 patches of one of CIFAR, and 1.6 million parameters.
std::unique_ptr<nn::Module> make_small_vit(const ImageInput& in) {
  return std::make_unique<nm::VisionTransformer>(
      nm::VisionTransformerOptions{.image_size = in.side,
                                   .patch_size = 4,
                                   .num_layers = 6,
                                   .num_heads = 4,
                                   .hidden_dim = 128,
                                   .mlp_dim = 512,
                                   .num_classes = in.classes});
}

std::unique_ptr<nn::Module> make_vit_b_16(const ImageInput& in) {
  nm::VisionTransformerOptions options = nm::vit_options("b_16");
  options.image_size = in.side;
  options.num_classes = in.classes;
  return std::make_unique<nm::VisionTransformer>(options);
}

// A model whose options name the classes only.
template <typename Model, typename Options>
std::unique_ptr<nn::Module> make_model(const ImageInput& in) {
  return std::make_unique<Model>(Options{.num_classes = in.classes});
}

constexpr ModelRow kModels[] = {
    {"book", false, 4, make_book},
    {"resnet18", true, 8, make_resnet<18>},
    {"resnet34", true, 8, make_resnet<34>},
    {"resnet50", true, 8, make_resnet<50>},
    {"resnet101", true, 8, make_resnet<101>},
    {"resnet152", true, 8, make_resnet<152>},
    {"densenet121", true, 32, make_model<nm::DenseNet, nm::DenseNetOptions>},
    {"efficientnet_b0", true, 32, make_efficientnet<0>},
    {"efficientnet_b1", true, 32, make_efficientnet<1>},
    {"efficientnet_b2", true, 32, make_efficientnet<2>},
    {"efficientnet_b3", true, 32, make_efficientnet<3>},
    {"efficientnet_b4", true, 32, make_efficientnet<4>},
    {"efficientnet_b5", true, 32, make_efficientnet<5>},
    {"efficientnet_b6", true, 32, make_efficientnet<6>},
    {"efficientnet_b7", true, 32, make_efficientnet<7>},
    {"mobilenet_v2", true, 32, make_model<nm::MobileNetV2, nm::MobileNetV2Options>},
    {"mobilenet_v3_small", true, 32, make_mobilenet_v3<true>},
    {"mobilenet_v3_large", true, 32, make_mobilenet_v3<false>},
    {"vgg11", true, 32, make_vgg<11, false>},
    {"vgg11_bn", true, 32, make_vgg<11, true>},
    {"vgg13", true, 32, make_vgg<13, false>},
    {"vgg13_bn", true, 32, make_vgg<13, true>},
    {"vgg16", true, 32, make_vgg<16, false>},
    {"vgg16_bn", true, 32, make_vgg<16, true>},
    {"vgg19", true, 32, make_vgg<19, false>},
    {"vgg19_bn", true, 32, make_vgg<19, true>},
    {"vit", true, 8, make_small_vit},
    {"vit_b_16", true, 32, make_vit_b_16},
};

}  // namespace

std::span<const ModelRow> models() {
  return kModels;
}

const ModelRow& find_model(std::string_view name) {
  return find_row(models(), "--model", name);
}

}  // namespace dl::examples
