// Notes: what ranks tell each other apart from operations: why the group broke, probes and their
// answers, and goodbyes.
//
// A value of the group's Core; used under its lock.
#pragma once

#include <cstdint>
#include <optional>

#include "collectives/mpi/wire/outgoing.h"
#include "collectives/mpi/wire/peers.h"
#include "collectives/mpi/wire/requests.h"
#include "collectives/waiting/group_error.h"

namespace dl::collectives::mpi {

class Notes {
 public:
  // `group`: its name, for errors.
  Notes(Requests& requests, Outgoing& outgoing, Peers& peers, std::string group)
      : requests_(requests), outgoing_(outgoing), peers_(peers), group_(std::move(group)) {}

  struct Read {
    std::optional<Cause> broke{};  // why another rank broke the group
  };
  // Reads one note, if one has come, and answers a probe if `answers`.
  std::optional<Read> read(bool answers);

  // A rank that cannot be told is logged.
  void tell_all(const Cause& cause) noexcept;
  void probe_all() { send_to_others({.kind = Note::Kind::kAsk}); }
  void say_goodbye() { send_to_others({.kind = Note::Kind::kBye}); }

  void cancel() noexcept { inbox_.cancel(); }

 private:
  struct Note {
    enum class Kind : std::uint8_t { kFailed, kAsk, kAnswer, kBye } kind{};
    std::uint16_t bytes = 0;  // of `cause`
    std::uint64_t last_called = 0;
    char cause[2032]{};  // see encode(Cause)
  };
  void send(int to, Note note);
  void send_to_others(const Note& note);

  Requests& requests_;
  Outgoing& outgoing_;
  Peers& peers_;
  const std::string group_;
  Inbox<Note> inbox_{requests_, kNoteTag};
};

}  // namespace dl::collectives::mpi
