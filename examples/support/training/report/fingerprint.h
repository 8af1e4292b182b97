// A hash of a model's parameters, and the proof that all ranks hold the same.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "collectives/api/process_group.h"
#include "nn/serialize/state_dict.h"

namespace dl::examples {

using Sha256 = std::array<std::uint8_t, 32>;

// SHA-256 over each tensor's name and its values as little-endian f32 in row-major order, in the
// order of the list. In Python:
//
//     for name, tensor in model.named_parameters():
//         sha.update(name.encode() + tensor.detach().numpy().tobytes())
Sha256 fingerprint(const nn::StateDict& parameters);
// 64 hexadecimal digits.
std::string hex(const Sha256& hash);

// Gathers the hash of every rank. Throws kMismatch, naming the first rank that differs from rank 0.
void require_equal_on_all_ranks(const Sha256& hash, collectives::ProcessGroup& group);

}  // namespace dl::examples
