// KeyTable: the keys, values and waiting calls of a MemoryStore or of the rendezvous service. No
// call blocks; a wait is a callback.
//
// Thread-safety: any thread. Callbacks run without a lock, on the thread that made the change,
// closed the table, or asked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/mutex.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

class KeyTable {
 public:
  void set(std::string_view key, std::string_view value);
  std::optional<std::string> find(std::string_view key) const;
  std::int64_t add(std::string_view key, std::int64_t delta);
  Store::Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                              std::string_view desired);
  // Removes the keys for which `is_old` returns true, and which no running process asks for.
  void forget(const std::function<bool(std::string_view)>& is_old);
  std::vector<std::string> missing(const std::vector<std::string>& keys) const;

  // The result of a wait.
  struct Result {
    std::optional<std::string> closed;  // the reason, if the table was closed meanwhile
    std::string value;                  // when_value()
  };
  using Done = std::function<void(Result)>;
  using Ticket = std::uint64_t;

  // Each calls `done` once, maybe before it returns. A cancelled wait never calls it.
  Ticket when_value(std::string key, Done done);
  Ticket when_present(std::vector<std::string> keys, Done done);
  // Returns true if `done` will not be called; false if it was called or is being called now.
  bool cancel(Ticket ticket);

  // Ends all waits. Later calls throw kAborted, and later waits end at once.
  void close(std::string_view reason);

 private:
  struct Waiter {
    std::vector<std::string> keys;
    bool wants_value;  // of the only key
    Done done;
  };
  // Waits that have ended, with their results; the callbacks run after the lock is released.
  using Ended = std::vector<std::pair<Done, Result>>;

  void check_open() const DL_REQUIRES(mutex_);
  const std::string* value_of(const std::string& key) const DL_REQUIRES(mutex_);
  void change(const std::string& key, std::string value, Ended& ended) DL_REQUIRES(mutex_);
  Ticket wait(Waiter waiter);
  // The first key that is missing; null, with the result, if the wait is over.
  const std::string* missing_key(const Waiter& waiter, Result& result) const DL_REQUIRES(mutex_);
  static void tell(Ended& ended);

  mutable Mutex mutex_;
  std::unordered_map<std::string, std::string> values_ DL_GUARDED_BY(mutex_);
  std::map<Ticket, Waiter> waiters_ DL_GUARDED_BY(mutex_);
  std::unordered_multimap<std::string, Ticket> by_key_
      DL_GUARDED_BY(mutex_);  // a wait is listed under one missing key
  Ticket next_ticket_ DL_GUARDED_BY(mutex_) = 1;
  std::optional<std::string> closed_ DL_GUARDED_BY(mutex_);
};

}  // namespace dl::rendezvous
