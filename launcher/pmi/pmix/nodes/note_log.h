// NoteLog: the notes of all nodes of a job, in one order, which is the same on every node.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <utility>

#include "launcher/pmi/pmix/nodes/note.h"

namespace dl::pmix {

class NoteLog {
 public:
  virtual ~NoteLog() = default;
  // The reader of each node gets the note, this node's too. Never blocks.
  virtual void write(const Note& note) = 0;
};

// Called on the thread of the io_context, never inside write().
using NoteReader = std::function<void(const Note&)>;

// The log of a job of one node. The io_context's handlers must not outlive it.
class OwnLog final : public NoteLog {
 public:
  OwnLog(boost::asio::io_context& io, NoteReader reader) : io_(io), reader_(std::move(reader)) {}
  void write(const Note& note) override {
    boost::asio::post(io_, [this, note] { reader_(note); });
  }

 private:
  boost::asio::io_context& io_;
  NoteReader reader_;
};

}  // namespace dl::pmix
