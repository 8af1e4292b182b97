// Listing A.8: a training loader that drops the last, incomplete batch.
#include <dlrun.h>

#include "examples/appendix_a/a07.h"
#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

void loader_drops_last() {
  manual_seed(123);
  // Repeats the two passes of A.7, because they draw from the same generator.
  const ToyLoaders before;
  for (int pass = 0; pass < 2; ++pass) {
    auto epoch = before.train_loader.epoch();
    while (epoch.next()) {
    }
  }
  print_batches(ToyLoaders(/*drop_last=*/true).train_loader);
}

}  // namespace dl::examples::appendix_a
