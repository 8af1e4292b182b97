// The chapters' programs. They train the book's own CNN in chapters for which the book uses a
// network from torchvision (DenseNet121, EfficientNet).
#pragma once

#include "examples/book/options.h"

namespace dl::examples::book {

void chapter1(const Options& options);  // a first training run
void chapter3(const Options& options);  // compiled steps
void chapter4(const Options& options);  // threads
void chapter5(const Options& options);  // the data pipeline
void chapter6(const Options& options);  // pruning
void chapter7(const Options& options);  // mixed precision

}  // namespace dl::examples::book
