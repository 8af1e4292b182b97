// The bytes of the notes between the nodes of a job.
#include "launcher/pmi/pmix/nodes/note.h"

#include <gtest/gtest.h>

namespace dl::pmix {
namespace {

const Note kNote{.kind = Note::Kind::kPublish,
                 .node = 3,
                 .to = 2,
                 .rank = 70000,
                 .number = std::uint64_t{1} << 40,
                 .status = -46,
                 .flag = true,
                 .name = "fence 0,1",
                 .ranks = {0, 1, 4000000000},
                 .texts = {"", std::string("a\0b", 3)}};

TEST(Note, NotesFollowOneAnother) {
  const std::string bytes = bytes_of(kNote) + bytes_of(Note()) + bytes_of(kNote);
  std::string_view rest = bytes;
  EXPECT_EQ(take_note(rest), kNote);
  EXPECT_EQ(take_note(rest), Note());
  EXPECT_EQ(take_note(rest), kNote);
  EXPECT_TRUE(rest.empty());
}

TEST(Note, ACutOrChangedNoteIsNone) {
  const std::string bytes = bytes_of(kNote);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    std::string_view cut = std::string_view(bytes).substr(0, size);
    EXPECT_EQ(take_note(cut), std::nullopt) << size;
    EXPECT_EQ(cut.size(), size);
  }
  // A changed byte gives another note or none, but never one beyond the bytes.
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ 0xff);
    std::string_view rest = changed;
    EXPECT_NE(take_note(rest), kNote) << i;
  }
}

}  // namespace
}  // namespace dl::pmix
