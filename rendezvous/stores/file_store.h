// FileStore: a Store in a directory that all processes of a job can reach, for `file://` and for
// machines on which no process may listen.
//
// Each key has a file that is replaced by rename. So readers need no lock, and a killed writer
// leaves either the old value or the new one. Writers hold flock() on the file `lock`, which the
// kernel releases when its holder dies. Waiting is polling (1 ms growing to 50 ms), because a
// shared file system sends no notifications. It works on local file systems, and on NFS if flock()
// reaches the server (Linux' default).
//
// The directory must belong to this user and be writable by this user only: a process that can
// write there belongs to the job. It is created if it does not exist. Use a new one for each run,
// or a PrefixStore with the job's name. A FileStore does not know whether it is the last one. So
// its users count themselves under a key, and call remove_if().
//
// Thread-safety: any thread, any process. close() ends the calls of this object only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <optional>
#include <string>

#include "core/base/mutex.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/store.h"

namespace dl {
class UniqueFd;
}

namespace dl::rendezvous {

class FileStore final : public Store {
 public:
  // Throws kInvalidArgument if other users can write to the directory, kIo if it cannot be created.
  explicit FileStore(std::string directory, std::chrono::nanoseconds warn_after = kWarnAfter);

  void set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string get(std::string_view key, Deadline deadline) override;
  std::optional<std::string> try_get(std::string_view key, Deadline deadline) override;
  void wait(std::span<const std::string> keys, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) override;
  Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                       std::string_view desired, Deadline deadline) override;
  void close(std::string_view reason) noexcept override;

  // If the key has this value, removes the store's files; if a FileStore created the directory and
  // it contains nothing else, removes it too. Returns true if it removed them. A call of another
  // process that waits for the lock meanwhile continues in a new, empty store.
  bool remove_if(std::string_view key, std::string_view value, Deadline deadline);

 private:
  void make_directory() const;
  void check_open();
  UniqueFd lock(std::string_view call, Deadline deadline);
  std::optional<std::string> value_of(const std::string& key) const;
  // Under the lock.
  void write(const std::string& key, const std::string& value) const;
  // Calls `is_over` until it returns true. Throws kTimeout with the text of `describe` at the
  // deadline, and kAborted if the store is closed.
  void poll_until(Deadline deadline, const std::function<bool()>& is_over,
                  const std::function<std::string()>& describe);

  std::string directory_;
  std::chrono::nanoseconds warn_after_;
  Mutex mutex_;
  std::condition_variable closing_;
  std::optional<std::string> closed_ DL_GUARDED_BY(mutex_);
};

}  // namespace dl::rendezvous
