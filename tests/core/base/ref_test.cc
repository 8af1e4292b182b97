#include "core/base/lifetime/ref.h"

#include <gtest/gtest.h>

#include "core/base/system/unique_fd.h"

namespace dl {
namespace {

struct Counted : RefCounted {
  explicit Counted(int* deaths_out) : deaths(deaths_out) {}
  ~Counted() override { ++*deaths; }
  int* deaths;
};

TEST(Ref, LastHandleDeletes) {
  int deaths = 0;
  {
    Ref<Counted> a = make_ref<Counted>(&deaths);
    Ref<RefCounted> b = a;
    EXPECT_EQ(a->use_count(), 2u);
    a = nullptr;
    EXPECT_EQ(deaths, 0);
  }
  EXPECT_EQ(deaths, 1);
}

TEST(Ref, SelfAssignmentAndMoveKeepTheCount) {
  int deaths = 0;
  Ref<Counted> a = make_ref<Counted>(&deaths);
  const Ref<Counted>& same = a;
  a = same;
  EXPECT_EQ(a->use_count(), 1u);
  const Ref<Counted> b = std::move(a);
  EXPECT_EQ(b->use_count(), 1u);
  EXPECT_FALSE(static_cast<bool>(a));  // NOLINT(bugprone-use-after-move): moved from means empty
}

TEST(Ref, MoveToAHandleOfTheBaseKeepsTheCount) {
  int deaths = 0;
  Ref<Counted> a = make_ref<Counted>(&deaths);
  {
    const Ref<RefCounted> b = std::move(a);
    EXPECT_EQ(b->use_count(), 1u);
    EXPECT_FALSE(static_cast<bool>(a));  // NOLINT(bugprone-use-after-move): moved from means empty
  }
  EXPECT_EQ(deaths, 1);
}

TEST(UniqueFd, ClosesWhatItOwns) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  {
    const UniqueFd write_end(ends[1]);
  }
  char c;
  EXPECT_EQ(::read(read_end.get(), &c, 1), 0);
}

}  // namespace
}  // namespace dl
