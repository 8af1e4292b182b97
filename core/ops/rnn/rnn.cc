#include "core/ops/rnn/rnn.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/autograd/record.h"
#include "core/device/math_flags.h"
#include "core/ops/common.h"
#include "core/ops/dispatch/autocast.h"
#include "core/ops/layout.h"

namespace dl {
namespace {

Tensor empty_as(const Tensor& like) {
  return like.defined() ? empty(like.sizes(), {.dtype = like.dtype(), .device = like.device()})
                        : like;
}

// Inputs: x, h, c, the weights. Outputs: y, h, and an LSTM's c.
struct RnnBackward final : Node {
  std::string_view name() const noexcept override { return "rnn"; }
  std::string grad_fn_name() const override { return "CudnnRnnBackward0"; }
  void backward(BackwardContext& context) override {
    const bool has_cell = args.cell == RnnCell::kLSTM;
    const Tensor& x = saved(0);
    const Tensor& h = saved(1);
    const Tensor& y = saved(2);
    // Computing takes up what forward has kept, so each backward gets a copy.
    const Tensor kept = empty_as(saved(3));
    call<Op::kCopy>(x.device(), saved(3), kept);
    const Tensor c = has_cell ? saved(4) : Tensor();
    const auto to = [&](std::size_t output) {
      return laid_out_or_none(context.grad_output(output));
    };
    const Tensor to_y =
        context.grad_output(0).defined() ? to(0) : zeros(y.sizes(), {y.dtype(), y.device()});
    std::vector<Tensor> dweights;
    bool any = false;
    for (std::size_t i = 0; i < shapes.size(); ++i) any = any || context.needs(kFirstWeight + i);
    for (std::size_t i = 0; i < shapes.size() && any; ++i) {
      dweights.push_back(empty(shapes[i], {.dtype = x.dtype(), .device = x.device()}));
    }
    const Tensor gradients[] = {empty_as(x), empty_as(h), empty_as(c)};
    call<Op::kRnnBackward>(x.device(), args, kept, x, h, c, y, to_y, to(1),
                           has_cell ? to(2) : Tensor(), dweights, gradients[0], gradients[1],
                           gradients[2]);
    for (std::size_t i = 0; i < kFirstWeight; ++i) {
      if (context.needs(i)) context.give(i, gradients[i]);
    }
    for (std::size_t i = 0; i < dweights.size(); ++i) {
      if (context.needs(kFirstWeight + i)) context.give(kFirstWeight + i, dweights[i]);
    }
  }
  static constexpr std::size_t kFirstWeight = 3;
  RnnArgs args;
  std::vector<Shape> shapes;  // of the weights
};

bool takes(const Tensor& x, std::span<const Tensor> others) {
  const DType dtype = x.dtype();
  const bool is_known = dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
  return x.is_cuda() && detail::math_flags.cudnn_enabled &&
         !detail::math_flags.cudnn_deterministic && is_known && x.numel() > 0 &&
         std::ranges::all_of(others, [&](const Tensor& other) {
           return other.device() == x.device() && other.dtype() == dtype;
         });
}

}  // namespace

std::optional<detail::RnnResult> detail::fused_rnn(RnnArgs args, const Tensor& x, const Tensor& h,
                                                   const Tensor& c,
                                                   std::span<const Tensor> weights) {
  std::vector<Tensor> inputs = {x, h, c};
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  const InputCast cast = autocast_of<Op::kRnn>(x);
  for (Tensor& input : inputs) {
    if (cast) input = cast(input);
  }
  std::vector<Tensor> given = inputs;
  std::erase_if(given, [](const Tensor& input) { return !input.defined(); });
  if (!takes(inputs[0], given)) return std::nullopt;

  bool trains = false;
  for (const Tensor& input : given) trains = trains || is_recorded(input);
  args.trains = trains;
  std::vector<Tensor> laid;
  for (const Tensor& input : inputs) laid.push_back(laid_out_or_none(input));
  const Device device = x.device();
  const std::int64_t bytes = call<Op::kRnnSpace>(device, args, laid[0]);
  if (bytes == 0) return std::nullopt;
  const Tensor kept = empty({bytes}, {.dtype = DType::kU8, .device = device});
  const RnnResult result{.y = empty({x.size(0), args.directions() * args.width()},
                                    {.dtype = laid[0].dtype(), .device = device}),
                         .h = empty_as(laid[1]),
                         .c = empty_as(laid[2])};
  call<Op::kRnn>(device, args, laid[0], laid[1], laid[2], std::span(laid).subspan(3), kept,
                 result.y, result.h, result.c);
  if (!trains) return result;
  const Ref<RnnBackward> node = make_ref<RnnBackward>();
  node->reserve_edges(inputs.size());
  for (const Tensor& input : inputs) node->add_edge(gradient_edge(input));
  node->args = std::move(args);
  for (std::size_t i = 3; i < laid.size(); ++i) node->shapes.push_back(laid[i].sizes());
  node->set_output_count(result.c.defined() ? 3 : 2);
  std::uint32_t number = 0;
  for (const Tensor& output : {result.y, result.h, result.c}) {
    if (output.defined()) attach(output, node, number++);
  }
  for (const Tensor& tensor : {laid[0], laid[1], result.y, kept}) node->save(tensor);
  if (laid[2].defined()) node->save(laid[2]);
  return result;
}

}  // namespace dl
