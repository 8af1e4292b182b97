// What a peer may send a TCP group: any bytes on its two connections end the operations under way,
// well or with an Error, and the group can be dropped. The first byte says how the rest is divided.
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/tcp/core/engine.h"
#include "collectives/tcp/group.h"
#include "core/base/error.h"
#include "core/base/log/log.h"

using namespace dl::collectives;

namespace {

struct Pair {
  dl::UniqueFd ours, theirs;
};

Pair make_pair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
    __builtin_trap();
  return {dl::UniqueFd(ends[0]), dl::UniqueFd(ends[1])};
}

void settle(const dl::Ref<Work>& work) {
  try {
    work->synchronize();
  } catch (const dl::Error&) {
  }
}

}  // namespace

// Every exception makes AddressSanitizer clear its second stacks, a seventh of the time.
extern "C" const char* __asan_default_options() {
  return "detect_stack_use_after_return=0";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dl::Ref<tcp::Engine> engine = [] {
    dl::log::set_level(dl::log::Level::kOff);
    return dl::make_ref<tcp::Engine>();
  }();
  if (size == 0) return 0;
  Pair bulk = make_pair();
  Pair side = make_pair();
  tcp::Mesh mesh{.rank = 0, .peers = std::vector<tcp::Mesh::Peer>(2)};
  mesh.peers[0].who = {.rank = 0, .host = "here", .pid = 1};
  mesh.peers[1].who = {.rank = 1, .host = "there", .pid = 2};
  mesh.peers[1].data.push_back(std::move(bulk.ours));
  mesh.peers[1].side = std::move(side.ours);

  std::vector<float> x(100);
  std::vector<float> y(20);
  std::vector<float> z(16'500);  // just too long to be sent without being asked for
  try {
    // This thread drives: two switches of threads an operation would take most of the time.
    const dl::Ref<ProcessGroup> group =
        dl::make_ref<tcp::Group>(engine, std::move(mesh), GroupOptions{.name = "fuzz"},
                                 WaitPolicy{.spin = std::chrono::seconds(1), .yields = true});
    const dl::Ref<Work> works[] = {
        group->all_reduce({.input = x.data(), .output = x.data(), .count = x.size()}),
        group->recv({.buffer = y.data(), .count = y.size(), .peer = 1, .tag = 7}),
        group->recv({.buffer = z.data(), .count = z.size(), .peer = 1, .tag = 8}),
        group->send({.buffer = z.data(), .count = z.size(), .peer = 1, .tag = 9})};
    const std::size_t cut = (size - 1) * data[0] / 255;
    static_cast<void>(::send(side.theirs.get(), data + 1, cut, MSG_NOSIGNAL));
    static_cast<void>(::send(bulk.theirs.get(), data + 1 + cut, size - 1 - cut, MSG_NOSIGNAL));
    bulk.theirs.reset();
    side.theirs.reset();
    for (const dl::Ref<Work>& work : works) settle(work);
  } catch (const dl::Error&) {
  }
  return 0;
}
