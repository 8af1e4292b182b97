// TorchKeys: the contents of PyTorch's TCPStore and its answers: keys, queues, and the clients that
// wait for them.
//
// Semantics are those of PyTorch's libuv server, the server of every client since 2.4. A GET of a
// missing key answers an empty value (clients WAIT first). COMPARE_SET of a missing key answers the
// expected value. A WAIT ends once each of its keys has existed at some time since. No sockets, no
// clock; one thread at a time. One object for each generation: a restart begins with an empty one.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "launcher/torch_store/query.h"

namespace dl::launcher {

using TorchClient = std::uint64_t;

struct TorchReply {
  TorchClient to = 0;
  std::string bytes;
};

class TorchKeys {
 public:
  struct Limits {
    std::size_t bytes = std::size_t{1}
                        << 30;  // of keys and values, with the overhead of keeping them
    std::size_t keys = std::size_t{1} << 20;    // keys, and values in queues
    std::size_t value = std::size_t{64} << 20;  // size of a value that APPEND has made
    std::size_t reply = std::size_t{256} << 20;
  };

  TorchKeys() = default;
  explicit TorchKeys(const Limits& limits) : limits_(limits) {}

  // Executes the query and adds the answers, in order: to its client, and to the clients that it
  // wakes. Returns "", or why the client's connection must be closed, a clause: "ADD to `/x`, whose
  // value is no number". The query has then changed nothing.
  std::string apply(TorchClient from, Query query, std::vector<TorchReply>& replies);
  // To be called when the client's connection is closed: it no longer waits.
  void leave(TorchClient client);

  std::size_t bytes() const noexcept { return bytes_; }
  std::size_t size() const noexcept { return values_.size(); }
  // Number of clients that wait.
  std::size_t waiting() const noexcept { return missing_.size(); }

 private:
  using Replies = std::vector<TorchReply>;

  std::string set_all(const Query& query, Replies& replies);
  std::string compare_set(TorchClient from, Query& query, Replies& replies);
  std::string add(TorchClient from, const Query& query, Replies& replies);
  std::string append(const Query& query, Replies& replies);
  std::string get_all(TorchClient from, const Query& query, Replies& replies);
  std::string wait(TorchClient from, const Query& query, Replies& replies);
  std::string barrier(TorchClient from, const Query& query, Replies& replies);
  std::string push(Query& query, Replies& replies);
  std::string list_keys(TorchClient from, Replies& replies);
  void pop(TorchClient from, const std::string& key, Replies& replies);
  std::int64_t queue_length(const std::string& key) const;

  bool is_there(const std::string& key) const;
  void put(const std::string& key, std::string value);
  bool erase(const std::string& key);
  std::string why_no_room(std::size_t more_keys, std::size_t more_bytes) const;
  // Sets `sum` to the value of `key` plus `number`. Returns why that is impossible, else "".
  std::string add_to(const std::string& key, std::int64_t number, std::int64_t& sum) const;

  void await(TorchClient client, const std::string& key);
  bool has_come(TorchClient client, const std::string& key);
  void wake(const std::string& key, Replies& replies);
  void wake_one(const std::string& key, Replies& replies);

  Limits limits_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::deque<std::string>> queues_;  // none is empty
  std::size_t queued_ = 0;
  std::size_t bytes_ = 0;
  std::unordered_map<TorchClient, std::unordered_set<std::string>> missing_;
  std::unordered_map<std::string, std::vector<TorchClient>> waiters_;  // by key, in order
};

}  // namespace dl::launcher
