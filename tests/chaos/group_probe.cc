// A rank of a job that one rank spoils, told by its arguments:
// clang-format off
//   throw RANK                it throws while the others wait for it in an all_reduce
//   differ RANK DIR           it calls something else, once the others have called their all_reduce
//   early RANK                it ends with 0 before the group is made
//   early RANK DIR            so, of a group that is made over a store in the folder
//   absent RANK SECONDS DIR   it never comes to that group, for which the others wait so long
//   unlike RANK WHAT DIR      it makes that group with another name, size or backend
//   twin RANK init|id DIR     it makes that group, or calls init, with the number of the rank before it
//   turned RANK DIR           it ends with 0 before a group in which the ranks have other numbers
//   reversed RANK DIR         so, but the numbers are not given
//   unnamed RANK              it calls init with another name
//   memory RANK               it allocates symmetric memory of another size
//   allocate RANK             it allocates symmetric memory, and the others call all_reduce
//   aborts RANK               it aborts a group of half the ranks, whose other ranks then end, and ends
//                             once it sees their ends in the group of all
//   caught RANK HOW           all catch a mismatch in another group; then it ends, by "kill", "throw",
//                             "leave" or "differ", while the others wait for it
//   killed RANK               so, and it is killed before any other call
//   uncaught RANK DIR         it calls something else in another group, and all know of that only
//                             after a barrier of theirs
//   leave RANK                it leaves with 0 while the others wait for it in a barrier
//   reset RANK WHICH          a connection of its group is reset, the first or the last that it has
//                             made, or all of them; or "closed": all are closed, and it waits for
//                             SIGTERM
//   slow SECONDS              all of them sum more than a slow line carries in so many seconds
// clang-format on
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "collectives/init/init.h"
#include "collectives/init/make_group.h"
#include "core/base/error.h"
#include "rendezvous/stores/file_store.h"
#include "tests/support/eventually.h"

namespace {

using namespace std::chrono_literals;

std::array<float, 1000> values{};

dl::Ref<dl::collectives::Work> all_reduce() {
  return dl::default_group()->all_reduce(
      {.input = values.data(), .output = values.data(), .count = values.size()});
}

// Ranks that wait for each other without a group.
void come(const std::string& folder) {
  std::ofstream(folder + "/" + std::to_string(dl::rank()));
}
bool have_come(const std::string& folder, int ranks) {
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(folder),
                         std::filesystem::directory_iterator());
  };
  return dl::tests::eventually([&] { return count() == ranks; });
}

int differ(bool is_odd, const std::string& folder) {
  if (!is_odd) {
    const auto work = all_reduce();
    come(folder);
    work->synchronize();
    return 0;
  }
  if (!have_come(folder, dl::world_size() - 1)) {
    std::fprintf(stderr, "group_probe: not all other ranks have called all_reduce\n");
    return 66;
  }
  dl::default_group()->barrier({})->synchronize();
  return 0;
}

// An all_reduce of another group, in which rank `odd` gives another count.
dl::Ref<dl::collectives::Work> unequal_all_reduce(dl::collectives::ProcessGroup& group, int odd) {
  const std::size_t count = dl::rank() == odd ? 5 : 6;
  return group.all_reduce({.input = values.data(), .output = values.data(), .count = count});
}

void catch_mismatch(dl::collectives::ProcessGroup& group, int odd) {
  try {
    unequal_all_reduce(group, odd)->synchronize();
  } catch (const dl::Error& error) {
    if (error.kind() == dl::ErrorKind::kMismatch) return;
    throw;
  }
  dl::throw_error(dl::ErrorKind::kInternal, "different counts fit");
}

// The mismatch is another rank's.
int caught(int odd, const std::string& how) {
  const auto world = dl::default_group();
  const auto group = world->split({});
  catch_mismatch(*group, (odd + 1) % dl::world_size());
  if (how != "killed") world->barrier({})->synchronize();
  if (dl::rank() == odd) {
    if (how == "kill" || how == "killed") ::raise(SIGKILL);
    if (how == "throw") dl::throw_error(dl::ErrorKind::kParse, "train.bin: a broken record");
    if (how == "leave") return 0;
    if (how == "differ") world->broadcast({.buffer = values.data(), .count = 1})->synchronize();
  }
  if (how == "killed") ::pause();
  all_reduce()->synchronize();
  return 0;
}

int uncaught(int odd, const std::string& folder) {
  const auto group = dl::default_group()->split({});
  const auto work = unequal_all_reduce(*group, odd);
  if (!dl::tests::eventually([&] { return work->is_completed(); })) return 66;
  dl::default_group()->barrier({})->synchronize();
  come(folder);
  if (!have_come(folder, dl::world_size())) return 66;
  work->synchronize();
  return 0;
}

// The connections of this process over TCP, but for those to the store.
std::vector<int> connections() {
  const std::string store = std::getenv("DLRUN_STORE");
  const int store_port = std::atoi(store.substr(store.rfind(':') + 1).c_str());
  std::vector<int> found;
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) continue;
    // sin6_port is in the same place.
    const int port = ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
    const bool is_tcp = address.ss_family == AF_INET || address.ss_family == AF_INET6;
    if (is_tcp && port != store_port) found.push_back(fd);
  }
  return found;
}

// The kernel tells both ends what a reset by something between them would.
int reset(bool is_here, const std::string& which) {
  dl::default_group()->barrier({})->synchronize();
  if (is_here) {
    const std::vector<int> all = connections();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (which == "closed") {
        if (::shutdown(all[i], SHUT_RDWR) != 0) return 65;
        continue;
      }
      if ((which == "first" && i > 0) || (which == "last" && i + 1 < all.size())) continue;
      sockaddr nothing{};
      nothing.sa_family = AF_UNSPEC;
      if (::connect(all[i], &nothing, sizeof nothing) != 0) return 65;
    }
    if (all.empty()) return 66;
    if (which == "closed") ::pause();
  }
  std::vector<float> much(1 << 20);
  for (int round = 0; round < 20; ++round) {
    dl::default_group()
        ->all_reduce({.input = much.data(), .output = much.data(), .count = much.size()})
        ->synchronize();
    // Messages go over a connection of their own.
    float value = 0;
    const int next = (dl::rank() + 1) % dl::world_size();
    const int before = (dl::rank() + dl::world_size() - 1) % dl::world_size();
    dl::default_group()
        ->sendrecv({.buffer = &value, .count = 1, .peer = next},
                   {.buffer = &value, .count = 1, .peer = before})
        ->synchronize();
  }
  return 0;  // it was a connection that nothing needed
}

int slow(int seconds) {
  std::vector<float> much(4 << 20);
  dl::default_group()
      ->all_reduce({.input = much.data(),
                    .output = much.data(),
                    .count = much.size(),
                    .call = {.timeout = std::chrono::seconds(seconds)}})
      ->synchronize();
  return 0;
}

void make_over_a_store(const std::string& folder, dl::MakeGroupOptions options) {
  dl::rendezvous::FileStore store(folder);
  options.store = &store;
  dl::make_group(options);
}

dl::UniqueId pass_id(const std::string& folder, int rank) {
  dl::rendezvous::FileStore store(folder);
  dl::UniqueId id;
  if (rank == 0) {
    id = dl::make_unique_id("");
    store.set("id", {reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size()},
              dl::detail::Deadline::never());
    return id;
  }
  const std::string bytes = store.get("id", dl::detail::Deadline::never());
  std::copy(bytes.begin(), bytes.end(), id.bytes.begin());
  return id;
}

int aborts(int odd) {
  const auto part = dl::default_group()->split({.color = dl::rank() % 2});
  if (dl::rank() == odd) part->abort("it gives up");
  if (dl::rank() % 2 == odd % 2 && dl::rank() != odd) part->barrier()->synchronize();
  dl::default_group()->barrier({})->synchronize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  const std::string what = argv[1];
  const int odd = std::atoi(argv[2]);
  const int rank = std::atoi(std::getenv("RANK"));
  const bool leaves = what == "early" || what == "turned" || what == "reversed";
  if (leaves && rank == odd) return 0;
  dl::MakeGroupOptions made{.rank = rank, .size = std::atoi(std::getenv("WORLD_SIZE"))};
  if (what == "early" && argc > 3) {
    make_over_a_store(argv[3], made);
    return 0;
  }
  if (what == "absent") {
    if (rank == odd) ::pause();
    made.timeout = std::chrono::seconds(std::atoi(argv[3]));
    make_over_a_store(argv[4], made);
    return 0;
  }
  if (what == "twin") {
    if (rank == odd) --made.rank;
    if (std::string(argv[3]) == "init") {
      dl::init_process_group({.rank = made.rank, .world_size = made.size});
    } else {
      made.id = pass_id(argv[4], rank);
      dl::make_group(made);
    }
    return 0;
  }
  if (what == "turned") {
    const int size = made.size;
    for (int r = 0; r < size; ++r) made.job_ranks.push_back((r + 1) % size);
    made.rank = (rank + size - 1) % size;
    make_over_a_store(argv[3], made);
    return 0;
  }
  if (what == "reversed") {
    made.rank = made.size - 1 - rank;
    make_over_a_store(argv[3], made);
    return 0;
  }
  if (what == "unnamed") {
    dl::init_process_group({.name = rank == odd ? "another" : "world"});
    return 0;
  }
  if (what == "unlike") {
    const std::string unlike = argv[3];
    if (rank == odd && unlike == "backend") made.backend = "tcp";
    if (rank == odd && unlike == "size") ++made.size;
    if (rank == odd && unlike == "name") made.name = "another";
    made.id = pass_id(argv[4], rank);
    dl::make_group(made);
    return 0;
  }
  dl::init_process_group();
  if (what == "memory") {
    const std::size_t bytes = dl::rank() == odd ? 4096 : 8192;
    dl::default_group()->allocate_symmetric(bytes);
    return 0;
  }
  if (what == "aborts") return aborts(odd);
  all_reduce()->synchronize();
  if (what == "allocate" && dl::rank() == odd) dl::default_group()->allocate_symmetric(4096);
  if (what == "differ") return differ(dl::rank() == odd, argv[3]);
  if (what == "reset") return reset(dl::rank() == odd, argv[3]);
  if (what == "slow") return slow(odd);
  if (what == "caught") return caught(odd, argv[3]);
  if (what == "killed") return caught(odd, what);
  if (what == "uncaught") return uncaught(odd, argv[3]);
  if (what == "leave" && dl::rank() == odd) return 0;
  if (what == "leave") dl::default_group()->barrier({})->synchronize();
  if (dl::rank() == odd) dl::throw_error(dl::ErrorKind::kParse, "train.bin: a broken record");
  all_reduce()->synchronize();
  return 0;
}
