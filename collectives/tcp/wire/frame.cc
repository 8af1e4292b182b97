#include "collectives/tcp/wire/frame.h"

#include <bit>
#include <cstring>

#include "core/base/error.h"

namespace dl::collectives::tcp {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are copied as they stand");

// The header's bytes, in order.
struct Wire {
  std::uint32_t magic;
  std::uint8_t type;
  std::uint8_t op;
  std::uint8_t dtype;
  std::uint8_t reduce;
  std::uint64_t sequence;
  std::uint32_t hash;
  std::uint32_t length;
  std::uint64_t count;
  std::int32_t root;
  std::uint32_t transfer;
  std::uint64_t offset;
  std::uint64_t aux;
  std::uint8_t order;
  std::uint8_t detail;
  std::uint8_t zero[2];
  std::uint32_t plan;
};
static_assert(sizeof(Wire) == kHeaderBytes);

std::size_t most_bytes(FrameType type) noexcept {
  switch (type) {
    case FrameType::kData:
    case FrameType::kBulk:
      return kMostSliceBytes;
    case FrameType::kMessage:
      return kMostMessageBytes;
    case FrameType::kAbort:
      return kMostAbortBytes;
    default:
      return 0;
  }
}

}  // namespace

std::string_view name_of(FrameType type) noexcept {
  constexpr std::string_view kNames[kFrameTypeCount + 1] = {
      "?",      "data",  "message",     "request", "clear",  "bulk",
      "credit", "probe", "probe reply", "abort",   "goodbye"};
  return kNames[static_cast<std::size_t>(type)];
}

void encode(const FrameHeader& h, std::span<std::byte, kHeaderBytes> to) noexcept {
  const Wire wire{.magic = kFrameMagic,
                  .type = static_cast<std::uint8_t>(h.type),
                  .op = static_cast<std::uint8_t>(h.descriptor.op),
                  .dtype = static_cast<std::uint8_t>(h.descriptor.dtype),
                  .reduce = static_cast<std::uint8_t>(h.descriptor.reduce),
                  .sequence = h.descriptor.sequence,
                  .hash = h.hash,
                  .length = h.length,
                  .count = h.descriptor.count,
                  .root = h.descriptor.root,
                  .transfer = h.transfer,
                  .offset = h.offset,
                  .aux = h.aux,
                  .order = static_cast<std::uint8_t>(h.descriptor.order),
                  .detail = h.detail,
                  .zero = {},
                  .plan = h.descriptor.plan};
  std::memcpy(to.data(), &wire, sizeof wire);
}

std::optional<FrameHeader> decode(std::span<const std::byte, kHeaderBytes> from) noexcept {
  Wire wire;
  std::memcpy(&wire, from.data(), sizeof wire);
  if (wire.magic != kFrameMagic || wire.type == 0 || wire.type > kFrameTypeCount ||
      wire.op >= kOpKindCount || wire.dtype >= kDTypeCount || wire.reduce >= kReduceOpCount ||
      wire.order > static_cast<std::uint8_t>(Order::kTree) ||
      wire.detail > static_cast<std::uint8_t>(ErrorKind::kInternal)) {
    return std::nullopt;
  }
  for (const std::uint8_t byte : wire.zero) {
    if (byte != 0) return std::nullopt;
  }
  const auto type = static_cast<FrameType>(wire.type);
  if (wire.length > most_bytes(type)) return std::nullopt;
  return FrameHeader{.type = type,
                     .length = wire.length,
                     .descriptor = {.sequence = wire.sequence,
                                    .count = wire.count,
                                    .root = wire.root,
                                    .op = static_cast<OpKind>(wire.op),
                                    .dtype = static_cast<DType>(wire.dtype),
                                    .reduce = static_cast<ReduceOp>(wire.reduce),
                                    .order = static_cast<Order>(wire.order),
                                    .plan = wire.plan},
                     .hash = wire.hash,
                     .transfer = wire.transfer,
                     .offset = wire.offset,
                     .aux = wire.aux,
                     .detail = wire.detail};
}

}  // namespace dl::collectives::tcp
