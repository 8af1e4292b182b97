#include "rendezvous/stores/key_table.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "rendezvous/stores/store_checks.h"

namespace dl::rendezvous {

void KeyTable::check_open() const {
  if (closed_) throw_error(ErrorKind::kAborted, "store: closed: {}", *closed_);
}

const std::string* KeyTable::value_of(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void KeyTable::tell(Ended& ended) {
  for (auto& [done, result] : ended) done(std::move(result));
}

void KeyTable::set(std::string_view key, std::string_view value) {
  Ended ended;
  {
    const Lock lock(mutex_);
    check_open();
    change(std::string(key), std::string(value), ended);
  }
  tell(ended);
}

std::optional<std::string> KeyTable::find(std::string_view key) const {
  const Lock lock(mutex_);
  check_open();
  const std::string* value = value_of(std::string(key));
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::int64_t KeyTable::add(std::string_view key, std::int64_t delta) {
  Ended ended;
  std::int64_t sum = 0;
  {
    const Lock lock(mutex_);
    check_open();
    const std::string name(key);
    const std::string* present = value_of(name);
    sum = add_to_number(key, present == nullptr ? std::nullopt : std::optional(*present), delta);
    change(name, std::to_string(sum), ended);
  }
  tell(ended);
  return sum;
}

Store::Swap KeyTable::compare_and_set(std::string_view key,
                                      const std::optional<std::string>& expected,
                                      std::string_view desired) {
  Ended ended;
  Store::Swap swap;
  {
    const Lock lock(mutex_);
    check_open();
    const std::string name(key);
    const std::string* present = value_of(name);
    swap.swapped = present == nullptr ? !expected : expected == *present;
    if (swap.swapped) {
      swap.present = desired;
      change(name, std::string(desired), ended);
    } else if (present != nullptr) {
      swap.present = *present;
    }
  }
  tell(ended);
  return swap;
}

void KeyTable::forget(const std::function<bool(std::string_view)>& is_old) {
  const Lock lock(mutex_);
  std::erase_if(values_, [&](const auto& entry) { return is_old(entry.first); });
}

std::vector<std::string> KeyTable::missing(const std::vector<std::string>& keys) const {
  const Lock lock(mutex_);
  std::vector<std::string> result;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(result),
               [&](const std::string& key)
                   DL_REQUIRES(mutex_) { return value_of(key) == nullptr; });
  return result;
}

void KeyTable::change(const std::string& key, std::string value, Ended& ended) {
  values_[key] = std::move(value);
  const auto [first, last] = by_key_.equal_range(key);
  std::vector<Ticket> woken;
  for (auto it = first; it != last; ++it) woken.push_back(it->second);
  by_key_.erase(first, last);
  for (const Ticket ticket : woken) {
    const auto waiter = waiters_.find(ticket);
    Result result;
    if (const std::string* const missing = missing_key(waiter->second, result)) {
      by_key_.emplace(*missing, ticket);
      continue;
    }
    ended.emplace_back(std::move(waiter->second.done), std::move(result));
    waiters_.erase(waiter);
  }
}

const std::string* KeyTable::missing_key(const Waiter& waiter, Result& result) const {
  for (const std::string& key : waiter.keys) {
    if (value_of(key) == nullptr) return &key;
  }
  if (waiter.wants_value) result.value = *value_of(waiter.keys.front());
  return nullptr;
}

KeyTable::Ticket KeyTable::when_value(std::string key, Done done) {
  return wait({{std::move(key)}, true, std::move(done)});
}

KeyTable::Ticket KeyTable::when_present(std::vector<std::string> keys, Done done) {
  return wait({std::move(keys), false, std::move(done)});
}

KeyTable::Ticket KeyTable::wait(Waiter waiter) {
  Result result;
  Ticket ticket = 0;
  {
    const Lock lock(mutex_);
    ticket = next_ticket_++;
    if (closed_) {
      result.closed = closed_;
    } else if (const std::string* const missing = missing_key(waiter, result)) {
      by_key_.emplace(*missing, ticket);
      waiters_.emplace(ticket, std::move(waiter));
      return ticket;
    }
  }
  waiter.done(std::move(result));
  return ticket;
}

bool KeyTable::cancel(Ticket ticket) {
  const Lock lock(mutex_);
  const auto waiter = waiters_.find(ticket);
  if (waiter == waiters_.end()) return false;
  for (const std::string& key : waiter->second.keys) {
    const auto [first, last] = by_key_.equal_range(key);
    const auto found =
        std::find_if(first, last, [&](const auto& at) { return at.second == ticket; });
    if (found != last) by_key_.erase(found);
  }
  waiters_.erase(waiter);
  return true;
}

void KeyTable::close(std::string_view reason) {
  Ended ended;
  {
    const Lock lock(mutex_);
    if (closed_) return;
    closed_ = reason;
    for (auto& [ticket, waiter] : waiters_) {
      Result result;
      result.closed = closed_;
      ended.emplace_back(std::move(waiter.done), std::move(result));
    }
    waiters_.clear();
    by_key_.clear();
  }
  tell(ended);
}

}  // namespace dl::rendezvous
