// BridgeOutput: writes the service's messages to dlrun as JSON lines. From these messages it knows
// whether a join waits for its generation, and whether dlrun has got its last message.
//
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/base/mutex.h"
#include "rendezvous/rendezvous.pb.h"

namespace dl::rendezvous {

class BridgeOutput {
 public:
  // `timeout`: for a generation to be complete; error texts name it.
  BridgeOutput(int fd, std::chrono::seconds timeout) : fd_(fd), timeout_(timeout) {}

  void put(const dlrun::rendezvous::ToNode& message);
  void put_error(std::string_view kind, const std::string& text);

  // Call it when dlrun's join is sent to the service.
  void begin_join();
  bool is_joining() const;
  // Call it when the deadline of a join has passed. The first call returns false: ask the service
  // which nodes are missing, and call it again if no answer comes. The second call writes the
  // error.
  bool end_late_join();
  // Call it when the service has named the missing nodes. Writes the error of a late join.
  void on_missing_named();

  // True if this node takes part in the job, as far as the service knows.
  bool is_part_of_job() const;
  // True if dlrun has got its last message: `refused` or `error`.
  bool has_told() const;
  // True if no further message can reach dlrun.
  bool is_over() const;

 private:
  std::string late_text() const DL_REQUIRES(mutex_);

  int fd_;
  std::chrono::seconds timeout_;
  mutable Mutex mutex_;
  bool joining_ DL_GUARDED_BY(mutex_) = false;  // a join is waiting for its generation
  // The join is late, and the service was asked which nodes are missing.
  bool asked_ DL_GUARDED_BY(mutex_) = false;
  bool running_ DL_GUARDED_BY(mutex_) = false;  // a generation is running
  bool told_ DL_GUARDED_BY(mutex_) = false;
  bool reader_gone_ DL_GUARDED_BY(mutex_) = false;
  std::string last_waiting_ DL_GUARDED_BY(mutex_);
};

}  // namespace dl::rendezvous
