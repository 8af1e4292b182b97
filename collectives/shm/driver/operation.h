// Pending: the PendingWork of a ShmGroup. Operation: a Pending that is a collective. Message: a
// Pending that is a send or a receive.
//
// The Group makes it. It keeps alive the Core, which drives it (core/operation.cc).
#pragma once

#include <optional>

#include "collectives/shm/protocol/transfer.h"
#include "collectives/shm/segment/memories.h"
#include "collectives/waiting/pending/pending_work.h"

namespace dl::collectives::shm {

class Core;

class Pending : public PendingWork {
 public:
  // The wait begins when the operation is first found waiting.
  Pending(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout) noexcept;

  void synchronize(std::optional<std::chrono::nanoseconds> timeout) override;
  bool is_completed() const noexcept override;
  std::exception_ptr error() const noexcept override;
  void watch(Ref<Alarm> alarm) override;

 protected:
  ~Pending() override = default;

 private:
  Ref<Core> core_;
};

class Operation final : public Pending {
 public:
  Operation(Ref<Core> core, const Call& call, std::chrono::nanoseconds timeout);

  // Empty until the operation is over: the ranks may still have to agree on the path.
  std::string_view algorithm() const noexcept override {
    return is_over() ? name_of(transfer.plan.path) : std::string_view();
  }
  bool has_owner() const noexcept override { return Pending::has_owner() || memory; }

  // Driver. ---------------------------------------------------------------------------------------
  Transfer transfer;
  // The symmetric memory that contains the buffer other ranks may access, if any. Set before the
  // operation is queued.
  Ref<Mapped> memory{};
};

class Message final : public MessageOf<Pending> {
 public:
  using MessageOf::MessageOf;
};

}  // namespace dl::collectives::shm
