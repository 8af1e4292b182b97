#include "collectives/join/agree.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "core/base/error.h"

namespace dl::collectives {
namespace {

std::string vote_key(std::string_view name, int rank) {
  return fmt::format("agree/vote/{}/{}", rank, name);
}

// A prefix of its own: otherwise the agreement `a/0` would use the key of rank 0's vote on `a`.
std::string answer_key(std::string_view name) {
  return fmt::format("agree/answer/{}", name);
}

// "1", "0 3 7": the flag, then the missing ranks.
std::string encode(const Agreement& agreement) {
  std::string text = agreement.flag ? "1" : "0";
  for (const int rank : agreement.missing) text += fmt::format(" {}", rank);
  return text;
}

Agreement decode(std::string_view text) {
  Agreement agreement{.flag = text.starts_with('1')};
  text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  while (!text.empty()) {
    text.remove_prefix(1);
    int rank = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
    DL_CHECK(error == std::errc(), kParse, "agree: the store has '{}', wanted a list of ranks",
             text);
    agreement.missing.push_back(rank);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return agreement;
}

// Waits until all votes are there, or patience ends.
void wait_for_all(rendezvous::Store& store, const AgreeOptions& o, Deadline patience) {
  std::vector<std::string> keys;
  for (int r = 0; r < o.size; ++r) keys.push_back(vote_key(o.name, r));
  try {
    store.wait(keys, patience);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout) throw;
  }
}

}  // namespace

Agreement agree(rendezvous::Store& store, const AgreeOptions& o, Deadline patience,
                Deadline deadline) {
  DL_CHECK(!o.name.empty() && o.name.size() <= 128, kInvalidArgument,
           "agree: a name has 1 to 128 bytes, got '{}'", o.name);
  DL_CHECK(o.size >= 1 && o.rank >= 0 && o.rank < o.size, kInvalidArgument,
           "agree: rank is {} of {}", o.rank, o.size);
  const std::string answer = answer_key(o.name);
  store.set(vote_key(o.name, o.rank), o.flag ? "1" : "0", deadline);
  // A late rank finds the answer, and need not wait for ranks that never come.
  if (const auto found = store.try_get(answer, deadline)) return decode(*found);
  wait_for_all(store, o, Deadline::earlier(patience, deadline));
  Agreement seen{.flag = true};
  for (int r = 0; r < o.size; ++r) {
    const auto vote = store.try_get(vote_key(o.name, r), deadline);
    if (!vote) {
      seen.missing.push_back(r);
    } else {
      seen.flag = seen.flag && *vote == "1";
    }
  }
  const auto swap = store.compare_and_set(answer, std::nullopt, encode(seen), deadline);
  return swap.swapped ? seen : decode(swap.present.value_or(""));
}

}  // namespace dl::collectives
