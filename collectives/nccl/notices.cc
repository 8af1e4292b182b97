#include "collectives/nccl/notices.h"

#include <fmt/core.h>

#include <sstream>
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

// "QUESTION LAST_CALLED", and the call's numbers if there is one.
std::string text_of(std::int64_t question, const Notices::Place& place) {
  std::string text = fmt::format("{} {}", question, place.last_called);
  if (place.call) {
    const Descriptor& d = *place.call;
    text += fmt::format(" {} {} {} {} {} {}", d.count, d.root, static_cast<int>(d.op),
                        static_cast<int>(d.dtype), static_cast<int>(d.reduce),
                        static_cast<int>(d.order));
  }
  return text;
}

bool parse(const std::string& text, std::int64_t& question, Notices::Place& place) {
  std::istringstream in(text);
  Descriptor d;
  if (!(in >> question >> place.last_called)) return false;
  unsigned op = 0, dtype = 0, reduce = 0, order = 0;
  if (!(in >> d.count >> d.root >> op >> dtype >> reduce >> order)) return true;
  if (op >= kOpKindCount || dtype >= kDTypeCount || reduce >= kReduceOpCount ||
      order > static_cast<unsigned>(Order::kTree)) {
    return false;
  }
  d.sequence = place.last_called;
  d.op = static_cast<OpKind>(op);
  d.dtype = static_cast<DType>(dtype);
  d.reduce = static_cast<ReduceOp>(reduce);
  d.order = static_cast<Order>(order);
  place.call = d;
  return true;
}

}  // namespace

void Notices::close() noexcept {
  const Lock lock(mutex_);
  store_ = nullptr;
}

void Notices::answer(const std::string& group, int rank, const Place& place,
                     std::int64_t& asked) noexcept {
  const Lock lock(mutex_);
  if (store_ == nullptr) return;
  try {
    answer_now(group, rank, place, asked);
  } catch (const std::exception& error) {
    log::debug("group '{}': cannot tell the other ranks this rank's last call: {}", group,
               error.what());
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
      const Lock lock(mutex_);
      if (store_ == nullptr) return std::nullopt;
      question = store_->add(ask_key(group), 1, Deadline::after(kStoreTime));
    }
    for (int missing = size - 1; missing > 0 && !until.has_passed() && !stops();) {
      std::this_thread::sleep_for(kNap);  // the other ranks poll that often
      const Lock lock(mutex_);
      if (store_ == nullptr) return std::nullopt;
      answer_now(group, rank, own, asked);  // other ranks may ask as well
      for (int r = 0; r < size; ++r) {
        auto& place = places[static_cast<std::size_t>(r)];
        if (r == rank || place) continue;
        const auto text = store_->try_get(place_key(group, r), Deadline::after(kStoreTime));
        std::int64_t answered = 0;
        Place found;
        if (!text || !parse(*text, answered, found) || answered < question) continue;
        place = found;
        --missing;
      }
    }
  } catch (const std::exception& error) {
    log::debug("group '{}': cannot ask the other ranks for their last calls: {}", group,
               error.what());
    return std::nullopt;
  }
  return places;
}

}  // namespace dl::collectives::nccl
