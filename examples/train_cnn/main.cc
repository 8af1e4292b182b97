// train_cnn: train_image with the book's convolutional network, on one process or on many.
//
//     train_cnn                              # alone, on the digits that come with dlrun
//     dlrun --nproc-per-node 2 train_cnn     # the same network, on two ranks
#include "examples/train_image/program.h"

int main(int argc, char** argv) {
  return dl::examples::run_program(
      {.name = "train_cnn",
       .about = "Trains a small convolutional network on images: alone, or on many ranks under "
                "dlrun."},
      argc, argv);
}
