// Plans which gradients share a bucket, and their offsets in it. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/device/stream.h"
#include "core/tensor/dtype.h"

namespace dl::nn::parallel {

// The properties of one gradient that the plan needs.
struct BucketItem {
  std::size_t elements = 0;
  DType dtype = DType::kF32;
  Device device{};
};

// The size in bytes at which a bucket is full. The first bucket of a dtype and device is smaller,
// so that its all-reduce starts early in backward.
struct BucketCaps {
  std::size_t first = 1 << 20;
  std::size_t others = 25 << 20;
};

struct BucketPlan {
  struct Place {
    std::size_t item;    // index into the list of items
    std::size_t offset;  // its first element; a multiple of kBucketAlignment bytes
  };
  std::vector<Place> places{};  // in the expected order of gradients
  std::size_t elements = 0;     // including alignment gaps
  DType dtype = DType::kF32;
  Device device{};
};

// Vector loads and oneDNN are fastest at the beginning of a cache line.
inline constexpr std::size_t kBucketAlignment = 64;

// Fills buckets with the items in `order`, the order in which gradients are expected to be ready. A
// bucket holds one dtype on one device, and is closed before it would exceed its cap. A gradient
// that is as large as the cap gets a bucket of its own, so neither it nor a small gradient waits
// for the other. Buckets are listed in the order in which their last gradient is expected.
std::vector<BucketPlan> plan_buckets(std::span<const BucketItem> items,
                                     std::span<const std::size_t> order, BucketCaps caps);

}  // namespace dl::nn::parallel
