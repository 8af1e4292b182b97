#include "examples/train_image/choices/models.h"

#include "examples/train_image/choices/rows.h"
#include "nn/models/book.h"
#include "nn/models/densenet.h"
#include "nn/models/efficientnet.h"
#include "nn/models/resnet.h"

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
};

}  // namespace

std::span<const ModelRow> models() {
  return kModels;
}

const ModelRow& find_model(std::string_view name) {
  return find_row(models(), "--model", name);
}

}  // namespace dl::examples
