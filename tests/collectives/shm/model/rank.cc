#include "tests/collectives/shm/model/rank.h"

#include <array>
#include <limits>
#include <vector>

namespace dl::collectives::shm {

std::size_t given(const Call& call, int from, int to) noexcept {
  const auto times = [&](int turn) { return call.count * static_cast<std::size_t>(turn * 2 % 3); };
  switch (call.op) {
    case OpKind::kAllGatherv:
    case OpKind::kGatherv:
      return times(from);
    case OpKind::kReduceScatterv:
    case OpKind::kScatterv:
      return times(to);
    case OpKind::kAllToAllv:
      return times(2 * from + to);
    default:
      return call.count;
  }
}

namespace model {
namespace {

// As the group makes them of a call's options (group.cc).
void set_parts(Transfer& op, const Call& call, int rank, int size) {
  const bool is_v = op.kind != call.op;
  std::vector<std::size_t> to;
  std::vector<std::size_t> from;
  for (int r = 0; r < size; ++r) {
    to.push_back(given(call, rank, r));
    from.push_back(given(call, r, rank));
  }
  const auto whole_or = [&](const std::vector<std::size_t>& counts, bool has_parts) {
    const std::size_t own = counts[static_cast<std::size_t>(rank)];
    if (!has_parts) return Parts(PartsView::whole(own));
    return Parts(is_v ? PartsView::of(counts) : PartsView::each(own));
  };
  const bool gathers = op.kind == OpKind::kAllGather || op.kind == OpKind::kGather;
  op.gives = whole_or(to, parts_of(op.kind, 2) > 1);
  op.takes = whole_or(from, gathers || op.kind == OpKind::kAllToAll);
  if (!is_v || call.root < 0 || call.root == rank) return;
  (op.kind == OpKind::kGather ? op.takes : op.gives) = Parts();
}

std::vector<std::byte*> segments_of(int size) {
  std::vector<std::byte*> segments;
  for (int r = 0; r < size; ++r) segments.push_back(segment(r));
  return segments;
}

}  // namespace

RankInModel::RankInModel(int rank, int size)
    : rank_(rank), size_(size), protocol_(rank, segments_of(size), kSlots) {
  if (size != 2) return;
  // The rings of two ranks, each in the slots of its sender, with words that collectives use.
  const auto block = [](int r) { return reinterpret_cast<Block*>(segment(r)); };
  const auto ring_from = [&](int sender) {
    Block& receiver = *block(1 - sender);
    return RingPlace{&block(sender)->staged.value, &receiver.consumed.value,
                     &receiver.reduced.value, segment(sender) + kSlotsOffset};
  };
  talk_.out.open(ring_from(rank));
  talk_.in.open(ring_from(1 - rank));
}

void RankInModel::begin_talk(const Call& call) {
  const std::size_t bytes = call.count * 8;
  talk_.is_sending = call.root < 0 || call.root == rank_;
  talk_.is_getting = call.root < 0 || call.root != rank_;
  talk_.to_send = talk_.is_sending != 0 ? bytes : 0;
  talk_.to_get = talk_.is_getting != 0 ? bytes : 0;
  talk_.sent = talk_.got = 0;
}

// As in messages.cc. True if something moved.
bool RankInModel::talk() {
  Talk& t = talk_;
  const int other = 1 - rank_;
  bool moved = false;
  if (t.is_sending != 0) {
    const bool is_charged = t.to_send <= kMostMessageBytes;
    if (t.is_amid_send != 0) {
      const std::size_t piece = t.out.write(front_.input + t.sent);
      t.sent += piece;
      moved = piece > 0;
    } else if (!is_charged || t.out.may_charge(room_of(t.to_send))) {
      const Frame frame{.count = called_, .bytes = static_cast<std::uint32_t>(t.to_send)};
      moved = t.out.begin(frame, front_.input);
      t.is_amid_send = moved;
      if (moved && is_charged) t.out.charge(room_of(t.to_send));
    }
    if (moved) protocol_.bells().published_to(other);
    if (moved && t.out.left() == 0) t.is_sending = t.is_amid_send = 0;
  }
  if (t.is_getting != 0) {
    if (t.is_amid_get == 0) {
      t.is_amid_get = t.in.next(t.frame);
      if (t.is_amid_get == 0) return moved;
      if (!t.in.is_in_order() || t.frame.bytes != t.to_get) violation("another frame");
    }
    if (t.in.left() > 0) {
      const std::size_t piece = t.in.read(front_.output + t.got);
      if (piece == 0) return moved;
      t.got += piece;
    }
    protocol_.bells().published_to(other);
    moved = true;
    if (t.in.left() == 0) {
      t.is_getting = t.is_amid_get = 0;
      if (t.to_get <= kMostMessageBytes && t.in.release(room_of(t.to_get)))
        protocol_.bells().published_to(other);
    }
  }
  is_over_ = t.is_sending == 0 && t.is_getting == 0;
  return moved;
}

void RankInModel::begin(const Call& call) {
  front_ = {};
  is_over_ = false;
  front_.descriptor = {.sequence = called_ + 1,
                       .count = row_of(call.op).is_v_variant() ? 0 : call.count,
                       .root = call.root,
                       .op = call.op,
                       .dtype = DType::kI64};
  front_.kind = row_of(call.op).fixed_count;
  set_parts(front_, call, rank_, size_);
  front_.input = input(rank_, called_);
  front_.output = output(rank_, called_);
  if ((call.symmetric >> rank_ & 1) != 0) {
    write_symmetric(rank_, called_);
    front_.input = symmetric(rank_);
    const bool in_place = call.op == OpKind::kAllReduce || call.op == OpKind::kBroadcast;
    if (in_place) front_.output = symmetric(rank_);
  }
  if (call.op == OpKind::kSend) {
    begin_talk(call);
    ++called_;
    runs_ = true;
    return;
  }
  front_.hash = 7;  // the same call on all ranks
  front_.plan = make_plan(front_.descriptor, front_.gives.longest(), size_, false);
  if (begin_claim(front_, size_).data() == symmetric(rank_)) {
    // The only symmetric memory.
    static const std::array<std::byte*, kMostRanks> kMemory{symmetric(0), symmetric(1),
                                                            symmetric(2)};
    front_.claim.memory = 1;
    front_.memory = kMemory.data();
  }
  protocol_.begin(front_);
  ++called_;
  runs_ = true;
}

bool RankInModel::turn(std::span<const Call> program, bool sleeps) {
  if (!runs_) begin(program[called_]);
  bool moved = step();
  if (!moved && sleeps) {
    protocol_.bells().sleep(std::chrono::nanoseconds(std::numeric_limits<std::int64_t>::max()),
                            [this] { return !step() && !is_over_; });
    moved = true;
  }
  if (is_over_) {
    protocol_.bells().settle();
    check_output(rank_, called_ - 1);
    runs_ = false;
  }
  return moved;
}

bool RankInModel::step() {
  if (is_over_) return false;
  if (front_.descriptor.op == OpKind::kSend) return talk();
  const Outcome outcome = protocol_.advance(front_);
  if (outcome == Outcome::kMismatch) violation("a mismatch of equal calls");
  is_over_ = outcome == Outcome::kDone;
  return outcome != Outcome::kNothing;
}

}  // namespace model
}  // namespace dl::collectives::shm
