// The class behind make_shm_group(): checks arguments, makes operations, submits them to its Core.
// Used by make_shm_group() and tests; users see ProcessGroup.
#pragma once

#include "collectives/api/process_group.h"
#include "collectives/shm/core/core.h"
#include "collectives/shm/shm_group.h"

namespace dl::collectives::shm {

class Group final : public ProcessGroup {
 public:
  // `how`: also used for the groups that split() makes.
  Group(Ref<Core> core, const GroupOptions& how)
      : ProcessGroup(core->rank(), core->size(), std::string(core->name()), "shm"),
        core_(std::move(core)),
        how_(how) {
    forget_connecting(how_);
    how_.engine = nullptr;
  }

  Ref<Work> start(const Call& call) override;

  Ref<ProcessGroup> split(const SplitOptions& options) override;
  Ref<SymmetricMemory> allocate_symmetric(std::size_t bytes) override;
  Ref<SymmetricMemory> register_symmetric(void* data, std::size_t bytes,
                                          Ref<RefCounted> owner) override;
  // allocate_symmetric() for operations of this group and of `other`, a group of the same ranks in
  // the same order that allocates no symmetric memory of its own.
  Ref<SymmetricMemory> allocate_with(const Group& other, std::size_t bytes);

  void abort(std::string_view reason) noexcept override { core_->abort(reason); }
  std::exception_ptr error() const noexcept override { return core_->error(); }
  std::exception_ptr gone_rank() const override { return core_->gone_rank(); }
  int rank_in_job() const noexcept override { return how_.in_job(); }
  Identity identity(int rank) const override { return core_->identity(rank); }
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> completes_until) noexcept override {
    core_->fail(cause_of(cause), completes_until);
  }
  // For a hybrid group that contains this group: how many collectives this rank has called.
  std::uint64_t calls() const noexcept { return core_->calls(); }

 private:
  ~Group() override { core_->stop(); }
  // allocate.cc
  Ref<SymmetricMemory> allocate_symmetric(std::size_t bytes, std::vector<Ref<Memories>> known_in);
  template <typename MakeOwn>
  Ref<Mapped> share(std::int32_t call, std::size_t bytes, const MakeOwn& make_own,
                    Ref<RefCounted> owner, std::string& why);

  Ref<Core> core_;
  GroupOptions how_;
  std::atomic<std::uint64_t> next_split_{1};
  std::atomic<std::uint32_t> next_memory_{1};
};

// make_shm_group() for two ranks or more, for a hybrid group that contains this group.
Ref<Group> make_group(const GroupOptions& options);

}  // namespace dl::collectives::shm
