#include "launcher/jobs/card/job_card.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

#include "core/base/system/machine/limits.h"

namespace dl::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kCardMagic[8] = {'D', 'L', 'J', 'O', 'B', 'C', 'R', 'D'};
constexpr std::uint32_t kCardFormat = 1;
// Linux starts no program with a longer command line.
constexpr std::uint32_t kMostText = 4 << 20;
constexpr std::uint32_t kMostCardRanks = 1 << 20;

struct CardHeader {
  char magic[8] = {};
  std::uint32_t format = 0;
  std::uint32_t text_bytes = 0;
  CardState state = CardState::kStarting;
  std::int32_t attempt = 0;
  std::uint32_t ranks = 0;
  std::uint32_t zero = 0;
};
static_assert(sizeof(CardHeader) == 32);
static_assert(sizeof(CardRank) == 16);

std::size_t place_of_ranks(std::size_t text_bytes) {
  const std::size_t end = sizeof(CardHeader) + text_bytes;
  return (end + sizeof(CardRank) - 1) / sizeof(CardRank) * sizeof(CardRank);
}

std::string text_of(const CardFacts& facts) {
  return Json{{"job", facts.job},           {"host", facts.host},
              {"is_agent", facts.is_agent}, {"node", facts.node ? Json(*facts.node) : Json()},
              {"nodes", facts.nodes},       {"hosts", facts.hosts},
              {"program", facts.program},   {"log_dir", facts.log_dir},
              {"version", facts.version},   {"began_ns", facts.began_ns}}
      // Words of a line may be no UTF-8.
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::optional<CardFacts> facts_of(const std::string& text) {
  try {
    const Json json = Json::parse(std::string_view(text));
    CardFacts facts;
    json.at("job").get_to(facts.job);
    json.at("host").get_to(facts.host);
    json.at("is_agent").get_to(facts.is_agent);
    if (!json.at("node").is_null()) facts.node = json.at("node").get<int>();
    json.at("nodes").get_to(facts.nodes);
    json.at("hosts").get_to(facts.hosts);
    json.at("program").get_to(facts.program);
    json.at("log_dir").get_to(facts.log_dir);
    json.at("version").get_to(facts.version);
    json.at("began_ns").get_to(facts.began_ns);
    return facts;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

bool read_at(int fd, std::span<std::byte> bytes, std::size_t at) {
  return ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)) ==
         static_cast<ssize_t>(bytes.size());
}

bool read_header(int fd, CardHeader& header) {
  return read_at(fd, std::as_writable_bytes(std::span(&header, 1)), 0) &&
         std::memcmp(header.magic, kCardMagic, sizeof kCardMagic) == 0 &&
         header.format == kCardFormat && header.text_bytes <= kMostText &&
         header.ranks <= kMostCardRanks;
}

}  // namespace

JobCard::JobCard(const CardFacts& facts) : most_bytes_(file_size_limit()) {
  const std::string text = text_of(facts);
  text_bytes_ = text.size();
  if (text.size() > kMostText || place_of_ranks(text.size()) > most_bytes_) return;
  UniqueFd fd(::memfd_create(kCardName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::pwrite(fd.get(), text.data(), text.size(), sizeof(CardHeader)) !=
                 static_cast<ssize_t>(text.size())) {
    return;
  }
  ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  fd_ = std::move(fd);
  write_header();
}

void JobCard::set_state(CardState state) {
  state_ = state;
  write_header();
}

void JobCard::attempt_began(int attempt, const std::vector<int>& ranks) {
  if (attempt != attempt_) {
    ranks_.clear();
    places_.clear();
  }
  attempt_ = attempt;
  state_ = CardState::kRunning;
  for (const int rank : ranks) set_rank({.rank = rank});
  write_header();
}

void JobCard::rank_started(int rank, int pid) {
  set_rank({.rank = rank, .pid = pid, .is = CardRank::Is::kRunning});
}

void JobCard::rank_ended(int rank, int pid, int status) {
  set_rank({.rank = rank, .pid = pid, .status = status, .is = CardRank::Is::kEnded});
}

void JobCard::set_rank(const CardRank& rank) {
  const auto [found, is_new] = places_.emplace(rank.rank, ranks_.size());
  if (is_new) ranks_.emplace_back();
  ranks_[found->second] = rank;
  write_rank(found->second);
}

// A write that fails leaves an older state, which is no reason to end a job.
void JobCard::write_header() {
  if (!fd_) return;
  CardHeader header;
  std::ranges::copy(kCardMagic, header.magic);
  header.format = kCardFormat;
  header.text_bytes = static_cast<std::uint32_t>(text_bytes_);
  header.state = state_;
  header.attempt = attempt_;
  header.ranks = static_cast<std::uint32_t>(ranks_.size());
  [[maybe_unused]] const ssize_t n = ::pwrite(fd_.get(), &header, sizeof header, 0);
}

void JobCard::write_rank(std::size_t at) {
  const std::size_t place = place_of_ranks(text_bytes_) + at * sizeof(CardRank);
  if (!fd_ || place + sizeof(CardRank) > most_bytes_) return;
  [[maybe_unused]] const ssize_t n =
      ::pwrite(fd_.get(), &ranks_[at], sizeof(CardRank), static_cast<off_t>(place));
}

std::optional<CardContent> read_card(int fd) {
  CardHeader header;
  if (!read_header(fd, header)) return std::nullopt;
  std::string text(header.text_bytes, '\0');
  if (!read_at(fd, std::as_writable_bytes(std::span(text)), sizeof header)) return std::nullopt;
  std::optional<CardFacts> facts = facts_of(text);
  if (!facts) return std::nullopt;
  CardContent content{.facts = std::move(*facts), .ranks = {}};
  // A next attempt may begin meanwhile. What is read last counts.
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    content.ranks.resize(header.ranks);
    if (!read_at(fd, std::as_writable_bytes(std::span(content.ranks)),
                 place_of_ranks(header.text_bytes))) {
      content.ranks.clear();
    }
    content.state = header.state;
    content.attempt = header.attempt;
    CardHeader after;
    if (!read_header(fd, after)) return std::nullopt;
    if (after.attempt == header.attempt && after.ranks == header.ranks) break;
    header = after;
  }
  std::erase_if(content.ranks, [](const CardRank& rank) {
    return rank.rank < 0 || rank.is > CardRank::Is::kEnded;
  });
  std::ranges::sort(content.ranks, {}, &CardRank::rank);
  return content;
}

}  // namespace dl::launcher
