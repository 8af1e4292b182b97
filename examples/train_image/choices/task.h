// What train_cnn can learn: the sets of images, how they become inputs, and the model for them.
#pragma once

#include <string>

#include "nn/data/dataset.h"
#include "nn/models/book.h"

namespace dl::examples {

struct Task {
  data::ImageDataset train;
  data::ImageDataset test;
  nn::models::BookCNNOptions model;
};

// Reads both splits of "digits", "mnist", "fashion-mnist" or "cifar10" from `data_dir`; digits need
// none. Grey images are resized to 28x28, all are normalised with their training set's mean and
// standard deviation. Throws kInvalidArgument if a folder is needed and not given,
// and what the readers throw.
Task load_task(const std::string& dataset, const std::string& data_dir);

// The folder of the digits that come with this program: ../share/dlrun/data/digits, relative to its
// own folder, in a build tree and after installation.
std::string shipped_digits();

}  // namespace dl::examples
