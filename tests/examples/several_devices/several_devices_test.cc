// A model over two devices gives what one that is not split gives, whole and in chunks; the
// programs print PyTorch's losses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/ops/logic/logic.h"
#include "core/random/tensor_random.h"
#include "examples/several_devices/pipeline.h"
#include "nn/layers/linear.h"
#include "nn/layers/loss.h"
#include "nn/module/sequential.h"
#include "tests/support/process.h"

namespace dl {
namespace {

using examples::several_devices::TwoStages;
using ::testing::HasSubstr;
using tests::Process;
using tests::program;

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    gradients.push_back(parameter.grad().clone());
    parameter.zero_grad();
  }
  return gradients;
}

TEST(TwoStages, HaveTheGradientsOfTheUndividedModel) {
  manual_seed(7);
  const Tensor input = randn({32, 10});
  const Tensor target = randn({32, 10});
  const nn::MSELoss loss_of;
  nn::Sequential whole{nn::Linear(10, 10), nn::Linear(10, 10)};
  EXPECT_EQ(whole.count_parameters(), 220);
  const Tensor expected = loss_of(whole(input), target);
  expected.backward();
  const std::vector<Tensor> gradients = gradients_of(whole.parameters());
  ASSERT_EQ(gradients.size(), 4U);

  TwoStages split(whole.get_submodule("0"), Device{}, whole.get_submodule("1"), Device{});
  for (const std::int64_t chunks : {1, 2, 3, 32}) {
    const Tensor loss =
        loss_of(chunks == 1 ? split(input) : split.in_chunks(input, chunks), target);
    loss.backward();
    EXPECT_TRUE(allclose(loss.detach(), expected.detach(), {.rtol = 1e-6})) << chunks;
    const std::vector<Tensor> found = gradients_of(split.parameters());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      EXPECT_TRUE(allclose(found[i], gradients[i], {.rtol = 1e-5, .atol = 1e-7}))
          << chunks << " chunks, parameter " << i;
    }
  }
}

std::string out_of_listing(const std::string& listing) {
  Process process({program("several_devices"), listing},
                  {.environment = {"CUDA_VISIBLE_DEVICES="}});
  EXPECT_EQ(process.wait(), 0) << process.err();
  return process.out();
}

// The numbers are those of PyTorch 2.15 with the same seeds.
TEST(SeveralDevices, PrintsPyTorchsNumbers) {
  EXPECT_EQ(out_of_listing("two_devices"),
            "stages on cpu and cpu\noutput [32, 10]\nloss 1.143175, then 1.142841\n");
  EXPECT_EQ(out_of_listing("pipeline"), "output [32, 10] on cpu\nloss 1.143175, then 1.142841\n");
  EXPECT_EQ(out_of_listing("mixed_precision"),
            "output bfloat16 [32, 10], loss float32, weight float32\n"
            "scale 65536 x2 x0.5 2000\nloss 1.5720\n");
  const std::string ranks = out_of_listing("data_parallel");
  EXPECT_THAT(ranks, HasSubstr("rank 0 of 2: loss 1.466914, sum of the weights -0.732582\n"));
  EXPECT_THAT(ranks, HasSubstr("rank 1 of 2: loss 1.470039, sum of the weights -0.732582\n"));
}

}  // namespace
}  // namespace dl
