#include "collectives/bench/operation.h"

#include "collectives/bench/values.h"

namespace dl::collectives::bench {
namespace {

double share_of_others(double p) {
  return (p - 1) / p;
}
double twice_share_of_others(double p) {
  return 2 * (p - 1) / p;
}
double one(double) {
  return 1;
}
double none(double) {
  return 0;
}

// A send and a recv that are over when both are.
class Pair final : public Work {
 public:
  Pair(Ref<Work> a, Ref<Work> b) : a_(std::move(a)), b_(std::move(b)) {}
  void wait(Stream stream) override {
    a_->wait(stream);
    b_->wait(stream);
  }
  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override {
    a_->synchronize(timeout);
    b_->synchronize(timeout);
  }
  bool is_completed() const noexcept override { return a_->is_completed() && b_->is_completed(); }
  std::exception_ptr error() const noexcept override {
    const std::exception_ptr first = a_->error();
    return first ? first : b_->error();
  }
  std::string_view algorithm() const noexcept override { return "direct"; }

 private:
  Ref<Work> a_, b_;
};

int right_of(const ProcessGroup& g) {
  return (g.rank() + 1) % g.size();
}
int left_of(const ProcessGroup& g) {
  return (g.rank() + g.size() - 1) % g.size();
}

constexpr Operation kOperations[] = {
    {.name = "all_reduce",
     .perf_name = "all_reduce_perf",
     .share = Share::kWhole,
     .place = Place::kEither,
     .reduces = true,
     .rooted = false,
     .bus_factor = twice_share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.all_reduce({.input = c.input,
                            .output = c.output,
                            .count = c.count,
                            .dtype = c.dtype,
                            .op = c.reduce,
                            .call = {.timeout = c.timeout}});
     },
     .expect = [](const ProcessGroup& g, const Call& c, std::byte* wanted) -> std::size_t {
       fill_reduced(c.dtype, c.reduce, g.size(), wanted, c.count, 0);
       return c.count;
     }},
    {.name = "broadcast",
     .perf_name = "broadcast_perf",
     .share = Share::kWhole,
     .place = Place::kInOnly,
     .reduces = false,
     .rooted = true,
     .bus_factor = one,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.broadcast({.buffer = c.output,
                           .count = c.count,
                           .dtype = c.dtype,
                           .root = c.root,
                           .call = {.timeout = c.timeout}});
     },
     .expect = [](const ProcessGroup&, const Call& c, std::byte* wanted) -> std::size_t {
       fill(c.dtype, c.root, wanted, c.count, 0);
       return c.count;
     }},
    {.name = "all_gather",
     .perf_name = "all_gather_perf",
     .share = Share::kGathers,
     .place = Place::kEither,
     .reduces = false,
     .rooted = false,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.all_gather({.input = c.input,
                            .output = c.output,
                            .count = c.count,
                            .dtype = c.dtype,
                            .call = {.timeout = c.timeout}});
     },
     .expect = [](const ProcessGroup& g, const Call& c, std::byte* wanted) -> std::size_t {
       for (int r = 0; r < g.size(); ++r) {
         fill(c.dtype, r, wanted + static_cast<std::size_t>(r) * c.count * size_of(c.dtype),
              c.count, 0);
       }
       return c.count * static_cast<std::size_t>(g.size());
     }},
    {.name = "reduce_scatter",
     .perf_name = "reduce_scatter_perf",
     .share = Share::kScatters,
     .place = Place::kEither,
     .reduces = true,
     .rooted = false,
     .bus_factor = share_of_others,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.reduce_scatter({.input = c.input,
                                .output = c.output,
                                .count = c.count,
                                .dtype = c.dtype,
                                .op = c.reduce,
                                .call = {.timeout = c.timeout}});
     },
     .expect = [](const ProcessGroup& g, const Call& c, std::byte* wanted) -> std::size_t {
       fill_reduced(c.dtype, c.reduce, g.size(), wanted, c.count,
                    static_cast<std::size_t>(g.rank()) * c.count);
       return c.count;
     }},
    // To the right neighbour, from the left one, at once; as nccl-tests' sendrecv.
    {.name = "sendrecv",
     .perf_name = "sendrecv_perf",
     .share = Share::kWhole,
     .place = Place::kOutOnly,
     .reduces = false,
     .rooted = false,
     .bus_factor = one,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       Ref<Work> in = g.recv({.buffer = c.output,
                              .count = c.count,
                              .dtype = c.dtype,
                              .peer = left_of(g),
                              .call = {.timeout = c.timeout}});
       return make_ref<Pair>(std::move(in), g.send({.buffer = c.input,
                                                    .count = c.count,
                                                    .dtype = c.dtype,
                                                    .peer = right_of(g),
                                                    .call = {.timeout = c.timeout}}));
     },
     .expect = [](const ProcessGroup& g, const Call& c, std::byte* wanted) -> std::size_t {
       fill(c.dtype, left_of(g), wanted, c.count, 0);
       return c.count;
     }},
    {.name = "barrier",
     .perf_name = "",
     .share = Share::kWhole,
     .place = Place::kInOnly,
     .reduces = false,
     .rooted = false,
     .bus_factor = none,
     .start = [](ProcessGroup& g, const Call& c) -> Ref<Work> {
       return g.barrier({.call = {.timeout = c.timeout}});
     },
     .expect = nullptr},
};

}  // namespace

std::span<const Operation> operations() noexcept {
  return kOperations;
}

const Operation* find_operation(std::string_view name) noexcept {
  for (const Operation& each : kOperations) {
    if (name == each.name || (name == each.perf_name && !name.empty())) return &each;
  }
  return nullptr;
}

}  // namespace dl::collectives::bench
