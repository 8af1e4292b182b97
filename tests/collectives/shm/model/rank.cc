// What of a rank of the model is not production code: its program, and the driver's loop in small
// (core.cc: submit, drive, step).
#include "tests/collectives/shm/model/rank.h"

#include <limits>

#include "collectives/shm/core.h"

namespace dl::collectives::shm {

Core::Core(int rank, int size) : rank_(rank), peers_(size), shares_(size), claims_(size) {
  for (int r = 0; r < size; ++r) {
    std::byte* const segment = model::segment(r);
    Peer& p = peer(r);
    p.who.rank = r;
    p.block = reinterpret_cast<Block*>(segment);
    p.slots = segment + kSlotsOffset;
  }
}

std::byte* Mapped::of(int rank) const {
  return model::symmetric(rank);
}

Memories::Place Memories::find(const void* data, std::size_t) const {
  static constexpr Mapped kMemory;
  for (int r = 0; r < kMostRanks; ++r) {
    if (data == model::symmetric(r)) return {&kMemory, 0};
  }
  return {};
}

void Core::begin(const Call& call) {
  front_ = {};
  front_.descriptor = {.sequence = called_ + 1,
                       .count = call.count,
                       .root = call.root,
                       .op = call.op,
                       .dtype = DType::kI64};
  front_.input = model::input(rank_, called_);
  front_.output = model::output(rank_, called_);
  if ((call.symmetric >> rank_ & 1) != 0) {
    model::write_symmetric(rank_, called_);
    front_.input = model::symmetric(rank_);
    const bool in_place = call.op == OpKind::kAllReduce || call.op == OpKind::kBroadcast;
    if (in_place) front_.output = model::symmetric(rank_);
  }
  front_.first_chunk = next_chunk_;
  front_.hash = 7;  // the same call on all ranks
  front_.plan = make_plan(front_.descriptor, size(), false);
  claim(front_);
  next_chunk_ += front_.plan.chunks;
  ++called_;
  runs_ = true;
}

bool Core::turn(std::span<const Call> program, bool sleeps) {
  if (!runs_) begin(program[called_]);
  bool moved = step();
  if (!moved && sleeps) {
    sleep(std::chrono::nanoseconds(std::numeric_limits<std::int64_t>::max()));
    moved = true;
  }
  if (front_.is_over) {
    settle();
    model::check_output(rank_, called_ - 1);
    runs_ = false;
  }
  return moved;
}

bool Core::step() {
  return !front_.is_over && advance(front_);
}

void Core::finish_front(const std::exception_ptr&) {
  front_.is_over = true;
}

void Core::fail(ErrorKind, const std::string& text, int) noexcept {
  model::violation(text);
}

}  // namespace dl::collectives::shm
