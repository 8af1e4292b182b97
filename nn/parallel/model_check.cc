#include "nn/parallel/model_check.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "core/base/error.h"

namespace dl::nn::parallel {
namespace {

// Longer entries are quoted up to this length.
constexpr std::size_t kQuotedBytes = 512;

// FNV-1a over the texts and their terminators (Fowler, Noll, Vo).
std::int64_t hash_of(std::span<const std::string> entries) noexcept {
  std::uint64_t h = 14695981039346656037u;
  const auto mix = [&h](unsigned char byte) { h = (h ^ byte) * 1099511628211u; };
  for (const std::string& entry : entries) {
    for (const char letter : entry) mix(static_cast<unsigned char>(letter));
    mix('\n');
  }
  return static_cast<std::int64_t>(h);
}

std::string joined(std::span<const std::string> entries) {
  std::string text;
  for (const std::string& entry : entries) text += entry + '\n';
  return text;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> entries;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    entries.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return entries;
}

template <std::size_t N>
std::vector<std::array<std::int64_t, N>> gather(collectives::ProcessGroup& group,
                                                const std::array<std::int64_t, N>& own) {
  std::vector<std::array<std::int64_t, N>> all(static_cast<std::size_t>(group.size()));
  group.all_gather({.input = own.data(), .output = all.data(), .count = N, .dtype = DType::kI64})
      ->synchronize();
  return all;
}

void broadcast_text(collectives::ProcessGroup& group, std::string& text, int root) {
  group.broadcast({.buffer = text.data(), .count = text.size(), .dtype = DType::kU8, .root = root})
      ->synchronize();
}

std::string entry_or_nothing(std::span<const std::string> entries, std::size_t i) {
  return i < entries.size() ? entries[i] : "nothing more";
}

}  // namespace

void check_same(collectives::ProcessGroup& group, std::span<const std::string> entries,
                std::string_view what, std::string_view advice) {
  if (group.size() == 1) return;
  std::string text = joined(entries);
  const auto all = gather<2>(group, {hash_of(entries), static_cast<std::int64_t>(text.size())});
  if (std::ranges::all_of(all, [&](const auto& other) { return other == all[0]; })) return;

  // Each rank finds the index of its first difference from rank 0. All ranks report the smallest of
  // these indices.
  if (group.rank() != 0) text.resize(static_cast<std::size_t>(all[0][1]));
  broadcast_text(group, text, 0);
  const std::vector<std::string> first = split(text);
  const auto differs = std::ranges::mismatch(entries, first).in1 - entries.begin();
  const bool same =
      static_cast<std::size_t>(differs) == entries.size() && entries.size() == first.size();
  const auto places =
      gather<1>(group, {same ? std::int64_t{INT64_MAX} : static_cast<std::int64_t>(differs)});
  const auto least = std::ranges::min_element(places);
  const int culprit = static_cast<int>(least - places.begin());
  const auto place = static_cast<std::size_t>((*least)[0]);

  std::string theirs = entry_or_nothing(entries, place);
  theirs.resize(kQuotedBytes, '\0');
  broadcast_text(group, theirs, culprit);
  theirs.resize(std::min(theirs.find('\0'), theirs.size()));
  throw_error(ErrorKind::kMismatch, "{}: rank {} has {}, rank 0 has {} (entry {}); {}", what,
              culprit, theirs, entry_or_nothing(first, place), place + 1, advice);
}

}  // namespace dl::nn::parallel
