// The class behind make_hybrid_group(): checks arguments, finds the route, submits operations to
// its Core. Used by make_hybrid_group() and tests; users see ProcessGroup.
#pragma once

#include <functional>

#include "collectives/api/process_group.h"
#include "collectives/hybrid/core.h"
#include "collectives/hybrid/hybrid_group.h"
#include "collectives/tcp/tcp_group.h"

namespace dl::collectives::hybrid {

class Group final : public ProcessGroup {
 public:
  // `how`: also used for the groups that split() makes.
  Group(Ref<Core> core, Places places, GroupOptions how)
      : ProcessGroup(core->all().rank(), core->all().size(), std::string(core->all().name()),
                     "hybrid", std::string(core->all().plan())),
        core_(std::move(core)),
        places_(std::move(places)),
        how_(std::move(how)) {}

  Ref<Work> start(const Call& call) override;

  Ref<ProcessGroup> split(const SplitOptions& options) override;
  Ref<SymmetricMemory> allocate_symmetric(std::size_t bytes) override;

  void abort(std::string_view reason) noexcept override;
  std::exception_ptr error() const noexcept override { return core_->error(); }
  std::exception_ptr gone_rank() const override { return core_->all().gone_rank(); }
  int rank_in_job() const noexcept override { return how_.in_job(); }
  Identity identity(int rank) const override { return core_->all().identity(rank); }
  void fail(const std::exception_ptr& cause,
            std::optional<std::uint64_t> completes_until) noexcept override {
    core_->fail(cause_of(cause), {}, completes_until);
  }

 private:
  ~Group() override { core_->stop(); }
  // Calls the TCP group of all ranks. The result is over when all earlier operations are as well.
  Ref<Work> pass_on(const Call& call);

  Ref<Core> core_;
  const Places places_;
  const GroupOptions how_;
  std::uint64_t next_split_ = 1;
};

// Makes the TCP group of all ranks first, then the others. Before each of the others it calls
// `begin_round` with numbers from 1 to kRounds - 1, the same on all ranks.
inline constexpr int kRounds = 4;
Ref<ProcessGroup> make_group(const GroupOptions& options,
                             const std::function<void(int)>& begin_round);

}  // namespace dl::collectives::hybrid
