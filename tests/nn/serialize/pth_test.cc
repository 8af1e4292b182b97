#include "nn/serialize/pth/pth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "core/base/error.h"
#include "core/ops/conv/conv.h"
#include "core/tensor/factories.h"
#include "nn/layers/linear.h"
#include "nn/optim/algorithms/algorithms.h"
#include "tests/nn/data/bytes.h"
#include "tests/nn/serialize/pth_files.h"

namespace dl::nn {
namespace {

using data::TemporaryDirectory;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<double> numbers(const Tensor& tensor) {
  const Tensor dense = tensor.detach().to(DType::kF64).contiguous();
  const double* const first = dense.data<double>();
  return {first, first + dense.numel()};
}

std::vector<double> range(int begin, int end, int step = 1) {
  std::vector<double> all;
  for (int i = begin; i < end; i += step) all.push_back(i);
  return all;
}

// What make_files.py put into values.pth.
void expect_values(const Value& file) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor& tensor = file.at("dtypes").at(name_of(dtype)).as_tensor();
    ASSERT_EQ(tensor.dtype(), dtype);
    ASSERT_EQ(tensor.sizes(), Shape({2, 3}));
    visit_all(dtype, [&]<typename T>() {
      for (int k = 0; k < 6; ++k)
        EXPECT_EQ(tensor.data<T>()[k], dl::detail::convert<T>(k - 2)) << name_of(dtype);
    });
  }
  EXPECT_EQ(file.at("scalar").as_tensor().item<float>(), 2.5F);
  EXPECT_EQ(file.at("empty").as_tensor().sizes(), Shape({0, 3}));
  EXPECT_EQ(file.at("empty_view").as_tensor().sizes(), Shape({0, 2}));
  EXPECT_EQ(file.at("empty_view").as_tensor().strides(), Strides({4, 1}));
  const Tensor& rows = file.at("rows").as_tensor();
  const Tensor& columns = file.at("columns").as_tensor();
  EXPECT_EQ(numbers(rows), range(0, 12));
  EXPECT_EQ(columns.strides(), Strides({1, 4}));
  EXPECT_EQ(numbers(file.at("part").as_tensor()), range(5, 8));
  EXPECT_EQ(numbers(file.at("every_second").as_tensor()), range(0, 12, 2));
  for (const char* const view : {"columns", "part", "every_second"}) {
    EXPECT_EQ(file.at(view).as_tensor().storage(), rows.storage()) << view;
  }
  EXPECT_TRUE(file.at("image").as_tensor().is_channels_last());
  EXPECT_EQ(numbers(file.at("image").as_tensor()), range(0, 24));
  EXPECT_TRUE(file.at("parameter").as_tensor().requires_grad());
  EXPECT_TRUE(file.at("parameter").as_tensor().is_leaf());
  EXPECT_FALSE(file.at("frozen").as_tensor().requires_grad());
  EXPECT_EQ(numbers(file.at("linear").at("weight").as_tensor()), range(0, 6));

  std::vector<std::int64_t> integers;
  for (const Value& each : file.at("numbers").as_list()) integers.push_back(each.as_int());
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  EXPECT_THAT(integers, ElementsAre(0, 255, 256, -1, 70000, -(std::int64_t{1} << 31),
                                    std::int64_t{1} << 40, kLeast, -(kLeast + 1)));
  const Value& floats = file.at("floats");
  EXPECT_TRUE(floats.is_tuple());
  EXPECT_EQ(floats.as_list()[0].as_float(), 0.1);
  EXPECT_TRUE(std::isinf(floats.as_list()[1].as_float()));
  EXPECT_TRUE(std::signbit(floats.as_list()[2].as_float()));
  const Value::List& flags = file.at("flags").as_list();
  EXPECT_TRUE(flags[0].as_bool() && !flags[1].as_bool() && flags[2].is_none());
  EXPECT_EQ(file.at("text").as_string(), "Gr\u00fc\u00dfe \U0001f600");
  EXPECT_EQ(file.at("long").as_string(), std::string(300, 'x'));
  EXPECT_EQ(file.at("size").as_list()[1].as_int(), 3);
  for (const Value& each : file.at("empty_things").as_list()) {
    EXPECT_TRUE(each.is_string() ? each.as_string().empty()
                : each.is_dict() ? each.as_dict().empty()
                                 : each.as_list().empty());
  }
  const Value& nested = file.at("nested");
  EXPECT_EQ(nested.find(0)->as_list()[0].at("a").as_list()[1].as_list()[0].as_int(), 2);
  EXPECT_TRUE(nested.find(1)->as_list()[0].as_bool());
  EXPECT_TRUE(nested.find(-5)->as_dict().empty());
  EXPECT_EQ(nested.as_dict()[2].first.as_int(), -5) << "the order of the file";
}

TEST(Pth, ReadsWhatPyTorchWritesAndWhatOtherProgramsMakeOfIt) {
  for (const char* const name :
       {"values", "protocol4", "deflated", "zip64", "big_endian", "legacy", "legacy4"}) {
    SCOPED_TRACE(name);
    expect_values(load_pth(torch_file(name)));
  }
}

TEST(Pth, ReadsWhatItWrites) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/ours.pth";
  const Value file = load_pth(torch_file("values"));
  save_pth(path, file);
  expect_values(load_pth(path));
  const std::string bytes = file_content(path);
  save_pth(path, file);
  EXPECT_EQ(file_content(path), bytes) << "the same values give the same bytes";
}

TEST(Pth, WritesAStorageOnce) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  const Tensor all = arange(1000, {.dtype = DType::kF32});
  Value::Dict views;
  for (int i = 0; i < 20; ++i) views.push_back({i, all.narrow(0, 10 * i, 10)});
  save_pth(path, views);
  EXPECT_LT(file_content(path).size(), 4000U + 20 * 300);
  const Value read = load_pth(path);
  EXPECT_EQ(numbers(read.find(19)->as_tensor()), range(190, 200));
  EXPECT_EQ(read.find(0)->as_tensor().storage(), read.find(19)->as_tensor().storage());
}

TEST(Pth, WritesResultsOfPoolingRowByRow) {
  const TemporaryDirectory dir;
  const Tensor image = arange(24).to(DType::kF32).view({1, 2, 3, 4});
  save_pth(dir.path() + "/f", StateDict{{"y", max_pool2d(image, {.kernel = 1, .stride = 1})}});
  const Tensor read = load_pth(dir.path() + "/f").at("y").as_tensor();
  EXPECT_EQ(read.strides(), image.strides());
  EXPECT_EQ(numbers(read), numbers(image));
}

TEST(Pth, WritesAndReadsZip64) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  const std::string pickle = "\x80\x02]" + pickled_tensor(1, {3}, {1}) + "a.";
  const std::string four(16, '\0');
  write_zip(path, {{"r/data.pkl", pickle}, {"r/data/0", four}}, /*zip64_from=*/0);
  EXPECT_EQ(load_pth(path).as_list()[0].as_tensor().sizes(), Shape({3}));
}

TEST(Pth, AModelTakesAFileOfPyTorchs) {
  Linear model(3, 2);
  const Value file = load_pth(torch_file("values"));
  model.load_state_dict(file.at("linear"));
  EXPECT_EQ(numbers(model.weight), range(0, 6));
  EXPECT_THAT(numbers(model.bias), ElementsAre(0.5, -0.5));
  EXPECT_THAT([&] { model.load_state_dict(file); },
              ThrowsMessage<Error>(
                  "Value: \"dtypes\" is dict, wanted a state_dict, whose values are tensors; "
                  "does it stand under another key of the file?"));
  EXPECT_THAT([&] { model.load_state_dict(file.at("text")); },
              ThrowsMessage<Error>("Value: it is str, wanted dict"));
  EXPECT_THAT([&] { file.at("model"); },
              ThrowsMessage<Error>(testing::StartsWith(
                  "Value: there is no key \"model\"; it begins with \"dtypes\", \"scalar\", ")));
  Linear other(3, 2);
  const TemporaryDirectory dir;
  save_pth(dir.path() + "/f", model.state_dict());
  other.load_state_dict(load_pth(dir.path() + "/f"));
  EXPECT_EQ(numbers(other.weight), numbers(model.weight));
}

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(const std::vector<Tensor>&)>;

struct OptimizerFile {
  const char* name;
  MakeOptimizer make;  // with other options than those of the file
};

const OptimizerFile kOptimizerFiles[] = {
    {"sgd",
     [](const auto& p) { return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 7}); }},
    {"sgd_plain",
     [](const auto& p) {
       return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 7, .momentum = 0.5});
     }},
    {"adam",
     [](const auto& p) { return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 7}); }},
    {"adamw",
     [](const auto& p) { return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = 7}); }},
    {"amsgrad",
     [](const auto& p) { return std::make_unique<optim::Adam>(p, optim::AdamOptions{.lr = 7}); }},
    {"nadam",
     [](const auto& p) { return std::make_unique<optim::NAdam>(p, optim::NAdamOptions{.lr = 7}); }},
    {"radam",
     [](const auto& p) { return std::make_unique<optim::RAdam>(p, optim::RAdamOptions{.lr = 7}); }},
    {"rmsprop",
     [](const auto& p) {
       return std::make_unique<optim::RMSprop>(p, optim::RMSpropOptions{.lr = 7});
     }},
    {"adagrad",
     [](const auto& p) {
       return std::make_unique<optim::Adagrad>(p, optim::AdagradOptions{.lr = 7});
     }},
};

// Loads PyTorch's state after three steps, writes it as ours, loads that, and takes the fourth.
TEST(Pth, AnOptimizerGoesOnWherePyTorchsStopped) {
  for (const OptimizerFile& each : kOptimizerFiles) {
    SCOPED_TRACE(each.name);
    const TemporaryDirectory dir;
    const Value file = load_pth(torch_file(each.name));
    Linear model(3, 2);
    model.load_state_dict(file.at("model"));
    const auto theirs = each.make(model.parameters());
    theirs->load_state_dict(file.at("optimizer"));
    save_pth(dir.path() + "/f",
             Value::Dict{{"epoch", 3}, {"optimizer", theirs->torch_state_dict()}});
    const auto ours = each.make(model.parameters());
    ours->load_state_dict(load_pth(dir.path() + "/f").at("optimizer"));
    for (std::size_t i = 0; i < 2; ++i) {
      model.parameters()[i].set_grad(file.at("gradients").as_list()[i].as_tensor());
    }
    ours->step();
    for (const auto& [name, tensor] : model.state_dict()) {
      EXPECT_THAT(numbers(tensor),
                  testing::Pointwise(testing::DoubleNear(1e-6),
                                     numbers(file.at("after").at(name).as_tensor())))
          << name;
    }
  }
}

TEST(Pth, AnOptimizerTakesItsOwnNamesFromAFile) {
  const TemporaryDirectory dir;
  const std::vector<Tensor> parameters = {ones({2}, {.requires_grad = true})};
  optim::Adam adam(parameters, {.lr = 0.5});
  adam.initial_lr() = 0.75;
  parameters[0].set_grad(ones({2}));
  adam.step();
  save_pth(dir.path() + "/flat", adam.state_dict());
  save_pth(dir.path() + "/torch", adam.torch_state_dict());
  for (const char* const name : {"/flat", "/torch"}) {
    optim::Adam other(parameters);
    other.load_state_dict(load_pth(dir.path() + name));
    EXPECT_EQ(other.lr(), 0.5) << name;
    EXPECT_EQ(other.initial_lr(), 0.75) << name;
    EXPECT_EQ(find(other.state_dict(), "state.0.step")->item<float>(), 1) << name;
  }
}

TEST(Pth, AnOptimizersMaximizeIsRead) {
  Linear model(3, 2);
  optim::Adam adam(model.parameters());
  adam.load_state_dict(load_pth(torch_file("maximize")).at("optimizer"));
  EXPECT_EQ(find(adam.state_dict(), "param_groups.0.maximize")->item<double>(), 1);
}

TEST(Pth, AnOptimizerRefusesTheStateOfAnotherKind) {
  Linear model(3, 2);
  optim::Adam adam(model.parameters(), {.lr = 7});
  const auto refused = [&](optim::Optimizer& optimizer, const char* file, const std::string& text) {
    EXPECT_THAT([&] { optimizer.load_state_dict(load_pth(torch_file(file)).at("optimizer")); },
                ThrowsMessage<Error>(HasSubstr(text)))
        << file;
  };
  refused(adam, "adamw", "\"decoupled_weight_decay\" is set in parameter group 0");
  refused(adam, "sgd",
          "Adam: load_state_dict: the state was written by SGD: it has momentum, dampening, "
          "nesterov, momentum_buffer, which Adam does not have, and lacks betas, eps, amsgrad");
  optim::SGD sgd(model.parameters());
  refused(sgd, "adamw",
          "SGD: load_state_dict: the state was written by Adam or AdamW: it has betas, eps, "
          "decoupled_weight_decay, step, exp_avg, exp_avg_sq, which SGD does not have, and lacks "
          "momentum, dampening, nesterov");
  refused(sgd, "rmsprop", "SGD: load_state_dict: the state was written by RMSprop: it has alpha");
  optim::AdamW adamw(model.parameters());
  refused(adamw, "adam",
          "AdamW: load_state_dict: \"decoupled_weight_decay\" is off in parameter group 0, and "
          "dlrun's AdamW is always with it");
  EXPECT_EQ(adam.lr(), 7) << "a refused state changes nothing";
  optim::Adam half({model.weight});
  refused(half, "adam",
          "Adam: load_state_dict: \"param_groups.0.params\" names 2 parameters, wanted 1");
}

TEST(Pth, RefusesToWriteWhatPyTorchCannotRead) {
  const TemporaryDirectory dir;
  const std::string path = dir.path() + "/f";
  Value deep;
  for (int i = 0; i < 70; ++i) deep = Value::List{deep};
  const struct {
    Value value;
    std::string text;
  } kRows[] = {
      {Value::Dict{{"a", Tensor()}}, "tensor \"a\" is undefined"},
      {Tensor(), "a tensor is undefined"},
      {"\xff", "the text \"\\xff\" is not UTF-8"},
      {"\xed\xa0\x80", "the text \"\\xed\\xa0\\x80\" is not UTF-8"},
      {Value::Dict{{"a", 1}, {"a", 2}}, "a dict has the key \"a\" twice"},
      {Value::Dict{{2, 1}, {2, 2}}, "a dict has the key 2 twice"},
      {Value::Dict{{Value::List{}, 1}},
       "a dict's key is list, wanted a str, a number, None, bytes"},
      {Value::Set{{Value::Tuple{{ones({1})}}}}, "an element of a set is Tensor, wanted a str"},
      {Value::BigInt{std::string(700, '9')}, "an integer has 291 bytes, wanted at most 255"},
      {deep, "more than 64 lists and dicts stand inside each other"},
  };
  for (const auto& row : kRows) {
    EXPECT_THAT([&] { save_pth(path, row.value); },
                ThrowsMessage<Error>(HasSubstr("save " + path + ": " + row.text)))
        << row.text;
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

}  // namespace
}  // namespace dl::nn
