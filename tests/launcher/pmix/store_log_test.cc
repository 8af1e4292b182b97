// The notes of several nodes in one store.
#include "launcher/pmi/pmix/nodes/store_log.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "core/base/error.h"
#include "rendezvous/stores/memory_store.h"
#include "rendezvous/stores/prefix_store.h"

namespace dl::pmix {
namespace {

using rendezvous::Deadline;

// One node's log, and all that it has read.
struct Reader {
  Reader(boost::asio::io_context& io, rendezvous::Store& store, std::uint64_t generation)
      : log(
            io, [&store](Deadline) { return std::make_unique<rendezvous::PrefixStore>(store, ""); },
            generation, [this](const Note& note) { read.push_back(note.number); },
            [this](const std::string& why) { lost = why; }) {}

  std::vector<std::uint64_t> read;
  std::string lost;
  StoreLog log;
};

TEST(StoreLog, AllReadTheSameInOneOrder) {
  constexpr std::size_t kEach = 200;
  boost::asio::io_context io;
  rendezvous::MemoryStore store;
  Reader a(io, store, 1);
  Reader b(io, store, 1);
  // Keys of another generation are others.
  Reader other(io, store, 2);
  for (std::uint64_t i = 0; i < kEach; ++i) {
    a.log.write({.number = i});
    b.log.write({.number = 1000 + i});
  }
  other.log.write({.number = 7});
  while (a.read.size() < 2 * kEach || b.read.size() < 2 * kEach || other.read.empty()) {
    io.run_one();
    io.restart();
  }
  EXPECT_EQ(a.read, b.read);
  EXPECT_EQ(other.read, std::vector<std::uint64_t>{7});
  // The notes of one writer are read in the order in which it wrote them.
  std::uint64_t next[] = {0, 1000};
  for (const std::uint64_t number : a.read) EXPECT_EQ(number, next[number >= 1000]++);
}

TEST(StoreLog, ALostStoreIsSaidOnce) {
  boost::asio::io_context io;
  rendezvous::MemoryStore store;
  Reader node(io, store, 1);
  node.log.write({});
  while (node.read.empty()) {
    io.run_one();
    io.restart();
  }
  store.close("the service has ended");
  node.log.write({});
  while (node.lost.empty()) {
    io.run_one();
    io.restart();
  }
  EXPECT_NE(node.lost.find("the service has ended"), std::string::npos) << node.lost;
  EXPECT_EQ(io.poll(), 0U);
}

TEST(StoreLog, AnEntryThatIsNoNoteIsRefused) {
  boost::asio::io_context io;
  rendezvous::MemoryStore store;
  rendezvous::PrefixStore(store, "gen1/").set("pmix/notes/1", "garbage", Deadline::never());
  Reader node(io, store, 1);
  while (node.lost.empty()) {
    io.run_one();
    io.restart();
  }
  EXPECT_NE(node.lost.find("pmix/notes/1"), std::string::npos) << node.lost;
}

}  // namespace
}  // namespace dl::pmix
