#include "collectives/mpi/traffic/traffic.h"

#include <algorithm>

namespace dl::collectives::mpi {

bool Traffic::advance(Requests& requests) {
  if (has_begun_ && !end_some(requests)) return false;
  has_begun_ = true;
  const int size = static_cast<int>(lanes_.size());
  bool goes_on = true;
  while (goes_on) {
    for (int peer = 0; peer < size; ++peer) take(peer);
    while (execution_.combine_ready()) {
    }
    goes_on = false;
    // Every rank begins with a neighbour, so that not all ranks send to the same rank first.
    // Sends come first: MPI_Irecv of a large message that waits may copy all of it, and meanwhile
    // the other rank would not learn of this rank's message.
    for (int step = 1; step < size; ++step) goes_on |= send((rank_ + step) % size, requests);
    for (int step = 1; step < size; ++step) {
      goes_on |= receive((rank_ - step + size) % size, requests);
    }
  }
  return true;
}

// One call of MPI for all requests: each call makes MPI look at all connections, and may yield.
bool Traffic::end_some(Requests& requests) {
  std::array<Flight*, kMostTested> flights;
  std::array<Handle, kMostTested> handles;
  std::size_t n = 0;
  bool moved = false;
  const auto test = [&] {
    if (n == 0 || requests.end_some(std::span(handles).first(n)) == 0) return;
    for (std::size_t i = 0; i < n; ++i) flights[i]->request = handles[i];
    moved = true;
  };
  for (Lanes& lanes : lanes_) {
    for (Lane* const lane : {&lanes.in, &lanes.out}) {
      for (std::size_t i = 0; i < lane->count; ++i) {
        Flight& flight = lane->at(i);
        if (flight.request == 0) continue;
        flights[n] = &flight;
        handles[n] = flight.request;
        if (++n < kMostTested) continue;
        test();
        n = 0;
      }
    }
  }
  test();
  return moved;
}

void Traffic::take(int peer) {
  Lanes& lanes = lanes_[static_cast<std::size_t>(peer)];
  for (Lane& in = lanes.in; in.count > 0 && in.at(0).request == 0; in.pop()) {
    execution_.apply(peer, in.at(0).bytes, in.at(0).count);
    execution_.end_receive(peer);
  }
  for (Lane& out = lanes.out; out.count > 0 && out.at(0).request == 0; out.pop()) {
    execution_.end_send(peer, out.at(0).count);
  }
}

bool Traffic::has_requests() const noexcept {
  return std::ranges::any_of(
      lanes_, [](const Lanes& lanes) { return lanes.out.count + lanes.in.count > 0; });
}

bool Traffic::send(int peer, Requests& requests) {
  Lane& lane = lanes_[static_cast<std::size_t>(peer)].out;
  bool is_over = false;
  while (!lane.is_full()) {
    const std::optional<Execution::Slice> slice = execution_.next_send(peer);
    if (!slice || (slice->bytes == 0 && lane.count > 0)) break;
    execution_.begin_send(peer, slice->bytes);
    if (slice->bytes == 0) {
      execution_.end_send(peer, 0);
      is_over = true;
      continue;
    }
    Flight& flight = lane.next();
    flight.count = slice->bytes;
    flight.request = requests.send(slice->data, slice->bytes, peer, kDataTag);
    lane.push();
  }
  return is_over;
}

bool Traffic::receive(int peer, Requests& requests) {
  Lane& lane = lanes_[static_cast<std::size_t>(peer)].in;
  bool is_over = false;
  while (!lane.is_full()) {
    const std::optional<Execution::Place> place = execution_.next_receive(peer);
    if (!place || (place->bytes == 0 && lane.count > 0)) break;
    execution_.begin_receive(peer, place->bytes);
    if (place->bytes == 0) {
      execution_.end_receive(peer);
      is_over = true;
      continue;
    }
    Flight& flight = lane.next();
    std::byte* to = place->to;
    if (to == nullptr) {
      if (!flight.own) flight.own = std::make_unique_for_overwrite<std::byte[]>(kMostSlice);
      to = flight.own.get();
    }
    flight.bytes = to;
    flight.count = place->bytes;
    flight.request = requests.receive(to, flight.count, peer, kDataTag);
    lane.push();
  }
  return is_over;
}

}  // namespace dl::collectives::mpi
