// ServiceSilence: measures how long the service has sent nothing. Time in which this process stood
// still does not count. Either thread of the bridge may be the first to run again after a
// standstill, so both call look().
//
// Thread-safety: any thread.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "rendezvous/membership/membership.h"
#include "rendezvous/membership/standstill.h"

namespace dl::rendezvous {

class ServiceSilence {
 public:
  explicit ServiceSilence(Silence silence)
      : silence_(silence), standstill_(silence.heartbeat_every(), silence.dead_after / 10) {}

  // Call begin() when the connection is made, and on_message() for each message.
  void begin();
  void on_message();
  void look();
  // True if the silence is so long that the service counts as lost.
  bool is_too_long() const;
  // How long this process stood still since the last call.
  Standstill::Span take_missed();
  // Adds to an error about this node that this process stood still, if it did.
  std::string with_standstill(std::string text) const;

 private:
  Silence silence_;
  mutable Mutex mutex_;
  Deadline::Clock::time_point heard_ DL_GUARDED_BY(mutex_);  // last message of the service
  Standstill standstill_ DL_GUARDED_BY(mutex_);
  Standstill::Span missed_ DL_GUARDED_BY(mutex_){0};
};

}  // namespace dl::rendezvous
