// Cleanup: the processes that the ranks of this node have left behind, and those that SIGKILL does
// not end.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agent/ending/lingering.h"
#include "launcher/agent/ending/overseers.h"
#include "launcher/agent/generation/generation.h"
#include "launcher/plan/plan.h"

namespace dl::launcher {

class Cleanup {
 public:
  // After SIGKILL: dlrun names a process that is still there after this time.
  static constexpr std::chrono::seconds kSilence{5};
  // After SIGKILL: dlrun ends without the process after this time.
  static constexpr std::chrono::seconds kMostKilling{30};

  // `say` shows a sentence to the user.
  Cleanup(boost::asio::io_context& io, const NodePlan& plan, const Generations& generations,
          const Overseers& overseers, std::function<void(const std::string&)> say);

  // linger() lets the processes that are left end by themselves, and calls `on_over` when `time`
  // has passed. sweep() ends them. Both return false if there is nothing to wait for: no rank was
  // started, or the supervisor is lost, and the ranks with it.
  bool linger(std::chrono::milliseconds time, std::function<void()> on_over);
  bool sweep(Leftovers order);
  // True from linger() until the next generation: all ranks have ended with 0.
  bool is_lingering() const { return lingering_.has_value(); }
  void end_generation() { lingering_.reset(); }
  // No process is left of the generation.
  void stop_lingering();
  // To be called before dlrun stops itself, and after it continues.
  void suspend();
  void resume();
  // Tells which processes still run, if dlrun waits for them.
  void report() const;

  // Continues a supervisor or a warden that is stopped, because it must end the ranks now.
  void wake_overseers() const;
  // Names the processes that SIGKILL has not ended within kSilence. Returns false if there are
  // none. Kills a supervisor or a warden that is stopped; the other one then ends the ranks.
  bool name_left() const;
  void give_up() { gave_up_ = true; }
  // To be called when the event loop has ended: ends every process that is left.
  void finish();
  // A line for each process that dlrun could not end.
  std::vector<std::string> left_behind() const;

 private:
  void end_stop_of_overseers(int signal, const char* what_dlrun_does) const;
  std::vector<std::string> who_is_left() const;

  boost::asio::io_context& io_;
  const NodePlan& plan_;
  const Generations& generations_;
  const Overseers& overseers_;
  std::function<void(const std::string&)> say_;
  std::optional<Lingering> lingering_;  // nullopt: some ranks may run
  bool gave_up_ = false;                // dlrun ends although processes are left
};

}  // namespace dl::launcher
