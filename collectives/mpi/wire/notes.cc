#include "collectives/mpi/wire/notes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/base/log/log.h"

namespace dl::collectives::mpi {

std::optional<Notes::Read> Notes::read(bool answers) {
  const auto arrived = inbox_.take();
  if (!arrived) return std::nullopt;
  const auto& [source, note] = *arrived;
  switch (note.kind) {
    case Note::Kind::kFailed: {
      auto cause = rendezvous::decode_cause(
          {note.cause, std::min<std::size_t>(note.bytes, sizeof note.cause)});
      DL_CHECK(cause, kInternal, "group '{}': {} broke the group, with a cause that cannot be read",
               group_, peers_.name(source));
      return Read{.broke = std::move(cause)};
    }
    case Note::Kind::kAsk:
      if (answers) send(source, {.kind = Note::Kind::kAnswer});
      break;
    case Note::Kind::kAnswer:
      peers_.set_answered(source);
      peers_.set_called(source, note.last_called);
      break;
    case Note::Kind::kBye:
      peers_.set_left(source);
      peers_.set_called(source, note.last_called);
      break;
  }
  return Read{};
}

void Notes::tell_all(const Cause& cause) noexcept {
  Note note{.kind = Note::Kind::kFailed};
  const std::string bytes = encode(cause, sizeof note.cause);
  note.bytes = static_cast<std::uint16_t>(bytes.size());
  std::memcpy(note.cause, bytes.data(), bytes.size());
  for (int r = 0; r < peers_.size(); ++r) {
    if (r == peers_.rank()) continue;
    try {
      send(r, note);
    } catch (const std::exception& why) {
      log::warning("group '{}': {} cannot be told that it broke: {}", group_, peers_.name(r),
                   why.what());
    }
  }
}

void Notes::send(int to, Note note) {
  note.last_called = peers_.self().last_called;
  const auto* const bytes = reinterpret_cast<const std::byte*>(&note);
  Outgoing::Parcel& parcel = outgoing_.add(
      {.to = to, .memory = std::vector(bytes, bytes + offsetof(Note, cause) + note.bytes)});
  parcel.open = {requests_.send(parcel.memory.data(), parcel.memory.size(), to, kNoteTag)};
}

void Notes::send_to_others(const Note& note) {
  for (int r = 0; r < peers_.size(); ++r) {
    if (r != peers_.rank()) send(r, note);
  }
}

}  // namespace dl::collectives::mpi
