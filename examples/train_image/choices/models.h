// The models that train_image can train. A new one is a row in models.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "nn/module/module.h"

namespace dl::examples {

// What a model is made for.
struct ImageInput {
  std::int64_t channels = 1;
  std::int64_t side = 28;  // height and width of an image, in pixels
  std::int64_t classes = 10;
};

struct ModelRow {
  std::string_view name;
  bool colours;             // takes images of 3 channels only; grey ones are repeated
  std::int64_t least_side;  // of an image; smaller ones are resized
  std::unique_ptr<nn::Module> (*make)(const ImageInput& input);
};

std::span<const ModelRow> models();
// Throws kInvalidArgument with the names that there are.
const ModelRow& find_model(std::string_view name);

}  // namespace dl::examples
