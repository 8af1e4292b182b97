// The chapters' programs. They train the book's own CNN in chapters for which the book uses a
// network from torchvision (DenseNet121, EfficientNet).
#pragma once

#include "examples/book/options.h"

namespace dl::examples::book {

void chapter1(const Options& options);  // a first training run
void chapter2(const Options& options);  // runs with other settings, compared
void chapter3(const Options& options);  // compiled steps
void chapter4(const Options& options);  // threads
void chapter5(const Options& options);  // the data pipeline
void chapter6(const Options& options);  // pruning
void chapter7(const Options& options);  // mixed precision
// Ranks on CPUs. Under dlrun, its ranks train together. Alone, it starts them itself: one with 1,
// 2, 4, ... threads, then 2, 4, ... ranks that share the threads, and prints a table.
void chapter9(const Options& options);

}  // namespace dl::examples::book
