// Listing A.1, and sections A.2.2 to A.2.4: tensors, dtypes, shapes and products.
#include <dlrun.h>

#include <iostream>

#include "examples/appendix_a/listings.h"

namespace dl::examples::appendix_a {

void tensors() {
  const Tensor tensor0d = tensor(1);
  const Tensor tensor1d = tensor({1, 2, 3});
  Tensor tensor2d = tensor({{1, 2}, {3, 4}});
  const Tensor tensor3d = tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});

  std::cout << tensor1d.dtype() << "\n";
  std::cout << tensor({1.0, 2.0, 3.0}).dtype() << "\n";
  std::cout << tensor1d.to(DType::kF32).dtype() << "\n";

  tensor2d = tensor({{1, 2, 3}, {4, 5, 6}});
  std::cout << tensor2d << "\n";
  std::cout << tensor2d.sizes() << "\n";
  std::cout << tensor2d.reshape({3, 2}) << "\n";
  std::cout << tensor2d.view({3, 2}) << "\n";
  std::cout << tensor2d.T() << "\n";
  std::cout << tensor2d.matmul(tensor2d.T()) << "\n";
}

}  // namespace dl::examples::appendix_a
