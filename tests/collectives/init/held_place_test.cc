#include "collectives/process/held_place.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>

namespace dl::collectives {
namespace {

// A child that does what it is told after the fork, and lives until it is killed.
class Child {
 public:
  template <typename Body>
  explicit Child(const Body& body) {
    std::array<int, 2> ready{};
    EXPECT_EQ(::pipe(ready.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      [[maybe_unused]] const auto kept = body();
      static_cast<void>(!::write(ready[1], "r", 1));
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the child has ended";
    ::close(ready[0]);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  int pid() const { return pid_; }
  void end() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
};

std::string own_place(std::string_view name) {
  return std::to_string(::getpid()) + " " + std::string(name);
}

TEST(HeldPlace, NamesTheProcessThatHasIt) {
  const std::string name = own_place("names");
  Child child([&] { return HeldPlace(name); });
  EXPECT_EQ(HeldPlace(name).holder(), child.pid());
  EXPECT_EQ(HeldPlace(own_place("another")).holder(), std::nullopt);
  child.end();
  EXPECT_EQ(HeldPlace(name).holder(), std::nullopt);
}

TEST(HeldPlace, IsFreeAfterItsEndThoughAForkedChildKeepsIt) {
  const std::string name = own_place("free");
  std::optional<Child> forked;
  {
    const HeldPlace mine(name);
    forked.emplace([] { return 0; });
  }
  const Child other([&] {
    if (HeldPlace(name).holder()) ::_exit(1);
    return 0;
  });
}

TEST(HeldPlace, OfADeadProcessIsFreeThoughAForkedChildKeepsIt) {
  const std::string name = own_place("dead");
  std::array<int, 2> told{};
  ASSERT_EQ(::pipe(told.data()), 0);
  Child parent([&] {
    HeldPlace mine(name);
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      for (;;) ::pause();
    }
    static_cast<void>(!::write(told[1], &grandchild, sizeof grandchild));
    return mine;
  });
  pid_t grandchild = 0;
  ASSERT_EQ(::read(told[0], &grandchild, sizeof grandchild),
            static_cast<ssize_t>(sizeof grandchild));
  ::close(told[0]);
  ::close(told[1]);
  EXPECT_EQ(HeldPlace(name).holder(), parent.pid());
  parent.end();
  EXPECT_EQ(HeldPlace(name).holder(), std::nullopt);
  ::kill(grandchild, SIGKILL);
}

}  // namespace
}  // namespace dl::collectives
