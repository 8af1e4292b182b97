// Converts a call's options to its descriptor, and a fixed-count operation to its v-variant, so
// that a backend implements each of them once. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/api/process_group.h"
#include "collectives/call/call.h"

namespace dl::collectives {

Descriptor descriptor_of(const AllReduceOptions& options) noexcept;
Descriptor descriptor_of(const BroadcastOptions& options) noexcept;
Descriptor descriptor_of(const AllGatherOptions& options) noexcept;
Descriptor descriptor_of(const ReduceScatterOptions& options) noexcept;
Descriptor descriptor_of(const ReduceOptions& options) noexcept;
Descriptor descriptor_of(const GatherOptions& options) noexcept;
Descriptor descriptor_of(const ScatterOptions& options) noexcept;
Descriptor descriptor_of(const AllToAllOptions& options) noexcept;
// The descriptor's root is the tag.
Descriptor descriptor_of(const SendOptions& options) noexcept;
Descriptor descriptor_of(const RecvOptions& options) noexcept;

// [size], each `count`.
std::vector<std::size_t> equal_counts(std::size_t count, int size);
// The v-variant with these counts; `counts` must outlive it.
GathervOptions as_parts(const GatherOptions& options, std::span<const std::size_t> counts) noexcept;
ScattervOptions as_parts(const ScatterOptions& options,
                         std::span<const std::size_t> counts) noexcept;
AllToAllvOptions as_parts(const AllToAllOptions& options,
                          std::span<const std::size_t> counts) noexcept;

}  // namespace dl::collectives
