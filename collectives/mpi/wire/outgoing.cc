#include "collectives/mpi/wire/outgoing.h"

namespace dl::collectives::mpi {
namespace {

constexpr std::size_t kCreditBytes = 1024 * 1024;  // for copies to one rank

}  // namespace

Outgoing::Outgoing(Requests& requests, int ranks)
    : requests_(requests), credit_(static_cast<std::size_t>(ranks), kCreditBytes) {}

Outgoing::Parcel& Outgoing::add(Parcel parcel) {
  credit_[static_cast<std::size_t>(parcel.to)] -= parcel.cost;
  return parcels_.emplace_back(std::move(parcel));
}

bool Outgoing::advance() {
  const auto has_ended = [this](Parcel& parcel) {
    if (!requests_.have_ended(parcel.open)) return false;
    credit_[static_cast<std::size_t>(parcel.to)] += parcel.cost;
    return true;
  };
  return parcels_.remove_if(has_ended) > 0;
}

}  // namespace dl::collectives::mpi
