// Proving: the client's side of one handshake on a connected, non-blocking socket. For connect.cc
// and race.cc. One thread at a time.
#pragma once

#include <string>

#include "core/base/system/unique_fd.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/net/handshake/job_key.h"

namespace dl::rendezvous {

class Proving {
 public:
  Proving(UniqueFd fd, const JobKey& key, const Hello& hello);

  // Proceeds without waiting. Returns the events to poll the socket for, or 0 if the handshake is
  // over.
  short go_on();
  int fd() const noexcept { return fd_.get(); }
  bool has_proved_itself() const noexcept { return handshake_.has_proved_itself(); }

  // Once it is over.
  bool is_proved() const noexcept { return handshake_.state() == Handshake::State::kProved; }
  const Hello& peer() const noexcept { return handshake_.peer(); }
  UniqueFd release() noexcept { return std::move(fd_); }
  // If it failed:
  bool may_retry() const noexcept { return may_retry_; }
  ErrorKind kind() const noexcept { return kind_; }
  const std::string& reason() const noexcept { return reason_; }

 private:
  short lose(int error);

  UniqueFd fd_;
  HandshakeClient handshake_;
  bool may_retry_ = false;
  ErrorKind kind_ = ErrorKind::kConnection;
  std::string reason_;
};

}  // namespace dl::rendezvous
