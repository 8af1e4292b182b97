// KeyTable: the keys, values, versions and waiting calls of a MemoryStore or of the rendezvous
// service. No call blocks; a wait is a callback.
//
// Each change gets the next version. An erased key leaves a mark, so that a watch hears of the
// erasure. Only the last 65,536 marks are kept. A watch that asks for changes before these throws
// and must begin again.
//
// Thread-safety: any thread. Callbacks run without a lock, on the thread that made the change,
// closed the table, or asked.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
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
  bool erase(std::string_view key);
  // Removes the keys for which `is_old` returns true, without leaving marks. For keys that no
  // running process asks for.
  void forget(const std::function<bool(std::string_view)>& is_old);
  std::vector<std::string> missing(const std::vector<std::string>& keys) const;

  // The result of a wait.
  struct Result {
    std::optional<std::string> closed;   // the reason, if the table was closed meanwhile
    std::string value;                   // when_value()
    std::vector<Store::Change> changes;  // when_changed()
  };
  using Done = std::function<void(Result)>;
  using Ticket = std::uint64_t;

  // Each calls `done` once, maybe before it returns. A cancelled wait never calls it.
  Ticket when_value(std::string key, Done done);
  Ticket when_present(std::vector<std::string> keys, Done done);
  // Throws kInvalidArgument if changes after `since` have been forgotten.
  Ticket when_changed(std::string prefix, std::uint64_t since, Done done);
  // Returns true if `done` will not be called; false if it was called or is being called now.
  bool cancel(Ticket ticket);

  // Ends all waits. Later calls throw kAborted, and later waits end at once.
  void close(std::string_view reason);
  bool is_closed() const;

 private:
  struct Entry {
    std::optional<std::string> value;  // nullopt: erased
    std::uint64_t version = 0;
  };
  enum class Kind : std::uint8_t { kValue, kPresent, kChanged };
  struct Waiter {
    Kind kind;
    std::vector<std::string> keys;  // kChanged: the prefix
    std::uint64_t since;
    Done done;
  };
  // Waits that have ended, with their results; the callbacks run after the lock is released.
  using Ended = std::vector<std::pair<Done, Result>>;

  void check_open() const DL_REQUIRES(mutex_);
  const std::string* value_of(const std::string& key) const DL_REQUIRES(mutex_);
  void change(const std::string& key, std::optional<std::string> value, Ended& ended)
      DL_REQUIRES(mutex_);
  void forget_old_marks() DL_REQUIRES(mutex_);
  Ticket wait(Waiter waiter);
  // Returns true, with the result, if the wait is over. Otherwise sets `blocking` to the key for
  // which it waits, if there is one.
  bool is_over(const Waiter& waiter, Result& result, const std::string*& blocking) const
      DL_REQUIRES(mutex_);
  static void tell(Ended& ended);

  mutable Mutex mutex_;
  std::unordered_map<std::string, Entry> entries_ DL_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::string> by_version_
      DL_GUARDED_BY(mutex_);                             // the last change of each key
  std::set<std::uint64_t> marks_ DL_GUARDED_BY(mutex_);  // versions of erasures
  std::uint64_t version_ DL_GUARDED_BY(mutex_) = 0;
  std::uint64_t forgotten_ DL_GUARDED_BY(mutex_) = 0;  // the newest erasure that was forgotten
  std::map<Ticket, Waiter> waiters_ DL_GUARDED_BY(mutex_);
  std::unordered_multimap<std::string, Ticket> by_key_
      DL_GUARDED_BY(mutex_);  // a wait is listed under one missing key
  std::vector<Ticket> watchers_ DL_GUARDED_BY(mutex_);
  Ticket next_ticket_ DL_GUARDED_BY(mutex_) = 1;
  std::optional<std::string> closed_;
};

}  // namespace dl::rendezvous
