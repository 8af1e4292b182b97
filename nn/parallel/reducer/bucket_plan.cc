#include "nn/parallel/reducer/bucket_plan.h"

#include <algorithm>
#include <utility>

namespace dl::nn::parallel {
namespace {

std::size_t aligned(std::size_t elements, DType dtype) noexcept {
  const std::size_t unit = kBucketAlignment / size_of(dtype);
  return (elements + unit - 1) / unit * unit;
}

// The bucket that is being filled for one dtype and device.
struct Filling {
  BucketPlan bucket;
  std::size_t cap;
  std::size_t last = 0;  // position of its last item in the order
};

}  // namespace

std::vector<BucketPlan> plan_buckets(std::span<const BucketItem> items,
                                     std::span<const std::size_t> order, BucketCaps caps) {
  std::vector<Filling> filling;
  std::vector<std::pair<std::size_t, BucketPlan>> closed;
  const auto close = [&](Filling& f) {
    if (f.bucket.places.empty()) return;
    const BucketPlan next{.dtype = f.bucket.dtype, .device = f.bucket.device};
    closed.emplace_back(f.last, std::exchange(f.bucket, next));
    f.cap = caps.others;
  };
  for (std::size_t at = 0; at < order.size(); ++at) {
    const BucketItem& item = items[order[at]];
    auto f = std::ranges::find_if(filling, [&](const Filling& other) {
      return other.bucket.dtype == item.dtype && other.bucket.device == item.device;
    });
    if (f == filling.end()) {
      filling.push_back({{.dtype = item.dtype, .device = item.device}, caps.first});
      f = filling.end() - 1;
    }
    const std::size_t unit = size_of(item.dtype);
    const std::size_t space = aligned(item.elements, item.dtype);
    const bool alone = item.elements * unit >= f->cap;
    if (alone || (f->bucket.elements + space) * unit > f->cap) close(*f);
    f->bucket.places.push_back({order[at], f->bucket.elements});
    f->bucket.elements += space;
    f->last = at;
    if (alone) close(*f);
  }
  for (Filling& f : filling) close(f);
  std::ranges::sort(closed, {}, [](const auto& entry) { return entry.first; });
  std::vector<BucketPlan> plan;
  plan.reserve(closed.size());
  for (auto& entry : closed) plan.push_back(std::move(entry.second));
  return plan;
}

}  // namespace dl::nn::parallel
