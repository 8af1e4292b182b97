#include "collectives/c/displaced.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "collectives/call/operations.h"
#include "core/base/error.h"

namespace dl::collectives::c {
namespace {

// In bytes.
struct Part {
  std::size_t at;
  std::size_t bytes;
};
struct Layout {
  std::vector<Part> parts{};  // by rank
  std::size_t total = 0;
};

Layout layout_of(const size_t* counts, const size_t* displacements, std::size_t element, int size) {
  Layout layout;
  for (int r = 0; r < size; ++r) {
    std::size_t end = 0;
    Part part{};
    const bool overflows = __builtin_mul_overflow(counts[r], element, &part.bytes) ||
                           __builtin_mul_overflow(displacements[r], element, &part.at) ||
                           __builtin_add_overflow(part.at, part.bytes, &end) ||
                           __builtin_add_overflow(layout.total, part.bytes, &layout.total);
    DL_CHECK(
        !overflows && end <= static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max()),
        kInvalidArgument, "part {} of {} elements at {} is more than memory can hold", r, counts[r],
        displacements[r]);
    layout.parts.push_back(part);
  }
  return layout;
}

void check_parts_apart(const std::vector<Part>& parts, std::size_t element) {
  std::vector<Part> sorted;
  std::ranges::copy_if(parts, std::back_inserter(sorted),
                       [](const Part& p) { return p.bytes > 0; });
  std::ranges::sort(sorted, {}, &Part::at);
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    DL_CHECK(sorted[i - 1].at + sorted[i - 1].bytes <= sorted[i].at, kInvalidArgument,
             "the output's parts at {} and {} overlap, wanted at least {} elements between",
             sorted[i - 1].at / element, sorted[i].at / element, sorted[i - 1].bytes / element);
  }
}

}  // namespace

Displaced pack(dl_call& call, std::size_t element, int size, const Ref<RefCounted>& owner) {
  const auto has_counts = [&](const size_t* counts) {
    return counts != nullptr && row_of(static_cast<OpKind>(call.op)).is_v_variant();
  };
  DL_CHECK((call.input_displacements == nullptr || has_counts(call.input_counts)) &&
               (call.output_displacements == nullptr || has_counts(call.output_counts)),
           kInvalidArgument,
           "dl_start: displacements come without the counts of a v-variant's divided side");
  Displaced displaced{.packed = make_ref<PackedBytes>()};
  if (call.input_displacements != nullptr) {
    const auto [parts, total] =
        layout_of(call.input_counts, call.input_displacements, element, size);
    DL_CHECK(call.input != nullptr || total == 0, kInvalidArgument, "dl_start: input is NULL");
    displaced.packed->input = std::make_unique_for_overwrite<std::byte[]>(total);
    std::byte* to = displaced.packed->input.get();
    for (const Part& part : parts) {
      if (part.bytes == 0) continue;
      std::memcpy(to, static_cast<const std::byte*>(call.input) + part.at, part.bytes);
      to += part.bytes;
    }
    call.input = displaced.packed->input.get();
    call.input_displacements = nullptr;
  }
  if (call.output_displacements != nullptr) {
    auto [layout, total] = layout_of(call.output_counts, call.output_displacements, element, size);
    check_parts_apart(layout, element);
    DL_CHECK(call.output != nullptr || total == 0, kInvalidArgument, "dl_start: output is NULL");
    displaced.packed->output = std::make_unique_for_overwrite<std::byte[]>(total);
    displaced.unpack = [packed = displaced.packed, owner, parts = std::move(layout),
                        to = static_cast<std::byte*>(call.output)] {
      const std::byte* from = packed->output.get();
      for (const Part& part : parts) {
        if (part.bytes > 0) std::memcpy(to + part.at, from, part.bytes);
        from += part.bytes;
      }
    };
    call.output = displaced.packed->output.get();
    call.output_displacements = nullptr;
  }
  return displaced;
}

}  // namespace dl::collectives::c
