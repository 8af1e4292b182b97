#include "core/kernels/lru_cache.h"

#include <gtest/gtest.h>

namespace dl::kernels {
namespace {

struct Key {
  std::int64_t a, b;
  friend bool operator==(const Key&, const Key&) = default;
};

TEST(LruCache, MakesEachValueOnce) {
  LruCache<Key, int> cache(4);
  int made = 0;
  const auto make = [&] { return std::make_unique<int>(++made); };
  EXPECT_EQ(cache.get({1, 2}, make), 1);
  EXPECT_EQ(cache.get({2, 1}, make), 2);
  EXPECT_EQ(cache.get({1, 2}, make), 1);
  EXPECT_EQ(cache.size(), 2u);
}

TEST(LruCache, ForgetsTheLeastRecentlyUsed) {
  LruCache<Key, int> cache(2);
  int made = 0;
  const auto make = [&] { return std::make_unique<int>(++made); };
  cache.get({1, 0}, make);
  cache.get({2, 0}, make);
  cache.get({1, 0}, make);
  cache.get({3, 0}, make);
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.get({1, 0}, make), 1);
  EXPECT_EQ(cache.get({2, 0}, make), 4);
}

TEST(LruCache, KeepsNothingOfAValueThatCouldNotBeMade) {
  LruCache<Key, int> cache(2);
  EXPECT_THROW(cache.get({1, 0}, []() -> std::unique_ptr<int> { throw 1; }), int);
  EXPECT_EQ(cache.size(), 0u);
}

}  // namespace
}  // namespace dl::kernels
