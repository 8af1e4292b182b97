// What a user writes first: a small model, trained for a few steps, by one rank or by many.
#include <dlrun.h>

#include <cstdio>
#include <string>

using namespace dl;

int main() {
  init_process_group();
  manual_seed(123);
  nn::Sequential model{nn::Linear(2, 8), nn::ReLU(), nn::Linear(8, 1)};
  nn::parallel::DistributedDataParallel ddp(model, default_group());
  optim::SGD opt(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const Tensor x = tensor({{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}});
  const Tensor y = tensor({{0.0}, {1.0}, {1.0}, {0.0}});
  float first = 0;
  float last = 0;
  for (int step = 0; step < 100; ++step) {
    opt.zero_grad();
    const Tensor loss = nn::functional::mse_loss(ddp(x), y);
    loss.backward();
    opt.step();
    (step == 0 ? first : last) = loss.item<float>();
  }
  DL_CHECK(last < first / 2, kInternal, "the loss went from {} to {}", first, last);
  destroy_process_group();
  std::printf("dlrun %s\n", std::string(kVersion).c_str());
}
