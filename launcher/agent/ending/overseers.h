// Overseers: the warden and the supervisor of a generation, as their agent sees them (warden.h has
// the tree of processes). If one of them is lost, the others end the ranks, and the job ends.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <optional>
#include <string>

#include "launcher/agent/ending/alarm.h"
#include "launcher/agent/generation/generation.h"
#include "launcher/process/warden/warden_client.h"

namespace dl::launcher {

class Overseers {
 public:
  struct Events {
    // The supervisor has ended as it was told, and no process of the generation is left.
    std::function<void()> on_swept;
    // The supervisor is gone and the generation has no process any more. The job cannot go on.
    std::function<void(const std::string& why)> on_supervisor_gone;
    // The warden is gone, and the supervisor kills the ranks.
    std::function<void(const std::string& why)> on_warden_gone;
  };
  // `alarm`: Ending's, for the processes that are left.
  Overseers(boost::asio::io_context& io, WardenHandle warden, const Generations& generations,
            Alarm& alarm, Events events);

  WardenClient& warden() { return warden_; }
  // False once the supervisor of the running generation is lost.
  bool has_supervisor() const { return !supervisor_is_lost_; }

  // To be called when the channel to the supervisor has closed too early.
  void lose_supervisor();
  // To be called when the supervisor says that the warden is dead.
  void lose_warden() { warden_.wait_for_end(); }
  // To be called when the job is over: nothing is reported any more.
  void end() { is_over_ = true; }

 private:
  void on_swept(int status);
  void on_no_supervisor(int error);
  void on_warden_gone(std::optional<int> status);
  void on_warden_late();
  void end_without_supervisor(const std::string& why);

  WardenClient warden_;
  const Generations& generations_;
  Alarm& alarm_;
  Events events_;
  bool supervisor_is_lost_ = false;
  bool warden_is_gone_ = false;
  bool is_over_ = false;
};

}  // namespace dl::launcher
