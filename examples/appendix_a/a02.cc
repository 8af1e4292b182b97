// Listing A.2: a logistic regression's forward pass. The appendix prints nothing; this program
// prints the values.
#include <dlrun.h>

#include <iostream>

#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

void forward_pass() {
  namespace F = nn::functional;
  const Tensor y = tensor({1.0});   // true label
  const Tensor x1 = tensor({1.1});  // input feature
  const Tensor w1 = tensor({2.2});  // weight parameter
  const Tensor b = tensor({0.0});   // bias unit
  const Tensor z = x1 * w1 + b;     // net input
  const Tensor a = sigmoid(z);      // activation and output
  const Tensor loss = F::binary_cross_entropy(a, y);
  std::cout << z << " " << a << " " << loss << "\n";
}

}  // namespace dl::examples::appendix_a
