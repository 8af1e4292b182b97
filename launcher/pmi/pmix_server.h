// PmixServer: serves PMIx to the ranks of one node, by the helper dlrun-pmix, which links libpmix.
// MPI_Init of Open MPI then knows rank and size, and finds the other ranks.
//
//   dlrun ── socket of PmixLine ── dlrun-pmix ── TCP on the loopback ── ranks
//                                      └─ the job's store ── dlrun-pmix of other nodes
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
  struct Job {
    std::string name;                      // of PMIx; no other generation has it
    int size = 1;                          // ranks of the job
    std::vector<int> apps = {1};           // ranks of each program, the first one's first
    std::vector<int> ranks = {0};          // of this node
    std::vector<std::string> directories;  // in which these ranks start; empty: it is not known
    // The files of this node's programs that dlrun may read. The MPI of a program may have a newer
    // libpmix.
    std::vector<std::string> programs;
    std::string host;
    int node = 0;
    int nodes = 1;
    bool others_go_on = false;       // when a rank fails
    bool is_oversubscribed = false;  // this node has more ranks than cores
    std::string iface;               // on which the ranks of several nodes meet; empty: they choose
    // How the helpers of several nodes reach each other.
    std::string store;
    std::string store_job;
    std::uint64_t generation = 0;
    const UniqueFd* key = nullptr;
  };
  // Starts the helper. Throws kIo.
  PmixServer(boost::asio::io_context& io, WardenClient& warden, Job job, Events events);
  PmixServer(const PmixServer&) = delete;
  PmixServer& operator=(const PmixServer&) = delete;

  void when_ready(std::function<void()> start) override;
  Part add(int rank) override;
  bool ended(int rank) override;
  std::map<int, rendezvous::Waiting> waits() const override;
  void finish(std::function<void()> done) override;

 private:
  static constexpr std::chrono::seconds kSilence{5};
  static constexpr std::size_t kLongestLine = 65536;

  struct Rank {
    std::vector<std::string> environment;
    bool is_here = false;
    bool connected = false;
    bool finalized = false;  // known of this node's ranks
    bool ended = false;      // of another node's ranks: without MPI_Finalize
    bool waits() const { return is_here && connected && !finalized && !ended; }
  };

  void start_helper();
  void take(std::string_view line);
  int number_of(const Rank& rank) const { return static_cast<int>(&rank - ranks_.data()); }
  void lose(const std::string& how);
  void helper_ended();
  void watch();
  void check_begin();

  boost::asio::io_context& io_;
  WardenClient& warden_;
  const Job job_;
  Events events_;
  PrivateFolder folder_;
  std::vector<Rank> ranks_;  // of the job
  std::unique_ptr<LineSocket> helper_;
  std::uint32_t slot_ = 0;
  UniqueFd alive_;  // the writing end of the pipe of kPmixRanksFd
  int added_ = 0;
  bool ready_ = false;
  bool lost_ = false;
  std::function<void()> start_;
  std::function<void()> done_;  // set: the helper is to end
  boost::asio::steady_timer timer_;
  // Shared, because the warden may report the helper's end when this object is gone.
  std::shared_ptr<bool> exists_ = std::make_shared<bool>(true);
};

}  // namespace dl::launcher
