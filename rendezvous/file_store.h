// FileStore: a Store in a directory that all processes of a job can reach, for `file://` and for
// machines where nobody can listen.
//
// One file a key, replaced by rename, so that readers need no lock and a killed writer leaves the
// old value or the new one. Writers hold flock() on `lock`, which the kernel gives up for a dead
// one. Waiting is polling (1 ms growing to 50 ms), since a shared file system notifies nobody.
// Works on local file systems, and on NFS mounted so that flock() reaches the server (Linux'
// default).
//
// The directory must belong to this user and be writable by nobody else: whoever can write there
// belongs to the job. It is made where it does not exist; use a new one, or a PrefixStore with the
// job's name, for each run. No FileStore knows whether it is the last one: its users count
// themselves under a key, and call remove_if().
//
// Thread-safety: any thread, any process. close() ends the calls of this object only.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "core/base/unique_fd.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

class FileStore final : public Store {
 public:
  // Throws kInvalidArgument where others could write to the directory, kIo where it cannot be made.
  explicit FileStore(std::string directory, std::chrono::nanoseconds speak_after = kSpeakAfter);

  void set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string get(std::string_view key, Deadline deadline) override;
  std::optional<std::string> try_get(std::string_view key, Deadline deadline) override;
  void wait(std::span<const std::string> keys, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) override;
  Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                       std::string_view desired, Deadline deadline) override;
  bool erase(std::string_view key, Deadline deadline) override;
  std::vector<Change> watch(std::string_view prefix, std::uint64_t since,
                            Deadline deadline) override;
  void close(std::string_view reason) noexcept override;

  // Removes the store's files if the key has this value, and the directory too if a FileStore made
  // it and nothing else is in it. A call of another process that waits for the lock meanwhile goes
  // on in a new, empty store. True if it removed them.
  bool remove_if(std::string_view key, std::string_view value, Deadline deadline);

 private:
  struct Record {
    std::string key;
    std::optional<std::string> value;  // nullopt: erased
    std::uint64_t version = 0;
  };

  void make_directory() const;
  void check_open();
  UniqueFd lock(int kind, std::string_view call, Deadline deadline);
  std::optional<Record> read_record(const std::string& name) const;
  std::optional<std::string> value_of(const std::string& key) const;
  std::uint64_t read_version() const;
  // Under the exclusive lock.
  void write_change(const std::string& key, const std::optional<std::string>& value);
  void write_file(const std::string& name, std::string_view content) const;
  // Calls `is_over` until it is true, the deadline passes (kTimeout with what `describe` says) or
  // the store is closed.
  void poll_until(Deadline deadline, const std::function<bool()>& is_over,
                  const std::function<std::string()>& describe);

  std::string directory_;
  std::chrono::nanoseconds speak_after_;
  std::mutex mutex_;
  std::condition_variable closing_;
  std::optional<std::string> closed_;
};

}  // namespace dl::rendezvous
