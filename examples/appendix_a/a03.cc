// Listing A.3: gradients of a logistic regression, by grad() and by backward().
#include <dlrun.h>

#include <iostream>

#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

void gradients() {
  namespace F = nn::functional;
  const Tensor y = tensor({1.0});
  const Tensor x1 = tensor({1.1});
  const Tensor w1 = tensor({2.2}, {.requires_grad = true});
  const Tensor b = tensor({0.0}, {.requires_grad = true});
  const Tensor z = x1 * w1 + b;
  const Tensor a = sigmoid(z);
  const Tensor loss = F::binary_cross_entropy(a, y);

  std::cout << autograd::grad({loss}, {w1}, {.retain_graph = true})[0] << "\n";
  std::cout << autograd::grad({loss}, {b}, {.retain_graph = true})[0] << "\n";

  loss.backward();
  std::cout << w1.grad() << "\n";
  std::cout << b.grad() << "\n";
}

}  // namespace dl::examples::appendix_a
