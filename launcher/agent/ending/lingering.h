// Lingering: the time in which processes that ranks have left behind may end by themselves, after
// all ranks of the node have ended with 0. It tells the user which processes still run, and which
// ones are ended when the time has passed.
//
// One thread. All constructor arguments must outlive it.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace dl::launcher {

// A process that a rank has left behind.
struct Leftover {
  pid_t pid = -1;
  std::string name;
  int rank = -1;  // -1: not known
};

// The processes that are left of a node's ranks, if all of them have ended. `ranks`: the number of
// each rank by its process id. `job`: DLRUN_JOB_ID.
std::vector<Leftover> find_leftovers(std::map<pid_t, int> ranks, const std::string& job);

// "rank 0 has ended; its process 4711 (rsync) still runs"
std::string still_runs(const std::vector<Leftover>& left);
// "process 4711 (rsync), which rank 0 left behind, is ended"
std::string is_ended(const std::vector<Leftover>& left);

class Lingering {
 public:
  struct Events {
    std::function<std::vector<Leftover>()> find;
    std::function<void(const std::string&)> on_sentence;
    std::function<void()> on_over;  // the time has passed
  };
  Lingering(boost::asio::io_context& io, std::chrono::milliseconds time, Events events);

  // Starts the time. Calls on_over() at once if there is none.
  void begin();
  // Tells which processes still run, if any does.
  void report() const;
  // To be called before dlrun stops itself, and after it continues: that time does not count.
  void suspend();
  void resume();
  // To be called when the processes that are left will be ended: stops, and tells which ones.
  void end();
  void stop();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kSilence{1};

  void wait();

  std::chrono::milliseconds time_;
  Events events_;
  boost::asio::steady_timer timer_;
  Clock::duration left_{0};  // of the time, when the timer was set or the job was suspended
  Clock::time_point since_;  // when the timer was set
  bool said_ = false;
  bool is_over_ = false;  // the time has passed
  bool stopped_ = false;
};

}  // namespace dl::launcher
