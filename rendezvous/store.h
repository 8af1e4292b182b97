// Store: a key-value map that the processes of a job share. It holds a few facts, for example
// addresses and counters, and a process can wait for a key.
//
// Keys are UTF-8 texts without NUL, of 1 to 1024 bytes. Values are bytes, at most 16 MiB, and may
// be empty. Every call but close() takes a deadline, and throws
//   kTimeout          the deadline passed; the text names the keys that are still missing
//   kConnection       GrpcStore: the service is gone, and a new connection was refused or failed
//   kIo, kParse       FileStore: the directory cannot be used, or has a damaged file
//   kAborted          the store was closed
//   kInvalidArgument  a key that is empty, too long or not UTF-8, or a value that is too long
// A wait that lasts longer than 5 s (`warn_after` of each store) logs the missing keys. Callers
// that belong to a generation use a PrefixStore, so that generations do not see each other's keys.
//
// Thread-safety: every member may be called from any thread. Waiting calls of several threads do
// not delay each other. Implementations: MemoryStore (one process), FileStore (a shared directory),
// GrpcStore (the service's client).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/deadline.h"

namespace dl::rendezvous {

class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  // Creates the key, or replaces its value.
  virtual void set(std::string_view key, std::string_view value, Deadline deadline) = 0;

  // The value; waits until the key exists.
  virtual std::string get(std::string_view key, Deadline deadline) = 0;
  // The value, or nullopt if the key does not exist now.
  virtual std::optional<std::string> try_get(std::string_view key, Deadline deadline) = 0;

  // Waits until all keys exist.
  virtual void wait(std::span<const std::string> keys, Deadline deadline) = 0;

  // Adds `delta` to the key's value, a decimal number (a missing key counts as 0), and returns the
  // sum. Throws kInvalidArgument if the value is not a number, or the sum does not fit 64 bits.
  virtual std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) = 0;

  struct Swap {
    bool swapped = false;
    std::optional<std::string> present;  // the value after the call; nullopt: no such key
  };
  // Sets the key to `desired` if its value equals `expected`. With `expected` nullopt: if the key
  // does not exist.
  virtual Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                               std::string_view desired, Deadline deadline) = 0;

  // Ends every call under way and every later call with kAborted and this reason. May be called
  // again.
  virtual void close(std::string_view reason) noexcept = 0;
};

}  // namespace dl::rendezvous
