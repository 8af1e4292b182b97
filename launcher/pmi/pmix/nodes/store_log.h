// StoreLog: a NoteLog in the job's store. A writer draws the next number and sets the key with this
// number; readers take one key after the other.
//
// Any number of notes that wait to be written become the value of one key.
#pragma once

#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/deadline.h"
#include "core/base/mutex.h"
#include "launcher/pmi/pmix/nodes/note_log.h"
#include "rendezvous/store.h"

namespace dl::pmix {

class StoreLog final : public NoteLog {
 public:
  // Returns the client of the store; throws kTimeout if that takes longer.
  using Connect = std::function<std::unique_ptr<rendezvous::Store>(rendezvous::Deadline)>;

  // Connects in the background. `on_lost`: the store cannot be reached (any more); called once, on
  // the thread of the io_context, whose handlers must not outlive this object.
  StoreLog(boost::asio::io_context& io, Connect connect, std::uint64_t generation,
           NoteReader reader, std::function<void(const std::string& why)> on_lost);
  ~StoreLog() override;

  void write(const Note& note) override;

 private:
  std::shared_ptr<rendezvous::Store> open();
  void read();
  void write_all();
  void lose(const std::string& why);

  boost::asio::io_context& io_;
  const Connect connect_;
  const std::string prefix_;
  NoteReader reader_;
  std::function<void(const std::string&)> on_lost_;

  Mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<rendezvous::Store> store_ DL_GUARDED_BY(mutex_);  // null: not connected yet
  std::vector<std::string> unwritten_ DL_GUARDED_BY(mutex_);
  bool closed_ DL_GUARDED_BY(mutex_) = false;
  bool lost_ DL_GUARDED_BY(mutex_) = false;

  std::thread reads_;
  std::thread writes_;
};

}  // namespace dl::pmix
