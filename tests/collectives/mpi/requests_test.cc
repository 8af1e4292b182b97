#include "collectives/mpi/wire/requests.h"

#include <gtest/gtest.h>

#include <set>

#include "core/base/error.h"

namespace dl::collectives::mpi {
namespace {

// An MPI without peers: a receive ends if it has arrived or is cancelled.
struct State {
  Handle last = 0;
  std::set<Handle> open, arrived;
  bool refuses = false;
};
State state;

constexpr Handle kNull = 99;  // MPI_REQUEST_NULL of some MPIs is not 0

Module fake_module() {
  Module m{};
  m.version = kModuleVersion;
  m.library = "a fake";
  m.error_text = [](int, char* text, std::size_t) { text[0] = 0; };
  m.receive = [](void*, std::size_t, int, int, Handle, Handle* request) {
    if (state.refuses) return 1;
    state.open.insert(*request = ++state.last);
    return 0;
  };
  m.test = [](Handle* request, Ended* ended) {
    ended->is_ended = state.open.count(*request) == 0 || state.arrived.count(*request) > 0;
    if (!ended->is_ended) return 0;
    state.open.erase(*request);
    *request = kNull;
    return 0;
  };
  m.cancel = [](Handle request) {
    EXPECT_EQ(state.open.count(request), 1u);
    state.open.erase(request);
    return 0;
  };
  return m;
}

class MpiInbox : public ::testing::Test {
 protected:
  MpiInbox() { state = {}; }
  const Module fake = fake_module();
  Requests requests{fake, 0, "world"};
};

TEST_F(MpiInbox, CancelsItsReceiveAtItsEnd) {
  {
    const Inbox<int> inbox(requests, kNoteTag);
    EXPECT_EQ(state.open.size(), 1u);
  }
  EXPECT_TRUE(state.open.empty());
}

TEST_F(MpiInbox, CancelsItsReceiveOnce) {
  Inbox<int> inbox(requests, kNoteTag);
  inbox.cancel();
  EXPECT_TRUE(state.open.empty());
  inbox.cancel();
}

TEST_F(MpiInbox, CancelsNothingIfItsNextReceiveWasRefused) {
  Inbox<int> inbox(requests, kNoteTag);
  state.arrived.insert(state.last);
  state.refuses = true;
  EXPECT_THROW(inbox.take(), Error);
}

}  // namespace
}  // namespace dl::collectives::mpi
