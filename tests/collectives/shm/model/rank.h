// What the model's ranks ask of its memory beside words and copies.
#pragma once

#include <cstddef>
#include <string>

namespace dl::collectives::shm::model {

// Places only; their contents are in the model.
std::byte* segment(int rank) noexcept;
const std::byte* input(int rank, std::size_t call) noexcept;
std::byte* output(int rank, std::size_t call) noexcept;

std::byte* symmetric(int rank) noexcept;

// The program's writes to its symmetric buffer before the call, if it has one.
void write_symmetric(int rank, std::size_t call) noexcept;
// Everything has arrived that the call promises; values are compared as they are written.
void check_output(int rank, std::size_t call) noexcept;
[[noreturn]] void violation(const std::string& text) noexcept;

}  // namespace dl::collectives::shm::model
