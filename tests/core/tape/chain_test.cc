// Which steps run together, and which results take the memory of an operand.
#include "core/tape/plan/chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "core/autograd/grad_mode.h"
#include "core/memory/allocator.h"
#include "core/ops/elementwise/arithmetic.h"
#include "core/ops/norm/norm.h"
#include "core/tape/recorder.h"
#include "core/tape/tape.h"
#include "core/tensor/factories.h"

namespace dl::tape {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Recording record(const std::function<Tensor()>& function, Tensor& result) {
  const NoGradGuard no_grad;
  Recorder recorder;
  result = function();
  return recorder.finish();
}

// The names of each chain's steps.
std::vector<std::string> chains_of(const std::function<Tensor()>& function) {
  Tensor result;
  const Recording recording = record(function, result);
  std::vector<std::string> names;
  for (const Chain& chain : find_chains(recording)) {
    std::string name = chain.kernel ? "around a kernel:" : "alone:";
    for (const std::size_t i : chain.members()) name += " " + recording.steps[i]->name();
    names.push_back(name);
  }
  return names;
}

const Shape kShape{2, 3, 4, 4};

// A result that lives on is not the arena's, so all steps here end with one that only reads.
Tensor total(const Tensor& x) {
  return x.sum();
}

TEST(Chains, AreElementWiseStepsThatReadOneAnother) {
  const Tensor x = ones(kShape);
  EXPECT_THAT(chains_of([&] { return total((x * 2.0).relu().tanh()); }),
              ElementsAre("alone: mul relu tanh"));
  EXPECT_THAT(chains_of([&] { return total(x.relu()); }), IsEmpty());
}

TEST(Chains, HoldNormalisationWithItsNeighbours) {
  const Tensor x = ones(kShape);
  EXPECT_THAT(chains_of([&] {
                return total((batch_norm(x, {}, {}, {}, {}, {.training = true}) + x).relu());
              }),
              ElementsAre("around a kernel: batch_norm add relu"));
  EXPECT_THAT(chains_of([&] { return total(layer_norm(x * 2.0, {4}) * 3.0); }),
              ElementsAre("around a kernel: mul layer_norm mul"));
}

TEST(Chains, LeaveOutWhatPairsOtherElements) {
  const Tensor x = ones(kShape);
  const Tensor row = ones({4});
  EXPECT_THAT(chains_of([&] { return total((x.relu() + row).tanh()); }), IsEmpty());
  // Two parts of one block: a part of the second would read what the first has not written yet.
  EXPECT_THAT(chains_of([&] {
                Tensor all = ones({9});
                all = all + zeros({9});
                all.narrow(0, 0, 8).mul_(2.0);
                all.narrow(0, 1, 8).mul_(2.0);
                return total(all);
              }),
              IsEmpty());
}

TEST(Chains, LeaveOutResultsThatLiveOn) {
  const Tensor x = ones(kShape);
  EXPECT_THAT(chains_of([&] { return x.relu().tanh(); }), IsEmpty());
}

TEST(Reuses, AreResultsOverOperandsThatEnd) {
  const Tensor x = ones(kShape);
  const auto arena_of = [](const std::function<Tensor()>& function) {
    Tensor result;
    const Tape tape(record(function, result));
    return tape.arena_bytes();
  };
  const std::size_t one = x.nbytes() + memory::kAlignment;  // and the sum or a number
  EXPECT_EQ(arena_of([&] { return total((x * 2.0).relu().tanh()); }), one);
  // The first result is read once more.
  EXPECT_EQ(arena_of([&] {
              const Tensor twice = x * 2.0;
              return total(twice.relu() + twice);
            }),
            one + x.nbytes());
}

TEST(Chains, GiveTheBitsOfTheirSteps) {
  const Tensor x = arange(96, {.dtype = DType::kF32}).view(kShape);
  const auto function = [&] { return total((layer_norm(x * 2.0, {4}) * 3.0).tanh()); };
  Tensor result;
  Tape tape(record(function, result));
  const Tensor expected = result.clone();
  result.zero_();
  const NoGradGuard no_grad;
  for (int i = 0; i < 3; ++i) {
    tape.run();
    EXPECT_EQ(result.item<float>(), expected.item<float>());
  }
}

}  // namespace
}  // namespace dl::tape
