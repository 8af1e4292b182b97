#include "collectives/nccl/notices.h"

#include <fmt/core.h>

#include <cstdio>
#include <thread>

#include "core/base/log/log.h"

namespace dl::collectives::nccl {
namespace {

using namespace std::chrono_literals;

constexpr auto kStoreTime = 1s;
constexpr auto kNap = 50ms;

std::string ask_key(const std::string& group) {
  return fmt::format("nccl/{}/asked", group);
}
std::string place_key(const std::string& group, int rank) {
  return fmt::format("nccl/{}/at/{}", group, rank);
}

// "QUESTION LAST_CALLED CALL"
std::string text_of(std::int64_t question, const Notices::Place& place) {
  return fmt::format("{} {} {}", question, place.last_called, place.call);
}

bool parse(const std::string& text, std::int64_t& question, Notices::Place& place) {
  unsigned long long last = 0;
  long long number = 0;
  int end = 0;
  if (std::sscanf(text.c_str(), "%lld %llu %n", &number, &last, &end) != 2) return false;
  question = number;
  place = {.last_called = last, .call = text.substr(static_cast<std::size_t>(end))};
  return true;
}

}  // namespace

void Notices::close() noexcept {
  const std::lock_guard lock(mutex_);
  store_ = nullptr;
}

void Notices::answer(const std::string& group, int rank, const Place& place,
                     std::int64_t& asked) noexcept {
  const std::lock_guard lock(mutex_);
  if (store_ == nullptr) return;
  try {
    answer_now(group, rank, place, asked);
  } catch (const std::exception& error) {
    log::debug("group '{}': the others cannot be told where this rank is: {}", group, error.what());
  }
}

void Notices::answer_now(const std::string& group, int rank, const Place& place,
                         std::int64_t& asked) {
  const auto now = store_->try_get(ask_key(group), Deadline::after(kStoreTime));
  const std::int64_t question = now ? std::stoll(*now) : 0;
  if (question <= asked) return;
  store_->set(place_key(group, rank), text_of(question, place), Deadline::after(kStoreTime));
  asked = question;
}

std::optional<std::vector<std::optional<Notices::Place>>> Notices::ask(
    const std::string& group, int rank, int size, const Place& own, std::int64_t& asked,
    std::chrono::milliseconds patience, const std::function<bool()>& stops) noexcept {
  std::vector<std::optional<Place>> places(static_cast<std::size_t>(size));
  try {
    const Deadline until = Deadline::after(patience);
    std::int64_t question = 0;
    {
      const std::lock_guard lock(mutex_);
      if (store_ == nullptr) return std::nullopt;
      question = store_->add(ask_key(group), 1, Deadline::after(kStoreTime));
    }
    for (int missing = size - 1; missing > 0 && !until.has_passed() && !stops();) {
      std::this_thread::sleep_for(kNap);  // the other ranks poll that often
      const std::lock_guard lock(mutex_);
      if (store_ == nullptr) return std::nullopt;
      answer_now(group, rank, own, asked);  // other ranks may ask as well
      for (int r = 0; r < size; ++r) {
        auto& place = places[static_cast<std::size_t>(r)];
        if (r == rank || place) continue;
        const auto text = store_->try_get(place_key(group, r), Deadline::after(kStoreTime));
        std::int64_t answered = 0;
        Place found;
        if (!text || !parse(*text, answered, found) || answered < question) continue;
        place = std::move(found);
        --missing;
      }
    }
  } catch (const std::exception& error) {
    log::debug("group '{}': the others cannot be asked where they are: {}", group, error.what());
    return std::nullopt;
  }
  return places;
}

}  // namespace dl::collectives::nccl
