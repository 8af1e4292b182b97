// Sends a signal to dlruns of this user on this host, and waits for their end.
//
// A dlrun is held by a pidfd from before it is looked at until it has ended, so a signal never
// reaches another process that has got its pid. A process that is no dlrun of this user gets none.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "launcher/jobs/choice.h"

namespace dl::launcher::jobs {

struct Outcome {
  enum class Is : std::uint8_t {
    kEnded,      // it has ended, with all of its ranks
    kSent,       // it has the signal, which does not end it
    kStillHere,  // it has the signal, and had not ended in time
    kFailed,     // it has no signal
  };
  std::string host;
  std::string id, name;
  pid_t pid = -1;
  Is is = Is::kFailed;
  double seconds = 0;  // from the signal to the end
  std::string text;    // a sentence
};

struct EndingOptions {
  int signal = 0;
  std::chrono::milliseconds patience{0};
  // Called every few seconds, with a sentence for each dlrun that has not ended.
  std::function<void(const std::string& text)> on_waiting;
};

// One outcome each, in their order.
std::vector<Outcome> end_here(const std::vector<Chosen>& chosen, const EndingOptions& options);

}  // namespace dl::launcher::jobs
