// Listing A.10: the share of samples that a model predicts rightly.
#pragma once

#include "core/tensor/tensor.h"
#include "nn/data/data_loader.h"
#include "nn/module/module.h"

namespace dl::examples::appendix_a {

double compute_accuracy(nn::Module& model, const data::DataLoader& dataloader, Device device = {});

}  // namespace dl::examples::appendix_a
