// MemoryStore: a Store inside one process, for tests and for ranks that are threads.
//
// Owns its keys and values. Any thread.
#pragma once

#include <chrono>
#include <memory>

#include "rendezvous/net/patience.h"
#include "rendezvous/store.h"

namespace dl::rendezvous {

class KeyTable;

class MemoryStore final : public Store {
 public:
  explicit MemoryStore(std::chrono::nanoseconds warn_after = kWarnAfter);
  ~MemoryStore() override;

  void set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string get(std::string_view key, Deadline deadline) override;
  std::optional<std::string> try_get(std::string_view key, Deadline deadline) override;
  void wait(std::span<const std::string> keys, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) override;
  Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                       std::string_view desired, Deadline deadline) override;
  void close(std::string_view reason) noexcept override;

  // The table of keys, for a service that shares it.
  KeyTable& table() noexcept { return *table_; }

 private:
  std::unique_ptr<KeyTable> table_;
  std::chrono::nanoseconds warn_after_;
};

}  // namespace dl::rendezvous
