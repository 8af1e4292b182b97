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
// Chapters on several ranks. If a launcher has started them as ranks, they train together. Alone,
// they start ranks, and print a table.
void chapter8(const Options& options);   // the steps of a distributed training
void chapter9(const Options& options);   // ranks and threads on CPUs
void chapter10(const Options& options);  // time and accuracy against ranks, on GPUs
void chapter11(const Options& options);  // several machines

}  // namespace dl::examples::book
