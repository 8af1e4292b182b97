// Decides whether a failed job restarts: the rule alone, without processes or clocks. dlrun uses it
// for a job of one node, and the rendezvous service for a job of several, so that all nodes do the
// same.
//
// One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>

namespace dl::rendezvous {

// What the failure of a rank means for the others (--on-failure).
enum class OnFailure : std::uint8_t {
  kStop,  // they are ended
  kKeep,  // they live on
};

// How a generation failed.
struct Failure {
  int exit_code = 1;      // as a shell returns it: 128+n for signal n
  bool is_final = false;  // a node ends the job: Ctrl-C, a program that cannot be started, ...
  std::chrono::milliseconds ran{0};  // time from the request to start all ranks to the failure
};

struct Restart {
  bool again = false;
  std::chrono::milliseconds delay{0};  // before the next generation begins
  int number = 0;                      // of this restart, from 1
  int most = 0;                        // --max-restarts
};

class RestartPolicy {
 public:
  // `most`: --max-restarts, for the whole job.
  explicit RestartPolicy(int most = 0) : most_(most) {}

  // Does not restart after exit code 2, which usually means bad usage, nor after 126 and 127, which
  // shells return for a program that they cannot run. The third failure in a row that comes within
  // kQuick of its start delays the next restart by 1 s, the fourth by 2 s, and further ones by 4 s.
  Restart decide(const Failure& failure);
  int most() const { return most_; }

  static constexpr std::chrono::seconds kQuick{5};

 private:
  int most_;
  int used_ = 0;
  int quick_ = 0;  // failures in a row
};

}  // namespace dl::rendezvous
