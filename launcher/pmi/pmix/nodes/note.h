// Note: what the servers of a job's nodes tell each other. All nodes read all notes in one order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dl::pmix {

struct Note {
  enum class Kind : std::uint8_t {
    kNode,       // name: the node's host; ranks: its ranks
    kConnected,  // rank: has come to MPI_Init
    kEnded,      // rank: has ended, and had not called MPI_Finalize
    kGather,     // name, number: the gathering; ranks: who takes part, none: all; flag: a number is
                 // wanted; texts: what the node gives
    kAsk,        // rank: whose data the node wants; number: the node's own of this question
    kAnswer,     // to, number: the question; status; texts: the data
    kPublish,    // rank: publishes; flag: for one reader; texts: names, each with its value
    kLookUp,     // texts: names; flag: waits until all are published
    kUnpublish,  // rank: of whom; texts: names, none: all
  };
  Kind kind = Kind::kNode;
  std::uint32_t node = 0;  // that has written the note
  std::uint32_t to = 0;
  std::uint32_t rank = 0;
  std::uint64_t number = 0;
  std::int32_t status = 0;
  bool flag = false;
  std::string name = {};
  std::vector<std::uint32_t> ranks = {};
  std::vector<std::string> texts = {};

  bool operator==(const Note&) const = default;
};

std::string bytes_of(const Note& note);
// Takes a note from the beginning of `bytes`. nullopt: they do not begin with one.
std::optional<Note> take_note(std::string_view& bytes);

}  // namespace dl::pmix
