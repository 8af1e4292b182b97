#include "launcher/pmi/pmix/nodes/note.h"

#include "rendezvous/net/wire.h"

namespace dl::pmix {
namespace {

using rendezvous::WireReader;
using rendezvous::WireWriter;

std::span<const std::uint8_t> span_of(std::string_view bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

void put_long(WireWriter& to, std::string_view text) {
  to.put(static_cast<std::uint32_t>(text.size()));
  to.put_bytes(span_of(text));
}

std::string take_long(WireReader& from) {
  const auto bytes = from.take_bytes(from.take<std::uint32_t>());
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::string bytes_of(const Note& note) {
  WireWriter body;
  body.put(static_cast<std::uint8_t>(note.kind));
  body.put(note.node);
  body.put(note.to);
  body.put(note.rank);
  body.put(note.number);
  body.put(note.status);
  body.put(static_cast<std::uint8_t>(note.flag));
  put_long(body, note.name);
  body.put(static_cast<std::uint32_t>(note.ranks.size()));
  for (const std::uint32_t rank : note.ranks) body.put(rank);
  for (const std::string& text : note.texts) put_long(body, text);
  WireWriter whole;
  const auto bytes = body.bytes();
  put_long(whole, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  return {whole.bytes().begin(), whole.bytes().end()};
}

std::optional<Note> take_note(std::string_view& bytes) {
  constexpr std::size_t kSize = sizeof(std::uint32_t);
  if (bytes.size() < kSize) return std::nullopt;
  const auto size = WireReader(span_of(bytes.substr(0, kSize))).take<std::uint32_t>();
  if (size > bytes.size() - kSize) return std::nullopt;
  std::string_view rest = bytes.substr(kSize, size);
  WireReader reader(span_of(rest));
  Note note;
  const auto kind = reader.take<std::uint8_t>();
  if (kind > static_cast<std::uint8_t>(Note::Kind::kUnpublish)) return std::nullopt;
  note.kind = static_cast<Note::Kind>(kind);
  note.node = reader.take<std::uint32_t>();
  note.to = reader.take<std::uint32_t>();
  note.rank = reader.take<std::uint32_t>();
  note.number = reader.take<std::uint64_t>();
  note.status = reader.take<std::int32_t>();
  const auto flag = reader.take<std::uint8_t>();
  if (flag > 1) return std::nullopt;
  note.flag = flag != 0;
  note.name = take_long(reader);
  const auto ranks = reader.take<std::uint32_t>();
  if (ranks > rest.size() / sizeof(std::uint32_t)) return std::nullopt;
  for (std::uint32_t i = 0; i < ranks; ++i) note.ranks.push_back(reader.take<std::uint32_t>());
  // Each text takes its length at least, so this ends.
  for (std::size_t i = 0; i < rest.size() / kSize && !reader.ok_and_done(); ++i) {
    note.texts.push_back(take_long(reader));
  }
  if (!reader.ok_and_done()) return std::nullopt;
  bytes.remove_prefix(kSize + size);
  return note;
}

}  // namespace dl::pmix
