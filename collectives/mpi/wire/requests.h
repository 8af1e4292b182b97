// Requests: what one group asks of MPI, on its own communicator.
//
// Only MPI's codes and handles are known here. Each call starts requests and appends them to the
// caller's list; the buffers belong to MPI until have_ended() has removed them. Every call throws
// kConnection with MPI's text if MPI reports an error.
//
// A value of the group's Core; used under its lock.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/mpi/module/library.h"
#include "collectives/mpi/module/module.h"

namespace dl::collectives::mpi {

// MPI's tags. Each of dlrun's messages has one of its own, from kFirstPayloadTag up.
inline constexpr int kDataTag = 0;    // data of the running collective
inline constexpr int kNoteTag = 1;    // notes.h
inline constexpr int kHeaderTag = 2;  // MessageHeader
inline constexpr int kFirstPayloadTag = 3;

class Requests {
 public:
  // Owns the communicator until free(). `group`: its name, for errors.
  Requests(const Module& mpi, Handle comm, std::string group)
      : mpi_(mpi), comm_(comm), group_(std::move(group)) {}

  // An MPI message holds at most INT_MAX bytes; a larger transfer is several messages, in order.
  void send(std::vector<Handle>& open, const void* from, std::size_t bytes, int to, int tag) {
    send_by(mpi_.send, open, from, bytes, to, tag);
  }
  // Ends only after the receiver has matched it.
  void send_matched(std::vector<Handle>& open, const void* from, std::size_t bytes, int to,
                    int tag) {
    send_by(mpi_.send_matched, open, from, bytes, to, tag);
  }
  void receive(std::vector<Handle>& open, void* to, std::size_t bytes, int from, int tag);
  // One message of at most so many bytes, from any rank.
  Handle receive_any(void* to, std::size_t bytes, int tag);
  void all_gather(std::vector<Handle>& open, const void* own, void* all, std::size_t bytes);
  void broadcast(std::vector<Handle>& open, void* buffer, std::size_t bytes, int root);

  // Removes requests that have ended; true if none is left.
  bool have_ended(std::vector<Handle>& open);
  // The sender, if this receive has ended.
  std::optional<int> sender_of(Handle& request);
  // Ends a receive, whether a message has come or not.
  void cancel(Handle request) noexcept;
  void free() noexcept { mpi_.free(comm_); }

 private:
  void send_by(decltype(Module::send) how, std::vector<Handle>& open, const void* from,
               std::size_t bytes, int to, int tag);

  const Module& mpi_;
  const Handle comm_;
  const std::string group_;
};

// A receive of a T from any rank, which is posted again after each, until cancel() or its end.
template <typename T>
class Inbox {
 public:
  Inbox(Requests& requests, int tag)
      : requests_(requests), tag_(tag), request_(requests.receive_any(&note_, sizeof note_, tag)) {}
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() { cancel(); }

  struct Arrived {
    int source;
    T note;
  };
  std::optional<Arrived> take() {
    const std::optional<int> source = requests_.sender_of(request_);
    if (!source) return std::nullopt;
    const Arrived arrived{*source, note_};
    request_ = 0;  // the next line may throw
    request_ = requests_.receive_any(&note_, sizeof note_, tag_);
    return arrived;
  }
  void cancel() noexcept {
    if (const Handle open = std::exchange(request_, 0); open != 0) requests_.cancel(open);
  }

 private:
  Requests& requests_;
  const int tag_;
  T note_{};
  Handle request_;  // 0: cancelled
};

}  // namespace dl::collectives::mpi
