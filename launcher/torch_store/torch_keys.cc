#include "launcher/torch_store/torch_keys.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace dl::launcher {
namespace {

// A node of a hash table and two strings, about.
constexpr std::size_t kCostOfKey = 128;

constexpr char kStopWaiting = 0;
constexpr char kWaitCanceled = 1;
constexpr char kReady = 0;
constexpr char kNotReady = 1;

// The key stands with the client and with the waiters.
std::size_t cost_of_wait(const std::string& key) {
  return 2 * (key.size() + kCostOfKey);
}

template <typename Number>
void append_number(std::string& bytes, Number number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

template <typename Number>
std::string as_bytes(Number number) {
  std::string bytes;
  append_number(bytes, number);
  return bytes;
}

void append_text(std::string& bytes, std::string_view text) {
  append_number(bytes, static_cast<std::uint64_t>(text.size()));
  bytes.append(text);
}

std::string as_text(std::string_view text) {
  std::string bytes;
  append_text(bytes, text);
  return bytes;
}

// A key for a sentence: it may be of any bytes and any length.
std::string quoted(std::string_view key) {
  constexpr std::size_t kShown = 60;
  std::string text = "`";
  for (const char c : key.substr(0, kShown)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (key.size() > kShown ? "...`" : "`");
}

std::string too_large(QueryKind kind, std::size_t limit) {
  return fmt::format("the answer to {} would have more than {} bytes", name_of(kind), limit);
}

}  // namespace

std::string TorchKeys::apply(TorchClient from, Query query, Replies& replies) {
  const auto answer = [&](std::string bytes) { replies.push_back({from, std::move(bytes)}); };
  switch (query.kind) {
    case QueryKind::kValidate:
      return "";
    case QueryKind::kPing:
      answer(as_bytes(static_cast<std::uint32_t>(query.number)));
      return "";
    case QueryKind::kSet:
    case QueryKind::kMultiSet:
      return set_all(query, replies);
    case QueryKind::kCompareSet:
      return compare_set(from, query, replies);
    case QueryKind::kGet:
    case QueryKind::kMultiGet:
      return get_all(from, query, replies);
    case QueryKind::kAdd:
      return add(from, query, replies);
    case QueryKind::kCheck: {
      const bool ready = std::all_of(query.keys.begin(), query.keys.end(),
                                     [&](const std::string& key) { return is_there(key); });
      answer({ready ? kReady : kNotReady});
      return "";
    }
    case QueryKind::kWait:
      return wait(from, query, replies);
    case QueryKind::kNumKeys:
      answer(as_bytes(static_cast<std::int64_t>(values_.size())));
      return "";
    case QueryKind::kDeleteKey:
      answer(as_bytes(static_cast<std::int64_t>(erase(query.keys.front()))));
      return "";
    case QueryKind::kAppend:
      return append(query, replies);
    case QueryKind::kCancelWait:
      leave(from);
      answer({kWaitCanceled});
      return "";
    case QueryKind::kQueuePush:
      return push(query, replies);
    case QueryKind::kQueuePop:
      pop(from, query.keys.front(), replies);
      return "";
    case QueryKind::kQueueLen:
      answer(as_bytes(queue_length(query.keys.front())));
      return "";
    case QueryKind::kListKeys:
      return list_keys(from, replies);
    case QueryKind::kBarrier:
      return barrier(from, query, replies);
  }
  return "it sent a query that is not known";
}

std::string TorchKeys::set_all(const Query& query, Replies& replies) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < query.keys.size(); ++i) {
    bytes += query.keys[i].size() + query.values[i].size() + kCostOfKey;
  }
  // A replaced value makes room only after the replacement. So a replacement near the limit may be
  // refused, which is acceptable.
  if (std::string why = why_no_room(query.keys.size(), bytes); !why.empty()) return why;
  for (std::size_t i = 0; i < query.keys.size(); ++i) {
    put(query.keys[i], query.values[i]);
    wake(query.keys[i], replies);
  }
  return "";
}

std::string TorchKeys::compare_set(TorchClient from, Query& query, Replies& replies) {
  const std::string& key = query.keys.front();
  std::string& expected = query.values[0];
  std::string& wanted = query.values[1];
  const auto found = values_.find(key);
  const bool is_new = found == values_.end();
  if (is_new ? expected.empty() : found->second == expected) {
    if (std::string why = why_no_room(is_new ? 1 : 0, key.size() + wanted.size() + kCostOfKey);
        !why.empty()) {
      return why;
    }
    put(key, wanted);
  }
  const auto now = values_.find(key);
  replies.push_back({from, as_text(now == values_.end() ? expected : now->second)});
  if (now != values_.end()) wake(key, replies);
  return "";
}

std::string TorchKeys::add(TorchClient from, const Query& query, Replies& replies) {
  const std::string& key = query.keys.front();
  std::int64_t sum = 0;
  if (std::string why = add_to(key, query.number, sum); !why.empty()) return "ADD " + why;
  if (std::string why = why_no_room(1, key.size() + kCostOfKey); !why.empty()) return why;
  put(key, std::to_string(sum));
  replies.push_back({from, as_bytes(sum)});
  wake(key, replies);
  return "";
}

std::string TorchKeys::append(const Query& query, Replies& replies) {
  const std::string& key = query.keys.front();
  const std::string& value = query.values.front();
  const auto found = values_.find(key);
  if (found == values_.end()) return set_all(query, replies);
  if (std::string why = why_no_room(0, value.size()); !why.empty()) return why;
  if (found->second.size() + value.size() > limits_.value) {
    return fmt::format("APPEND would make the value of {} larger than {} bytes", quoted(key),
                       limits_.value);
  }
  found->second += value;
  bytes_ += value.size();
  wake(key, replies);
  return "";
}

std::string TorchKeys::get_all(TorchClient from, const Query& query, Replies& replies) {
  static const std::string kNothing;
  std::vector<const std::string*> values;
  values.reserve(query.keys.size());
  std::size_t size = 0;
  for (const std::string& key : query.keys) {
    const auto found = values_.find(key);
    values.push_back(found == values_.end() ? &kNothing : &found->second);
    size += sizeof(std::uint64_t) + values.back()->size();
  }
  if (size > limits_.reply) return too_large(query.kind, limits_.reply);
  std::string bytes;
  bytes.reserve(size);
  for (const std::string* value : values) append_text(bytes, *value);
  if (!bytes.empty()) replies.push_back({from, std::move(bytes)});
  return "";
}

std::string TorchKeys::list_keys(TorchClient from, Replies& replies) {
  std::size_t size = sizeof(std::int64_t);
  for (const auto& [key, value] : values_) size += sizeof(std::uint64_t) + key.size();
  if (size > limits_.reply) return too_large(QueryKind::kListKeys, limits_.reply);
  std::string bytes;
  bytes.reserve(size);
  append_number(bytes, static_cast<std::int64_t>(values_.size()));
  for (const auto& [key, value] : values_) append_text(bytes, key);
  replies.push_back({from, std::move(bytes)});
  return "";
}

std::string TorchKeys::wait(TorchClient from, const Query& query, Replies& replies) {
  if (missing_.contains(from)) return "it waits twice at one time";
  std::size_t bytes = 0;
  for (const std::string& key : query.keys) bytes += cost_of_wait(key);
  if (std::string why = why_no_room(0, bytes); !why.empty()) return why;
  for (const std::string& key : query.keys) {
    if (!is_there(key)) await(from, key);
  }
  if (!missing_.contains(from)) replies.push_back({from, {kStopWaiting}});
  return "";
}

// PyTorch counts in the key itself: a barrier whose key was used before lets all clients pass.
std::string TorchKeys::barrier(TorchClient from, const Query& query, Replies& replies) {
  const std::string& key = query.keys.front();
  if (missing_.contains(from)) return "it waits twice at one time";
  std::int64_t count = 0;
  if (std::string why = add_to(key, 1, count); !why.empty()) return "BARRIER " + why;
  if (std::string why = why_no_room(1, kCostOfKey + key.size() + cost_of_wait(key)); !why.empty()) {
    return why;
  }
  put(key, std::to_string(count));
  if (count < query.number) {
    await(from, key);
    return "";
  }
  replies.push_back({from, {kStopWaiting}});
  wake(key, replies);
  return "";
}

std::string TorchKeys::push(Query& query, Replies& replies) {
  const std::string& key = query.keys.front();
  std::string& value = query.values.front();
  const std::size_t bytes = key.size() + value.size() + kCostOfKey;
  if (std::string why = why_no_room(1, bytes); !why.empty()) return why;
  bytes_ += bytes;
  ++queued_;
  queues_[key].push_back(std::move(value));
  wake_one(key, replies);
  return "";
}

// The number of values before, and the first value.
void TorchKeys::pop(TorchClient from, const std::string& key, Replies& replies) {
  std::string bytes = as_bytes(queue_length(key));
  if (const auto found = queues_.find(key); found != queues_.end()) {
    const std::string& first = found->second.front();
    append_text(bytes, first);
    bytes_ -= key.size() + first.size() + kCostOfKey;
    --queued_;
    found->second.pop_front();
    if (found->second.empty()) queues_.erase(found);
  }
  replies.push_back({from, std::move(bytes)});
}

std::int64_t TorchKeys::queue_length(const std::string& key) const {
  const auto found = queues_.find(key);
  return found == queues_.end() ? 0 : static_cast<std::int64_t>(found->second.size());
}

bool TorchKeys::is_there(const std::string& key) const {
  return values_.contains(key) || queues_.contains(key);
}

void TorchKeys::put(const std::string& key, std::string value) {
  bytes_ += value.size();
  const auto [found, is_new] = values_.try_emplace(key);
  if (is_new) {
    bytes_ += key.size() + kCostOfKey;
  } else {
    bytes_ -= found->second.size();
  }
  found->second = std::move(value);
}

bool TorchKeys::erase(const std::string& key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  bytes_ -= key.size() + found->second.size() + kCostOfKey;
  values_.erase(found);
  return true;
}

std::string TorchKeys::why_no_room(std::size_t more_keys, std::size_t more_bytes) const {
  if (bytes_ + more_bytes > limits_.bytes) {
    return fmt::format("the store holds {} bytes, and at most {}", bytes_, limits_.bytes);
  }
  if (values_.size() + queued_ + more_keys > limits_.keys) {
    return fmt::format("the store holds {} keys, and at most {}", values_.size() + queued_,
                       limits_.keys);
  }
  return "";
}

std::string TorchKeys::add_to(const std::string& key, std::int64_t number,
                              std::int64_t& sum) const {
  const auto found = values_.find(key);
  std::int64_t value = 0;
  if (found != values_.end()) {
    // Reads a number as strtoll() does: leading spaces and trailing text are allowed.
    const char* const text = found->second.c_str();
    char* end = nullptr;
    errno = 0;
    value = std::strtoll(text, &end, 10);
    if (end == text || errno == ERANGE) {
      return fmt::format("to {}, whose value is no number", quoted(key));
    }
  }
  if (__builtin_add_overflow(value, number, &sum)) {
    return fmt::format("to {}: {} + {} is more than 64 bits hold", quoted(key), value, number);
  }
  return "";
}

void TorchKeys::await(TorchClient client, const std::string& key) {
  if (!missing_[client].insert(key).second) return;
  waiters_[key].push_back(client);
  bytes_ += cost_of_wait(key);
}

// True if the client has all keys that it waits for.
bool TorchKeys::has_come(TorchClient client, const std::string& key) {
  const auto found = missing_.find(client);
  found->second.erase(key);
  bytes_ -= cost_of_wait(key);
  if (!found->second.empty()) return false;
  missing_.erase(found);
  return true;
}

void TorchKeys::wake(const std::string& key, Replies& replies) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  for (const TorchClient client : found->second) {
    if (has_come(client, key)) replies.push_back({client, {kStopWaiting}});
  }
  waiters_.erase(found);
}

// One value is for one client.
void TorchKeys::wake_one(const std::string& key, Replies& replies) {
  const auto found = waiters_.find(key);
  if (found == waiters_.end()) return;
  std::vector<TorchClient>& clients = found->second;
  std::size_t i = 0;
  bool woken = false;
  while (i < clients.size() && !woken) {
    woken = has_come(clients[i], key);
    if (woken) replies.push_back({clients[i], {kStopWaiting}});
    ++i;
  }
  clients.erase(clients.begin(), clients.begin() + static_cast<std::ptrdiff_t>(i));
  if (clients.empty()) waiters_.erase(found);
}

void TorchKeys::leave(TorchClient client) {
  const auto found = missing_.find(client);
  if (found == missing_.end()) return;
  for (const std::string& key : found->second) {
    const auto waiters = waiters_.find(key);
    std::erase(waiters->second, client);
    bytes_ -= cost_of_wait(key);
    if (waiters->second.empty()) waiters_.erase(waiters);
  }
  missing_.erase(found);
}

}  // namespace dl::launcher
