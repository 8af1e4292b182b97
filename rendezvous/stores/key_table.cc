#include "rendezvous/stores/key_table.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/mutex.h"
#include "rendezvous/stores/store_checks.h"

namespace dl::rendezvous {
namespace {

constexpr std::size_t kMostMarks = 65'536;

}  // namespace

void KeyTable::check_open() const {
  if (closed_) throw_error(ErrorKind::kAborted, "store: closed: {}", *closed_);
}

const std::string* KeyTable::value_of(const std::string& key) const {
  const auto found = entries_.find(key);
  return found == entries_.end() || !found->second.value ? nullptr : &*found->second.value;
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

bool KeyTable::erase(std::string_view key) {
  Ended ended;
  {
    const Lock lock(mutex_);
    check_open();
    const std::string name(key);
    if (value_of(name) == nullptr) return false;
    change(name, std::nullopt, ended);
  }
  tell(ended);
  return true;
}

void KeyTable::forget(const std::function<bool(std::string_view)>& is_old) {
  const Lock lock(mutex_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    if (!is_old(at->first)) {
      ++at;
      continue;
    }
    by_version_.erase(at->second.version);
    marks_.erase(at->second.version);
    at = entries_.erase(at);
  }
}

std::vector<std::string> KeyTable::missing(const std::vector<std::string>& keys) const {
  const Lock lock(mutex_);
  std::vector<std::string> result;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(result),
               [&](const std::string& key)
                   DL_REQUIRES(mutex_) { return value_of(key) == nullptr; });
  return result;
}

void KeyTable::change(const std::string& key, std::optional<std::string> value, Ended& ended) {
  Entry& entry = entries_[key];
  if (entry.version != 0) {
    by_version_.erase(entry.version);
    // An erased key that is set again no longer needs its mark.
    if (!entry.value) marks_.erase(entry.version);
  }
  entry.value = std::move(value);
  entry.version = ++version_;
  by_version_.emplace(entry.version, key);
  const bool erased = !entry.value;
  if (erased) {
    marks_.insert(entry.version);
    forget_old_marks();
  }

  std::vector<Ticket> woken = watchers_;
  if (!erased) {
    const auto [first, last] = by_key_.equal_range(key);
    for (auto it = first; it != last; ++it) woken.push_back(it->second);
    by_key_.erase(first, last);
  }
  for (const Ticket ticket : woken) {
    const auto waiter = waiters_.find(ticket);
    Result result;
    const std::string* blocking = nullptr;
    if (!is_over(waiter->second, result, blocking)) {
      if (blocking != nullptr) by_key_.emplace(*blocking, ticket);
      continue;
    }
    if (waiter->second.kind == Kind::kChanged) std::erase(watchers_, ticket);
    ended.emplace_back(std::move(waiter->second.done), std::move(result));
    waiters_.erase(waiter);
  }
}

void KeyTable::forget_old_marks() {
  while (marks_.size() > kMostMarks) {
    forgotten_ = *marks_.begin();
    marks_.erase(marks_.begin());
    const auto found = by_version_.find(forgotten_);
    entries_.erase(found->second);
    by_version_.erase(found);
  }
}

bool KeyTable::is_over(const Waiter& waiter, Result& result, const std::string*& blocking) const {
  if (waiter.kind == Kind::kChanged) {
    const std::string& prefix = waiter.keys.front();
    for (auto it = by_version_.upper_bound(waiter.since); it != by_version_.end(); ++it) {
      if (!it->second.starts_with(prefix)) continue;
      const Entry& entry = entries_.at(it->second);
      // A new watch reports existing keys, not erased ones.
      if (waiter.since == 0 && !entry.value) continue;
      result.changes.push_back({it->second, entry.value, it->first});
    }
    return !result.changes.empty();
  }
  for (const std::string& key : waiter.keys) {
    if (value_of(key) != nullptr) continue;
    blocking = &key;
    return false;
  }
  if (waiter.kind == Kind::kValue) result.value = *value_of(waiter.keys.front());
  return true;
}

KeyTable::Ticket KeyTable::when_value(std::string key, Done done) {
  return wait({Kind::kValue, {std::move(key)}, 0, std::move(done)});
}

KeyTable::Ticket KeyTable::when_present(std::vector<std::string> keys, Done done) {
  return wait({Kind::kPresent, std::move(keys), 0, std::move(done)});
}

KeyTable::Ticket KeyTable::when_changed(std::string prefix, std::uint64_t since, Done done) {
  return wait({Kind::kChanged, {std::move(prefix)}, since, std::move(done)});
}

KeyTable::Ticket KeyTable::wait(Waiter waiter) {
  Result result;
  Ticket ticket = 0;
  {
    const Lock lock(mutex_);
    ticket = next_ticket_++;
    const std::string* blocking = nullptr;
    if (closed_) {
      result.closed = closed_;
    } else {
      const bool behind =
          waiter.kind == Kind::kChanged && waiter.since != 0 && waiter.since < forgotten_;
      DL_CHECK(!behind, kInvalidArgument,
               "store: watch '{}' since version {}: changes up to version {} have been forgotten; "
               "begin again with 0",
               waiter.keys.front(), waiter.since, forgotten_);
      if (!is_over(waiter, result, blocking)) {
        const bool watches = waiter.kind == Kind::kChanged;
        waiters_.emplace(ticket, std::move(waiter));
        if (watches) {
          watchers_.push_back(ticket);
        } else {
          // `blocking` is still valid: it points into the storage of the keys' vector, which was
          // moved.
          by_key_.emplace(*blocking, ticket);
        }
        return ticket;
      }
    }
  }
  waiter.done(std::move(result));
  return ticket;
}

bool KeyTable::cancel(Ticket ticket) {
  const Lock lock(mutex_);
  const auto waiter = waiters_.find(ticket);
  if (waiter == waiters_.end()) return false;
  std::erase(watchers_, ticket);
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
    watchers_.clear();
    by_key_.clear();
  }
  tell(ended);
}

bool KeyTable::is_closed() const {
  const Lock lock(mutex_);
  return closed_.has_value();
}

}  // namespace dl::rendezvous
