// A rank that fails in the middle of a job: rank 1 throws while the others wait for it in an
// all_reduce.
#include <array>

#include "collectives/init.h"
#include "core/base/error.h"

int main() {
  dl::init_process_group();
  std::array<float, 1000> values{};
  const auto all_reduce = [&] {
    dl::default_group()
        ->all_reduce({.input = values.data(), .output = values.data(), .count = values.size()})
        ->synchronize();
  };
  all_reduce();
  if (dl::rank() == 1) dl::throw_error(dl::ErrorKind::kParse, "train.bin: a broken record");
  all_reduce();
  return 0;
}
