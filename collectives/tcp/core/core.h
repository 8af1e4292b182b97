// Core: one TCP group, which its callers, its operations and the engine share.
//
// Owns the group's parts, each of which knows only those before it: Membership, which never
// changes; Ledger, GroupStatus and News, for any thread; and the Driver, which moves the data. Only
// the thread that holds the engine's Role may use the Driver.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collectives/tcp/core/driver.h"
#include "collectives/tcp/core/engine.h"

namespace dl::collectives::tcp {

class Core final : public RefCounted {
 public:
  struct Options {
    std::string name = "world";
    std::uint64_t generation = 0;
    WaitPolicy policy{};
    std::shared_ptr<record::Recorder> recorder{};  // null: nothing is recorded
    bool reports_failures = true;
  };
  // `links`: of the engine that drives it.
  Core(Links& links, Mesh mesh, Options options);

  const Membership& group() const noexcept { return group_; }
  const GroupStatus& status() const noexcept { return status_; }
  std::exception_ptr gone_rank() const noexcept;
  News& news() noexcept { return news_; }
  // Throws if the group is broken and refuses the call.
  void throw_if_refused(const Descriptor& called);
  // Numbers the operation and hands it to the engine. `drive`: see Engine::post().
  void submit(Engine& engine, const Ref<Operation>& operation, bool drive);
  // Releases operations that are over, on the caller's thread.
  void release_finished();

  Driver& driver(const Role&) noexcept { return driver_; }

 private:
  const Membership group_;
  const std::uint64_t salt_;
  Ledger ledger_;
  GroupStatus status_;
  News news_;
  Driver driver_;

  Mutex mutex_;
  std::uint64_t next_collective_ DL_GUARDED_BY(mutex_) = 1;
  std::uint64_t next_message_ DL_GUARDED_BY(mutex_) = 1;
};

}  // namespace dl::collectives::tcp
