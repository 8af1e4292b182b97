// train_image: trains a network on images, on one process or on many.
//
//     train_image --epochs 5                    # ResNet-18, on the digits that come with dlrun
//     dlrun --nproc-per-node 2 train_image --dataset cifar10 --data-dir ~/data/cifar10 --compile
//
// Copy this folder to begin a program of your own: choices/ says what can be learned and by which
// model, one row each; train.h how. The loop, optimizers, schedules, checkpoints and what is shown
// are in examples/support/training.
#include "examples/train_image/program.h"

int main(int argc, char** argv) {
  return dl::examples::run_program(
      {.name = "train_image",
       .about = "Trains a network on images: alone, or on many ranks under dlrun.",
       .defaults = {.model = "resnet18"}},
      argc, argv);
}
