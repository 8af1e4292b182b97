#include "collectives/call/descriptor.h"

#include <fmt/core.h>

#include "core/base/text/name_list.h"

namespace dl::collectives {
namespace {

// The finaliser of MurmurHash3: every input bit affects every output bit.
std::uint64_t mix(std::uint64_t h) noexcept {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}

// What the program has called, if the operation is an exchange of the group's own; else empty.
std::string_view purpose_of(const Descriptor& d) noexcept {
  const OpRow& row = row_of(d.op);
  if (row.is_message || row.root != Root::kNone) return {};
  if (d.root == kForSplit) return "split";
  if (d.root == kForAllocate) return "allocate";
  if (d.root == kForRegister) return "register";
  return {};
}

}  // namespace

std::string_view name_of(ReduceOp op) noexcept {
  constexpr std::string_view kNames[kReduceOpCount] = {"sum",  "avg",  "min", "max",
                                                       "prod", "band", "bor", "bxor"};
  return kNames[static_cast<std::size_t>(op)];
}

std::uint32_t hash(const Descriptor& d, std::uint64_t salt) noexcept {
  const std::uint64_t kinds = std::uint64_t{static_cast<std::uint8_t>(d.op)} |
                              std::uint64_t{static_cast<std::uint8_t>(d.dtype)} << 8 |
                              std::uint64_t{static_cast<std::uint8_t>(d.reduce)} << 16 |
                              std::uint64_t{static_cast<std::uint8_t>(d.order)} << 24 |
                              std::uint64_t{static_cast<std::uint32_t>(d.root)} << 32;
  const std::uint64_t h = mix(mix(mix(salt ^ d.sequence) + d.count) ^ kinds ^ mix(d.plan));
  return static_cast<std::uint32_t>(h ^ (h >> 32));
}

std::uint64_t hash_of_group(std::string_view name, std::uint64_t generation) noexcept {
  std::uint64_t h = mix(generation + 1);
  for (const char c : name) h = mix(h ^ static_cast<std::uint8_t>(c));
  return h;
}

std::string title(const Descriptor& d) {
  const std::string_view purpose = purpose_of(d);
  return fmt::format("{} #{}", purpose.empty() ? name_of(d.op) : purpose, d.sequence);
}

std::string payload_text(const Descriptor& d) {
  if (d.op == OpKind::kBarrier || !purpose_of(d).empty()) return {};
  const OpRow& row = row_of(d.op);
  std::string text(short_name(d.dtype));
  if (row.has_common_count) text += fmt::format("[{}]", d.count);
  if (row.reduces) text += fmt::format(" {}", name_of(d.reduce));
  if (d.order == Order::kTree) text += " in tree order";
  if (row.root == Root::kGives) text += fmt::format(" from root {}", d.root);
  if (row.root == Root::kTakes) text += fmt::format(" to root {}", d.root);
  return text;
}

std::string text(const Descriptor& d) {
  const std::string payload = payload_text(d);
  return payload.empty() ? title(d) : fmt::format("{} ({})", title(d), payload);
}

std::string with_operation(const Descriptor& descriptor, std::string_view rest) {
  return fmt::format("{}: {}", text(descriptor), rest);
}

std::string seconds_text(std::chrono::nanoseconds span) {
  const double seconds = std::chrono::duration<double>(span).count();
  return seconds < 1000 ? fmt::format("{:.3g}", seconds) : fmt::format("{:.0f}", seconds);
}

std::string mismatch_text(const Descriptor& theirs, std::string_view theirs_who,
                          const Descriptor& ours, std::string_view ours_who) {
  if (theirs.plan != ours.plan) {
    return fmt::format(
        "{}: {} follows plan {:08x}, {} follows plan {:08x}; are DLRUN_PLAN, DLRUN_ALGORITHM and "
        "dlrun the same on all ranks?",
        title(ours), theirs_who, theirs.plan, ours_who, ours.plan);
  }
  if (title(theirs) == title(ours)) {
    return fmt::format("{}: {} sent {}, {} expects {}; are the models the same on all ranks?",
                       title(ours), theirs_who, payload_text(theirs), ours_who, payload_text(ours));
  }
  return fmt::format(
      "{} called {}, but {} called {}; all ranks must make the same calls in the same order",
      theirs_who, text(theirs), ours_who, text(ours));
}

std::string missing_message_text(const Descriptor& message, std::string_view who, bool is_silent) {
  const auto tag = static_cast<std::uint32_t>(message.root);
  return fmt::format("waiting for {}, which {} (tag {}){}", who,
                     message.op == OpKind::kSend ? "has not received it" : "has not sent it", tag,
                     is_silent ? " and does not answer" : "");
}

std::string missing_sender_text(const Descriptor& message, const std::vector<Identity>& departed) {
  std::vector<std::string> names;
  for (const Identity& who : departed) names.push_back(who.text());
  std::string all = fmt::format("waiting for any rank to send it (tag {})",
                                static_cast<std::uint32_t>(message.root));
  if (names.empty()) return all;
  return fmt::format("{}; {} {} left, which may be why it never came", all,
                     detail::name_list(names), detail::has_or_have(names.size()));
}

std::string text_of_left(std::string_view who, std::string_view group, std::uint64_t called,
                         bool had_called) {
  if (had_called) return fmt::format("{} has left group '{}' in the middle of it", who, group);
  return fmt::format("{} has left group '{}' without calling it (its last call was #{})", who,
                     group, called);
}

std::string unfinished_text(std::string_view who, std::string_view group, const Descriptor& first,
                            std::string_view missing, std::size_t count) {
  return fmt::format(
      "{}: {} exits before it is over{}, {}; call wait() on its Work before main returns: the "
      "other ranks of group '{}' take this exit for a failure",
      text(first), who, count == 1 ? std::string() : fmt::format(" (one of {} operations)", count),
      missing, group);
}

std::string gone_text(std::string_view who, std::string_view link) {
  return fmt::format("{} is gone (its connection is {}); its own output may say why", who, link);
}

std::string part_mismatch_text(const Descriptor& d, std::string_view theirs_who, std::uint64_t sent,
                               std::string_view ours_who, std::uint64_t expected) {
  return fmt::format(
      "{}: {} sends {}[{}], {} expects {}[{}] from it; do the counts agree on both ranks?",
      title(d), theirs_who, short_name(d.dtype), sent, ours_who, short_name(d.dtype), expected);
}

}  // namespace dl::collectives
