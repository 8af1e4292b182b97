// PrefixStore: puts a prefix before every key of another Store, so that generations and groups do
// not see each other's keys.
//
// Does not own the other Store, which must outlive it. Any thread.
#pragma once

#include "rendezvous/store.h"

namespace dl::rendezvous {

class PrefixStore final : public Store {
 public:
  // `prefix` is put before every key unchanged: "gen3/".
  PrefixStore(Store& store, std::string prefix);
  // The keys of one generation: the prefix is "gen<number>/".
  static std::string generation_prefix(std::uint64_t generation);
  // True if the key belongs to an earlier generation.
  static bool is_of_generation_before(std::uint64_t generation, std::string_view key);

  void set(std::string_view key, std::string_view value, Deadline deadline) override;
  std::string get(std::string_view key, Deadline deadline) override;
  std::optional<std::string> try_get(std::string_view key, Deadline deadline) override;
  void wait(std::span<const std::string> keys, Deadline deadline) override;
  std::int64_t add(std::string_view key, std::int64_t delta, Deadline deadline) override;
  Swap compare_and_set(std::string_view key, const std::optional<std::string>& expected,
                       std::string_view desired, Deadline deadline) override;
  // Closes the other Store, for all its users in this process.
  void close(std::string_view reason) noexcept override;

 private:
  std::string full(std::string_view call, std::string_view key) const;
  Store& store_;
  std::string prefix_;
};

}  // namespace dl::rendezvous
