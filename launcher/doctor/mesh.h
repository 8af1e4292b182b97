// Mesh: whether hosts reach each other at a port that is not a known one, as ranks must, and how
// long a round trip takes.
//
// Each host listens at one port for a short time and connects to all others. A connection counts
// if the other end echoes a token that only hosts of this question know. Nothing else is served.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::launcher::doctor {

struct MeshHost {
  std::string name;
  std::vector<std::string> addresses;  // numeric
};

struct MeshQuestion {
  std::uint16_t port = 0;
  std::string token;  // 16 letters
  std::size_t self = 0;
  std::vector<MeshHost> hosts;
};
// "PORT/TOKEN/SELF/NAME=ADDRESS+ADDRESS,NAME=..."
std::string text_of(const MeshQuestion& question);
// Throws kInvalidArgument.
MeshQuestion read_question(std::string_view text);

// How one host reached another.
struct MeshLink {
  std::string to;
  std::string address;       // empty: it was not reached
  std::string error = {};    // a clause; empty: it was reached
  bool was_tried = true;     // false: the host has no address
  double round_trip_us = 0;  // the least of some
};
struct MeshAnswer {
  std::string error;  // a sentence: this host could not listen; empty: it did
  std::vector<MeshLink> links;
};

// Ends when this host and all others have reached each other, or after `window`.
MeshAnswer meet(const MeshQuestion& question, std::chrono::milliseconds window);

std::string json_text(const MeshAnswer& answer);
// nullopt: it is not what json_text() writes.
std::optional<MeshAnswer> read_answer(std::string_view text);

}  // namespace dl::launcher::doctor
