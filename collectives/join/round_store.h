// RoundStore: a Store for making one group, in which a set() is an exchange between all ranks.
//
// Every rank takes part in every exchange: a rank that sets nothing calls pass() instead. get()
// finds what the others have set. A group that consists of several inner groups makes one round for
// each, with one set() or pass() a rank. Other operations of Store throw kInternal. Used by one
// thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "rendezvous/store.h"

namespace dl::collectives {

class RoundStore : public rendezvous::Store {
 public:
  // `what` begins texts: "split".
  explicit RoundStore(std::string what) : what_(std::move(what)) {}

  void pass(Deadline deadline = Deadline::never()) { exchange({}, {}, deadline); }
  // Calls pass() for every earlier round without one; the first round is 0.
  void begin_round(int round, Deadline deadline = Deadline::never());
  void set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string get(std::string_view key, Deadline deadline) override;

  std::optional<std::string> try_get(std::string_view key, Deadline deadline) override;
  void wait(std::span<const std::string> keys, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) override;
  Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                       std::string_view desired, Deadline deadline) override;
  void close(std::string_view) noexcept override {}

 private:
  // Every rank's line.
  virtual std::vector<std::string> gather(const std::string& line, Deadline deadline) = 0;
  void exchange(std::string_view key, std::string_view value, Deadline deadline);
  [[noreturn]] void refuse(std::string_view call) const;

  const std::string what_;
  int round_ = 0;  // the round in which set() may take part
  int exchanged_ = 0;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace dl::collectives
