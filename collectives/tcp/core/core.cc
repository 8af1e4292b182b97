#include "collectives/tcp/core/core.h"

#include <utility>

#include "collectives/call/recording.h"

namespace dl::collectives::tcp {
namespace {

Membership membership_of(const Mesh& mesh, Core::Options& options) {
  Membership group{.name = std::move(options.name),
                   .generation = options.generation,
                   .rank = mesh.rank,
                   .ranks = {},
                   .policy = options.policy,
                   .reports_failures = options.reports_failures};
  for (const Mesh::Peer& peer : mesh.peers) group.ranks.push_back(peer.who);
  return group;
}

}  // namespace

Core::Core(Links& links, Mesh mesh, Options options)
    : group_(membership_of(mesh, options)),
      salt_(hash_of_group(group_.name, group_.generation)),
      ledger_(options.recorder, {.name = group_.name,
                                 .backend = "tcp",
                                 .generation = group_.generation,
                                 .rank = group_.rank,
                                 .size = group_.size()}),
      status_(group_.name, group_.self(), ledger_.log(), group_.reports_failures),
      driver_(group_, status_, ledger_, news_, links, std::move(mesh)) {
  ledger_.set_status(status_);
}

std::exception_ptr Core::gone_rank() const noexcept {
  return status_.is_in_child() ? nullptr : news_.gone_rank();
}

void Core::throw_if_refused(const Descriptor& called) {
  if (!status_.error()) return;
  // Take no lock in a forked child: one that another thread held is never released.
  if (status_.is_in_child()) status_.throw_if_broken();
  const Lock lock(mutex_);
  status_.throw_if_refused(called, next_collective_);
}

void Core::submit(Engine& engine, const Ref<Operation>& operation, bool drive) {
  // Check before taking any lock: in a forked child, a lock that another thread held is never
  // released.
  if (status_.is_in_child()) status_.throw_if_broken();
  ledger_.release();
  Descriptor& d = operation->descriptor;
  const profiler::Span span = call_span(d);
  const Lock lock(mutex_);
  status_.throw_if_refused(d, next_collective_);
  const bool is_message = row_of(d.op).is_message;
  d.sequence = is_message ? next_message_++ : next_collective_++;
  operation->hash = hash(d, salt_);
  // Messages are numbered by each rank alone, so their hash means nothing to other ranks.
  operation->slot = ledger_.log().enqueue(
      is_message ? record_of(d, 0, static_cast<const Message&>(*operation).peer)
                 : record_of(d, operation->hash));
  // Post under the lock, so that the inbox keeps the order of the sequence numbers.
  engine.post(
      {.kind = Engine::Request::Kind::kStart, .core = Ref<Core>(this), .operation = operation},
      drive);
}

void Core::release_finished() {
  if (!status_.is_in_child()) ledger_.release();
}

}  // namespace dl::collectives::tcp
