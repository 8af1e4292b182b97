// What train_image can learn: the sets of images, and how they become inputs. A new set is a row in
// task.cc, a new way to change training images one in augment.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "examples/train_image/choices/models.h"
#include "examples/train_image/options.h"
#include "nn/data/dataset.h"

namespace dl::examples {

struct Task {
  std::unique_ptr<data::Dataset> train{};
  std::unique_ptr<data::Dataset> test{};
  ImageInput input{};  // of the model
};

// The names of --dataset.
std::vector<std::string> dataset_names();

// Reads both splits of options.dataset from options.data_dir; digits need none. The images get the
// side that the options or the model name, and are normalised with their training set's mean and
// standard deviation (image folders: ImageNet's). Throws kInvalidArgument if a folder is needed and
// not given, and what the readers throw.
Task load_task(const Options& options);

// The folder of the digits that come with this program: ../share/dlrun/data/digits, relative to its
// own folder, in a build tree and after installation.
std::string shipped_digits();

}  // namespace dl::examples
