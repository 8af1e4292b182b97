#include "rendezvous/stores/prefix_store.h"

#include <charconv>
#include <utility>

#include "rendezvous/stores/store_checks.h"

namespace dl::rendezvous {

PrefixStore::PrefixStore(Store& store, std::string prefix)
    : store_(store), prefix_(std::move(prefix)) {}

std::string PrefixStore::generation_prefix(std::uint64_t generation) {
  return "gen" + std::to_string(generation) + "/";
}

bool PrefixStore::is_of_generation_before(std::uint64_t generation, std::string_view key) {
  if (!key.starts_with("gen")) return false;
  key.remove_prefix(3);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
  return error == std::errc() && end != key.data() + key.size() && *end == '/' &&
         number < generation;
}

std::string PrefixStore::full(std::string_view call, std::string_view key) const {
  // Check before the prefix is added: an empty key would pass afterwards.
  check_key(call, key);
  return prefix_ + std::string(key);
}

void PrefixStore::set(std::string_view key, std::string_view value, Deadline deadline) {
  store_.set(full("set", key), value, deadline);
}

std::string PrefixStore::get(std::string_view key, Deadline deadline) {
  return store_.get(full("get", key), deadline);
}

std::optional<std::string> PrefixStore::try_get(std::string_view key, Deadline deadline) {
  return store_.try_get(full("try_get", key), deadline);
}

void PrefixStore::wait(std::span<const std::string> keys, Deadline deadline) {
  std::vector<std::string> wanted;
  wanted.reserve(keys.size());
  for (const std::string& key : keys) wanted.push_back(full("wait", key));
  store_.wait(wanted, deadline);
}

std::int64_t PrefixStore::add(std::string_view key, std::int64_t delta, Deadline deadline) {
  return store_.add(full("add", key), delta, deadline);
}

Store::Swap PrefixStore::compare_and_set(std::string_view key,
                                         const std::optional<std::string>& expected,
                                         std::string_view desired, Deadline deadline) {
  return store_.compare_and_set(full("compare_and_set", key), expected, desired, deadline);
}

void PrefixStore::close(std::string_view reason) noexcept {
  store_.close(reason);
}

}  // namespace dl::rendezvous
