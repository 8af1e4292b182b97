// PmixServer: serves PMIx to the ranks of one node, by the helper dlrun-pmix, which links libpmix.
// MPI_Init of Open MPI then knows rank and size, and finds the other ranks.
//
//   dlrun ── socket of PmixLine ── dlrun-pmix ── TCP on the loopback ── ranks
//
// All files of the helper and of the ranks are in one private folder, which is removed at the end:
// here, or by the helper if dlrun is killed.
//
// WardenClient and io_context must outlive all calls, except the destructor.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/system/unique_fd.h"
#include "launcher/pmi/lines/line_socket.h"
#include "launcher/pmi/lines/pmix_line.h"
#include "launcher/pmi/mpi_server.h"
#include "launcher/process/warden/warden_client.h"
#include "rendezvous/first_cause/first_cause.h"

namespace dl::launcher {

// The helper's file, in the folder of dlrun. It is missing if dlrun was built without libpmix.
std::string pmix_helper();

class PrivateFolder {
 public:
  // Throws kIo.
  PrivateFolder();
  ~PrivateFolder() { remove(); }
  PrivateFolder(const PrivateFolder&) = delete;
  PrivateFolder& operator=(const PrivateFolder&) = delete;

  const std::string& name() const { return name_; }
  void remove() noexcept;

 private:
  std::string name_;
};

class PmixServer : public MpiServer {
 public:
  // A job on one node, whose ranks are 0 to size - 1.
  struct Job {
    std::string name;  // no other generation has it
    int size = 1;
    std::string host;
  };
  // Starts the helper. Throws kIo.
  PmixServer(boost::asio::io_context& io, WardenClient& warden, const Job& job, Events events);
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  void when_ready(std::function<void()> start) override;
  Part add(int rank) override;
  void ended(int rank, bool others_go_on) override;
  std::map<int, rendezvous::Waiting> waits(
      const std::function<bool(int rank)>& is_gone) const override;
  void finish(std::function<void()> done) override;

 private:
  static constexpr std::chrono::seconds kSilence{5};
  static constexpr std::size_t kLongestLine = 65536;

  struct Rank {
    std::vector<std::string> environment;
    bool connected = false;
    bool finalized = false;
    bool ended = false;
  };

  void take(std::string_view line);
  void lose(const std::string& how);
  void helper_ended();
  void watch();
  void check_begin();

  WardenClient& warden_;
  Events events_;
  PrivateFolder folder_;
  std::vector<Rank> ranks_;
  std::unique_ptr<LineSocket> helper_;
  std::uint32_t slot_ = 0;
  UniqueFd alive_;  // the writing end of the pipe of kPmixRanksFd
  int added_ = 0;
  bool ready_ = false;
  bool lost_ = false;
  bool others_go_on_ = false;
  std::function<void()> start_;
  std::function<void()> done_;  // set: the helper is to end
  boost::asio::steady_timer timer_;
  // Shared, because the warden may report the helper's end when this object is gone.
  std::shared_ptr<bool> exists_ = std::make_shared<bool>(true);
};

}  // namespace dl::launcher
