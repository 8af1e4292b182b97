// Requests: what one group asks of MPI, on its own communicator.
//
// Each call starts a request; its buffers belong to MPI until has_ended() is true. Every call
// throws kConnection with MPI's text if MPI reports an error.
//
// A value of the group's Core; used under its lock.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collectives/call/options.h"
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

  std::size_t small_slice() const noexcept { return mpi_.small_slice; }
  std::size_t least_slice() const noexcept { return mpi_.least_slice; }

  // At most INT_MAX bytes.
  Handle send(const void* from, std::size_t bytes, int to, int tag) {
    return send_by(mpi_.send, from, bytes, to, tag);
  }
  // Ends only after the receiver has matched it.
  Handle send_matched(const void* from, std::size_t bytes, int to, int tag) {
    return send_by(mpi_.send_matched, from, bytes, to, tag);
  }
  // `from`: or kAnySource.
  Handle receive(void* to, std::size_t bytes, int from, int tag);
  Handle all_gather(const void* own, void* all, std::size_t bytes);

  // Any number of bytes: several MPI messages, in order, which are appended to `open`.
  void send_matched_parts(std::vector<Handle>& open, const void* from, std::size_t bytes, int to,
                          int tag);
  void receive_parts(std::vector<Handle>& open, void* to, std::size_t bytes, int from, int tag);

  bool has_ended(Handle& request) { return sender_of(request).has_value(); }
  // Tests at most kMostTested requests: sets each ended request to 0, and returns their number.
  int end_some(std::span<Handle> open);
  // Removes requests that have ended; true if none is left.
  bool have_ended(std::vector<Handle>& open);
  // nullopt: the request has not ended. Only of a receive is it the sender.
  std::optional<int> sender_of(Handle& request);
  // Ends a receive, whether a message has come or not.
  void cancel(Handle request) noexcept;
  void free() noexcept { mpi_.free(comm_); }

 private:
  Handle send_by(decltype(Module::send) how, const void* from, std::size_t bytes, int to, int tag);

  const Module& mpi_;
  const Handle comm_;
  const std::string group_;
};

// A receive of a T from any rank, which is posted again after each, until cancel() or the end of
// its life.
template <typename T>
class Inbox {
 public:
  Inbox(Requests& requests, int tag)
      : requests_(requests),
        tag_(tag),
        request_(requests.receive(&note_, sizeof note_, kAnySource, tag)) {}
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() { cancel(); }

  struct Arrived {
    int source;
    T note;
  };
  std::optional<Arrived> take() {
    // 0: MPI has refused a receive.
    const auto source = request_ != 0 ? requests_.sender_of(request_) : std::nullopt;
    if (!source) return std::nullopt;
    const Arrived arrived{*source, note_};
    request_ = 0;  // the next line may throw
    request_ = requests_.receive(&note_, sizeof note_, kAnySource, tag_);
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
