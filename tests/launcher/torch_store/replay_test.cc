// Sessions that clients of PyTorch had with PyTorch's own servers (record.py): the agent store
// answers each of them with the same bytes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "launcher/torch_store/query.h"
#include "launcher/torch_store/torch_keys.h"

namespace dl::launcher {
namespace {

std::filesystem::path folder_of_sessions() {
  const char* const source = std::getenv("DLRUN_TEST_SOURCE");
  return std::filesystem::path(source == nullptr ? "." : source) /
         "tests/launcher/torch_store/sessions";
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

class Session {
 public:
  explicit Session(std::size_t piece) : piece_(piece) {}

  void said(TorchClient client, const std::string& bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += piece_) {
      QueryReader& reader = readers_[client];
      reader.feed(std::string_view(bytes).substr(at, piece_));
      while (std::optional<Query> query = reader.next()) {
        ++kinds[query->kind];
        std::vector<TorchReply> replies;
        ASSERT_EQ(keys_.apply(client, std::move(*query), replies), "");
        for (TorchReply& reply : replies) answers[reply.to] += reply.bytes;
      }
      ASSERT_EQ(reader.error(), "");
    }
  }

  std::map<TorchClient, std::string> answers;  // not expected yet
  std::map<QueryKind, int> kinds;

 private:
  std::size_t piece_;
  std::map<TorchClient, QueryReader> readers_;
  TorchKeys keys_;
};

void replay(const std::filesystem::path& path, Session& session) {
  std::ifstream file(path);
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    char side = 0;
    TorchClient client = 0;
    std::string hex;
    words >> side >> client >> hex;
    const std::string bytes = from_hex(hex);
    if (side == 'C') {
      session.said(client, bytes);
    } else {
      std::string& answer = session.answers[client];
      ASSERT_EQ(answer.substr(0, bytes.size()), bytes) << path << ":" << number;
      answer.erase(0, bytes.size());
    }
    if (testing::Test::HasFatalFailure()) return;
  }
  for (const auto& [client, rest] : session.answers) EXPECT_EQ(rest, "") << path << " " << client;
}

TEST(TorchSessions, AreAnsweredWithTheSameBytes) {
  std::map<QueryKind, int> kinds;
  int sessions = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_of_sessions())) {
    for (const std::size_t piece : {std::size_t{1} << 20, std::size_t{1}}) {
      Session session(piece);
      replay(file.path(), session);
      if (HasFatalFailure()) return;
      kinds.merge(session.kinds);
    }
    ++sessions;
  }
  EXPECT_EQ(sessions, 6);  // PyTorch 2.4, 2.8 and 2.15, the old server and libuv's
  for (std::size_t kind = 0; kind < kQueryKinds; ++kind) {
    EXPECT_TRUE(kinds.contains(static_cast<QueryKind>(kind)))
        << name_of(static_cast<QueryKind>(kind)) << " is in no session";
  }
}

}  // namespace
}  // namespace dl::launcher
