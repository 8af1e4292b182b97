// Explores what ranks that talk through shared memory can do under the C++ memory model.
//
// The ranks run the production code of the protocol (protocol/, ring.cc) over a model of memory: a
// load may return any store that coherence and happens-before leave it, so that also what only
// weakly ordered processors do is seen. The model is the operational one of release/acquire,
// relaxed and SC fences without load buffering (Kang et al., "A promising semantics", POPL 2017,
// without promises). Plain bytes carry vector clocks, and two accesses without an order are an
// error; so is a wrong byte, or a state in which no rank can move.
//
// A rank's turn is cut into pieces that read first and then write. What others do between two
// accesses of one piece needs no look: a load may return an old store, so that the whole piece may
// as well happen at its last access. From every state each rank's next piece is run with every
// choice of what it reads; states in which the same can come (digest_of) are gone on from once. A
// piece that finds nothing to do changes nothing and is left out.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tests/collectives/shm/model/rank.h"

namespace dl::collectives::shm::model {

enum class Field : std::uint8_t {
  kFlag,
  kLine,
  kStaged,
  kReduced,
  kConsumed,
  kBell,
  kAsleep,
  kNone
};

// What is wrong with the code on purpose, to see that it is found.
struct Mutation {
  enum class Kind : std::uint8_t {
    kNothing,
    kRelaxedStore,  // of `field`
    kRelaxedLoad,
    kOneTooMany,  // a rank takes a counter for one more than it is
    kNoPublishersFence,
    kNoSleepersFence
  } kind = Kind::kNothing;
  Field field = Field::kNone;
};

struct Options {
  int size = 2;
  std::size_t slots = 2;  // 1 or 2
  // Ranks that find nothing sleep until they are rung for, without a limit. Otherwise they look
  // again, and fences do nothing: what is right without them is right with them.
  bool sleeps = false;
  Mutation mutation{};
};

struct Result {
  std::string error;       // empty: none of the executions has one
  std::uint64_t ends = 0;  // states in which all ranks are through
  std::uint64_t pieces = 0;
};

// All executions of a program in which all ranks make these calls.
Result explore(std::span<const Call> program, const Options& options);

}  // namespace dl::collectives::shm::model
