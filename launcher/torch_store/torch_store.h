// TorchStore: the agent store. dlrun serves PyTorch's TCPStore at MASTER_ADDR:MASTER_PORT for one
// generation of ranks. So TORCHELASTIC_USE_AGENT_STORE=True holds, and the store survives rank 0's
// death. It is separate from dlrun's own store, and the one service of a job without a key, because
// the protocol has none.
//
// It listens from the constructor on. It accepts, reads and answers in the io_context's thread, and
// never blocks. A job that never connects costs one listening socket. The destructor closes
// everything. The object may be destroyed in any handler except its own, and io_context must
// outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/torch_store/torch_keys.h"
#include "rendezvous/net/socket/socket.h"

namespace dl::launcher {

struct TorchStoreOptions {
  std::size_t most_connections = 1024;
  TorchKeys::Limits keys{};
  // Shows one sentence to the user.
  std::function<void(const std::string&)> say{};
};

// The number of connections for every rank of such a job, and at most half of this process's
// descriptors.
std::size_t connections_for(int world_size);

class TorchStore {
 public:
  // `listeners`: at least one, all at one port.
  TorchStore(boost::asio::io_context& io, std::vector<rendezvous::Listener> listeners,
             TorchStoreOptions options);
  ~TorchStore();
  TorchStore(const TorchStore&) = delete;
  TorchStore& operator=(const TorchStore&) = delete;

  std::uint16_t port() const noexcept { return doors_.front()->listener.port(); }
  // True if a client has ever proved that it speaks the protocol.
  bool was_used() const noexcept { return was_used_; }

 private:
  struct Connection;
  struct Door {
    Door(boost::asio::io_context& io, rendezvous::Listener at);
    ~Door();

    rendezvous::Listener listener;
    boost::asio::posix::stream_descriptor events;
    boost::asio::steady_timer pause;  // if no descriptors are left
  };

  void wait_for_clients(Door& door);
  void accept(Door& door);
  void make_room();
  void wait_to_read(TorchClient id);
  void read(TorchClient id);
  void carry_out(TorchClient id);
  void send(Connection& to, std::string bytes);
  // Returns false if the connection is gone.
  bool write(Connection& connection);
  void close(TorchClient id);
  // Also shows a sentence to the user.
  void close(TorchClient id, const std::string& why);
  void say(const std::string& line);
  Connection* find(TorchClient id);

  std::vector<std::unique_ptr<Door>> doors_;
  boost::asio::io_context& io_;
  TorchStoreOptions options_;
  TorchKeys keys_;
  std::map<TorchClient, std::unique_ptr<Connection>> connections_;  // the oldest first
  TorchClient last_id_ = 0;
  std::size_t unsent_ = 0;  // bytes, of all connections
  std::size_t unread_ = 0;
  int said_ = 0;
  bool was_used_ = false;
  bool said_dlrun_ = false;  // that a dlrun has connected
  // A handler that is queued when this object or its connection ends still runs. It notices by this
  // pointer (hence shared_ptr), and by the connection's number.
  std::shared_ptr<TorchStore*> life_ = std::make_shared<TorchStore*>(this);
};

}  // namespace dl::launcher
