// BridgeOutput: the service's messages to dlrun as JSON lines. From them it knows whether a join
// waits for its generation, and whether dlrun has got its last message.
//
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <optional>
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

  // dlrun's join goes to the service.
  void begin_join();
  bool is_joining() const;
  // To be called when the time of a join has passed. Returns false the first time: the service is
  // to be asked which nodes are missing. Then the error is put.
  bool end_late_join();
  // To be called when the service has named the missing nodes: puts the error of a late join.
  void on_missing_named();

  // True if the service does not know yet that this node's part is over.
  bool is_part_of_job() const;
  // True if dlrun has got its last message: refused or error.
  bool has_told() const;
  // True if nothing more can be said to dlrun.
  bool is_over() const;

 private:
  std::string late_text() const DL_REQUIRES(mutex_);

  int fd_;
  std::chrono::seconds timeout_;
  mutable Mutex mutex_;
  bool joining_ DL_GUARDED_BY(mutex_) = false;  // a join is waiting for its generation
  // The join is late, and the service was asked for the missing nodes.
  bool asked_ DL_GUARDED_BY(mutex_) = false;
  bool running_ DL_GUARDED_BY(mutex_) = false;  // a generation is running
  bool told_ DL_GUARDED_BY(mutex_) = false;
  bool reader_gone_ DL_GUARDED_BY(mutex_) = false;
  std::string last_waiting_ DL_GUARDED_BY(mutex_);
};

}  // namespace dl::rendezvous
