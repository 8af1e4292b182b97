#include "collectives/mpi/core/collectives.h"

#include <algorithm>
#include <cstring>

#include "collectives/call/checks.h"
#include "collectives/call/recording.h"
#include "collectives/mpi/core/core.h"
#include "collectives/reduce/reduce.h"

namespace dl::collectives::mpi {
namespace {

using Stage = Collective::Stage;

// A reduction is done in slices, so that the unreduced shares of a slice fit the cache: this many
// bytes of all ranks' shares are summed at a time.
constexpr std::size_t kSliceBytes = 4 * 1024 * 1024;

// True if the announcement has room for what each rank gives.
bool is_inline(const Descriptor& d) noexcept {
  const OpRow& row = row_of(d.op);
  return row.input != Side::kEach && !row.is_v_variant() && d.count <= kInlineBytes &&
         d.count * size_of(d.dtype) <= kInlineBytes;
}

Descriptor descriptor_of(const Announcement& a) noexcept {
  return {.sequence = a.sequence,
          .count = a.count,
          .root = a.root,
          .op = a.op,
          .dtype = a.dtype,
          .reduce = a.reduce,
          .order = a.order};
}

std::vector<std::size_t> offsets_of(const std::vector<std::size_t>& counts, std::size_t element) {
  std::vector<std::size_t> offsets;
  offsets.reserve(counts.size());
  std::size_t at = 0;
  for (const std::size_t count : counts) {
    offsets.push_back(at);
    at += count * element;
  }
  return offsets;
}

}  // namespace

Collective::Collective(Ref<Core> core, const Call& call, std::chrono::nanoseconds time)
    : Operation(core, call, time),
      input(static_cast<const std::byte*>(call.input)),
      output(static_cast<std::byte*>(call.output)),
      has_pairs(call.row().is_v_variant()) {
  const OpRow& row = call.row();
  if (row.input == row.output && row.input != Side::kEach) return;
  const int rank = core->rank();
  const bool is_root = row.root != Root::kNone && rank == call.what.root;
  // A rank that shares its whole buffer with the root alone shares it with no other rank.
  const auto of_whole = [&](const PartsView& parts, Root shares_with_root, int r) {
    if (row.root != shares_with_root) return parts.count();
    return !is_root && r == call.what.root ? parts.count() : 0;
  };
  for (int r = 0; r < core->size(); ++r) {
    const std::size_t given = call.reads(rank) ? call.gives.count(r) : 0;
    const std::size_t taken = call.writes(rank) ? call.takes.count(r) : 0;
    send_counts.push_back(row.input == Side::kEach ? given : of_whole(call.gives, Root::kTakes, r));
    receive_counts.push_back(row.output == Side::kEach ? taken
                                                       : of_whole(call.takes, Root::kGives, r));
  }
}

std::string_view Collective::algorithm() const noexcept {
  if (is_inline(descriptor)) return "inline";
  return descriptor.op == OpKind::kBroadcast ? "mpi" : "direct";
}

void Collectives::submit(const Ref<Collective>& collective) {
  Descriptor& d = collective->descriptor;
  d.sequence = next_++;
  peers_.set_called(peers_.rank(), d.sequence);
  collective->slot = ledger_.log().enqueue(record_of(d, hash(d, 0)));
  queue_.push_back(collective);
  if (queue_.size() == 1) announce(*collective);
}

bool Collectives::advance() {
  if (queue_.empty() || !requests_.have_ended(queue_.front()->requests)) return false;
  if (go_on(*queue_.front())) return true;
  ledger_.end(queue_.front(), nullptr);
  queue_.pop_front();
  if (!queue_.empty()) announce(*queue_.front());
  return true;
}

void Collectives::announce(Collective& c) {
  const Descriptor& d = c.descriptor;
  ledger_.begin(c);
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
  requests_.all_gather(c.requests, &c.own, c.all.data(), sizeof c.own);
  c.stage = Stage::kAnnounced;
}

bool Collectives::go_on(Collective& c) {
  switch (c.stage) {
    case Stage::kQueued:
      announce(c);
      return true;
    case Stage::kAnnounced:
      agree(c);
      if (is_inline(c.descriptor)) {
        finish_inline(c);
        return false;
      }
      if (!c.has_pairs) return start_data(c);
      exchange_counts(c);
      return true;
    case Stage::kCompared:
      compare_counts(c);
      return start_data(c);
    case Stage::kMoving:
      return false;
    case Stage::kSharing:
      combine_slice(c);
      if (row_of(c.descriptor.op).scatters_sum()) return start_slice(c);
      spread_slice(c);
      return true;
    case Stage::kSpreading:
      return start_slice(c);
  }
  return false;
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
  c.told.resize(c.all.size());
  c.heard.resize(c.all.size());
  for (int r = 0; r < peers_.size(); ++r) {
    const auto i = static_cast<std::size_t>(r);
    c.told[i] = {c.send_counts[i], c.receive_counts[i]};
    if (r == peers_.rank()) continue;
    requests_.receive(c.requests, &c.heard[i], sizeof(PairCounts), r, kDataTag);
    requests_.send(c.requests, &c.told[i], sizeof(PairCounts), r, kDataTag);
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

bool Collectives::start_data(Collective& c) {
  const Descriptor& d = c.descriptor;
  if (row_of(d.op).reduces) return start_slice(c);
  c.stage = Stage::kMoving;
  if (d.op != OpKind::kBroadcast) {
    move_parts(c);
    return true;
  }
  requests_.broadcast(c.requests, c.output, d.count * size_of(d.dtype), d.root);
  return true;
}

void Collectives::move_parts(Collective& c) {
  const OpKind op = c.descriptor.op;
  const std::size_t element = size_of(c.descriptor.dtype);
  const bool is_whole_input = row_of(op).input == Side::kWhole;
  const bool is_whole_output = row_of(op).output == Side::kWhole;
  const std::vector<std::size_t> from = offsets_of(c.send_counts, element);
  const std::vector<std::size_t> to = offsets_of(c.receive_counts, element);
  // Every rank begins with its neighbour, so that not all ranks send to the same rank first.
  for (int step = 1; step < peers_.size(); ++step) {
    const int r = (peers_.rank() - step + peers_.size()) % peers_.size();
    const auto i = static_cast<std::size_t>(r);
    requests_.receive(c.requests, c.output + (is_whole_output ? 0 : to[i]),
                      c.receive_counts[i] * element, r, kDataTag);
  }
  for (int step = 1; step < peers_.size(); ++step) {
    const int r = (peers_.rank() + step) % peers_.size();
    const auto i = static_cast<std::size_t>(r);
    requests_.send(c.requests, c.input + (is_whole_input ? 0 : from[i]), c.send_counts[i] * element,
                   r, kDataTag);
  }
}

// Offset in bytes of a rank's part, from the slice's beginning (all_reduce, reduce) or from the
// input's.
std::size_t Collectives::slice_offset(const Collective& c, int rank) const noexcept {
  const std::size_t element = size_of(c.descriptor.dtype);
  std::size_t at = c.reduced;
  const std::vector<std::size_t>& parts =
      row_of(c.descriptor.op).scatters_sum() ? c.send_counts : c.slice;
  for (int r = 0; r < rank; ++r) at += parts[static_cast<std::size_t>(r)];
  return at * element;
}

bool Collectives::start_slice(Collective& c) {
  const Descriptor& d = c.descriptor;
  const auto ranks = static_cast<std::size_t>(peers_.size());
  const std::size_t element = size_of(d.dtype);
  const std::size_t most = std::max<std::size_t>(kSliceBytes / (element * ranks), 1);  // of a part
  if (!c.slice.empty()) {
    c.reduced += row_of(d.op).scatters_sum() ? most : std::min(most * ranks, d.count - c.reduced);
  }
  c.slice.assign(ranks, 0);
  std::size_t longest = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (row_of(d.op).scatters_sum()) {
      c.slice[r] = std::min(most, c.send_counts[r] - std::min(c.reduced, c.send_counts[r]));
    } else {
      const std::size_t left = std::min(most * ranks, d.count - c.reduced);
      c.slice[r] = left / ranks + (r < left % ranks ? 1 : 0);
    }
    longest = std::max(longest, c.slice[r]);
  }
  if (longest == 0) return false;
  const std::size_t bytes = c.slice[static_cast<std::size_t>(peers_.rank())] * element;
  c.scratch.resize(std::max(c.scratch.size(), bytes * ranks));
  for (int step = 1; step < peers_.size(); ++step) {
    const int r = (peers_.rank() - step + peers_.size()) % peers_.size();
    requests_.receive(c.requests, c.scratch.data() + static_cast<std::size_t>(r) * bytes, bytes, r,
                      kDataTag);
  }
  for (int step = 1; step < peers_.size(); ++step) {
    const int r = (peers_.rank() + step) % peers_.size();
    requests_.send(c.requests, c.input + slice_offset(c, r),
                   c.slice[static_cast<std::size_t>(r)] * element, r, kDataTag);
  }
  c.stage = Stage::kSharing;
  return true;
}

void Collectives::combine_slice(Collective& c) {
  const Descriptor& d = c.descriptor;
  const std::size_t count = c.slice[static_cast<std::size_t>(peers_.rank())];
  const std::size_t bytes = count * size_of(d.dtype);
  if (bytes == 0) return;
  const std::size_t at = slice_offset(c, peers_.rank());
  std::vector<const void*> shares;
  shares.reserve(c.all.size());
  for (int r = 0; r < peers_.size(); ++r) {
    shares.push_back(r == peers_.rank() ? c.input + at
                                        : c.scratch.data() + static_cast<std::size_t>(r) * bytes);
  }
  std::byte* to = nullptr;
  if (row_of(d.op).scatters_sum()) {
    to = c.output + c.reduced * size_of(d.dtype);
  } else if (d.op == OpKind::kAllReduce || peers_.rank() == d.root) {
    to = c.output + at;
  } else {
    // The sum takes the place of this rank's own share in scratch, which is in the input anyway,
    // and goes on to the root from there.
    to = c.scratch.data() + static_cast<std::size_t>(peers_.rank()) * bytes;
  }
  combine(d.dtype, d.reduce, to, shares, count, d.order);
}

void Collectives::spread_slice(Collective& c) {
  const Descriptor& d = c.descriptor;
  const std::size_t element = size_of(d.dtype);
  const std::size_t bytes = c.slice[static_cast<std::size_t>(peers_.rank())] * element;
  const bool is_to_all = d.op == OpKind::kAllReduce;
  for (int step = 1; step < peers_.size(); ++step) {
    const int r = (peers_.rank() - step + peers_.size()) % peers_.size();
    if (!is_to_all && peers_.rank() != d.root) break;
    requests_.receive(c.requests, c.output + slice_offset(c, r),
                      c.slice[static_cast<std::size_t>(r)] * element, r, kDataTag);
  }
  for (int step = 1; step < peers_.size(); ++step) {
    const int r = (peers_.rank() + step) % peers_.size();
    if (is_to_all) {
      requests_.send(c.requests, c.output + slice_offset(c, peers_.rank()), bytes, r, kDataTag);
    } else if (r == d.root) {
      requests_.send(c.requests, c.scratch.data() + static_cast<std::size_t>(peers_.rank()) * bytes,
                     bytes, r, kDataTag);
    }
  }
  c.stage = Stage::kSpreading;
}

}  // namespace dl::collectives::mpi
