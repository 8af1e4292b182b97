#include "collectives/mpi/core/collectives.h"

#include <algorithm>
#include <cstring>

#include "collectives/call/checks.h"
#include "collectives/call/recording.h"
#include "collectives/reduce/reduce.h"

namespace dl::collectives::mpi {
namespace {

using Stage = Collective::Stage;

Descriptor descriptor_of(const Announcement& a) noexcept {
  return {.sequence = a.sequence,
          .count = a.count,
          .root = a.root,
          .op = a.op,
          .dtype = a.dtype,
          .reduce = a.reduce,
          .order = a.order};
}

}  // namespace

void Collectives::submit(const Ref<Collective>& collective, const Call& call,
                         const Choices& choices) {
  Descriptor& d = collective->descriptor;
  d.sequence = next_++;
  peers_.set_called(peers_.rank(), d.sequence);
  collective->slot = ledger_.log().enqueue(record_of(d, hash(d, 0)));
  queue_.push_back(collective);
  // The announcement travels while this rank plans.
  if (queue_.size() == 1) announce(*collective);
  collective->plan(call, choices, peers_.rank(), peers_.size(), requests_);
  if (queue_.size() == 1) ledger_.begin(*collective);
}

bool Collectives::advance() {
  if (queue_.empty()) return false;
  Collective& c = *queue_.front();
  if (c.stage == Stage::kMoving) {
    const bool moved = c.traffic->advance(requests_);
    if (!c.traffic->is_over()) return moved;
  } else {
    if (!requests_.have_ended(c.requests)) return false;
    begin_next_stage(c);
    if (c.traffic) return true;
  }
  Ref<Collective> over = std::move(queue_.front());
  queue_.pop_front();
  ledger_.end(std::move(over), nullptr);
  if (queue_.empty()) return true;
  announce(*queue_.front());
  ledger_.begin(*queue_.front());
  return true;
}

void Collectives::announce(Collective& c) {
  const Descriptor& d = c.descriptor;
  c.own = {.sequence = d.sequence,
           .count = d.count,
           .root = d.root,
           .op = d.op,
           .dtype = d.dtype,
           .reduce = d.reduce,
           .order = d.order,
           .payload = {}};
  const bool has_payload = d.op != OpKind::kBroadcast || peers_.rank() == d.root;
  if (is_inline(d) && d.op != OpKind::kBarrier && d.count > 0 && has_payload) {
    std::memcpy(c.own.payload, c.input, d.count * size_of(d.dtype));
  }
  c.all.resize(static_cast<std::size_t>(peers_.size()));
  c.requests.push_back(requests_.all_gather(&c.own, c.all.data(), sizeof c.own));
}

void Collectives::begin_next_stage(Collective& c) {
  if (c.stage == Stage::kAnnounced) {
    agree(c);
    if (!c.traffic) return finish_inline(c);
    if (!c.told.empty()) return exchange_counts(c);
  } else {
    compare_counts(c);
  }
  c.stage = Stage::kMoving;
}

void Collectives::agree(const Collective& c) {
  for (int r = 0; r < peers_.size(); ++r) {
    const Descriptor theirs = descriptor_of(c.all[static_cast<std::size_t>(r)]);
    peers_.set_called(r, theirs.sequence);
    if (theirs == c.descriptor) continue;
    throw Disagreement{
        cause_about(c.descriptor, ErrorKind::kMismatch,
                    mismatch_text(theirs, peers_.name(r), c.descriptor, peers_.name(peers_.rank())),
                    Blame::kMismatch, peers_.at(r).who.in_job())};
  }
}

void Collectives::finish_inline(Collective& c) {
  const Descriptor& d = c.descriptor;
  const std::size_t bytes = d.count * size_of(d.dtype);
  const bool has_result =
      (d.op != OpKind::kReduce && d.op != OpKind::kGather) || peers_.rank() == d.root;
  if (d.op == OpKind::kBarrier || bytes == 0 || !has_result) return;
  if (row_of(d.op).reduces) {
    std::vector<const void*> shares;
    shares.reserve(c.all.size());
    for (const Announcement& a : c.all) shares.push_back(a.payload);
    combine(d.dtype, d.reduce, c.output, shares, d.count, d.order);
  } else if (d.op == OpKind::kBroadcast) {
    std::memcpy(c.output, c.all[static_cast<std::size_t>(d.root)].payload, bytes);
  } else {
    for (std::size_t r = 0; r < c.all.size(); ++r) {
      std::memcpy(c.output + r * bytes, c.all[r].payload, bytes);
    }
  }
}

void Collectives::exchange_counts(Collective& c) {
  c.heard.resize(c.all.size());
  for (int r = 0; r < peers_.size(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (r == peers_.rank()) continue;
    c.requests.push_back(requests_.receive(&c.heard[i], sizeof(PairCounts), r, kDataTag));
    c.requests.push_back(requests_.send(&c.told[i], sizeof(PairCounts), r, kDataTag));
  }
  c.stage = Stage::kCompared;
}

void Collectives::compare_counts(const Collective& c) const {
  for (int r = 0; r < peers_.size(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    if (r == peers_.rank()) continue;
    compare_part(c, r, c.heard[i].sends, peers_.rank(), c.told[i].expects);
    compare_part(c, peers_.rank(), c.told[i].sends, r, c.heard[i].expects);
  }
}

void Collectives::compare_part(const Collective& c, int from, std::uint64_t sent, int to,
                               std::uint64_t expected) const {
  if (sent == expected) return;
  const int blamed = from == peers_.rank() ? to : from;
  throw GroupError(cause_about(
      c.descriptor, ErrorKind::kMismatch,
      part_mismatch_text(c.descriptor, peers_.name(from), sent, peers_.name(to), expected),
      Blame::kMismatch, peers_.at(blamed).who.in_job()));
}

}  // namespace dl::collectives::mpi
