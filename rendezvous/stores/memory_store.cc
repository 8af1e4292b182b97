#include "rendezvous/stores/memory_store.h"

#include <condition_variable>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/mutex.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/stores/key_table.h"
#include "rendezvous/stores/store_checks.h"

namespace dl::rendezvous {
namespace {

// One blocking call: its thread sleeps here until the table calls back.
class Sleeper {
 public:
  KeyTable::Done done() {
    return [this](KeyTable::Result result) {
      const Lock lock(mutex_);
      result_ = std::move(result);
      woken_.notify_one();
    };
  }

  // Waits for the callback of `ticket`; `describe` returns what is missing. Throws kTimeout and
  // kAborted.
  KeyTable::Result sleep(KeyTable& table, KeyTable::Ticket ticket, Deadline deadline,
                         Patience patience, const std::function<std::string()>& describe) {
    Lock lock(mutex_);
    const auto is_done = [&]() DL_REQUIRES(mutex_) { return result_.has_value(); };
    while (!woken_.wait_until(lock.native(), patience.until(deadline).when(), is_done)) {
      lock.unlock();
      const bool late = deadline.has_passed();
      if (late || patience.should_warn()) {
        const std::string text = describe();
        if (!late) log::warning("{}", text);
        if (late && table.cancel(ticket)) throw Error(ErrorKind::kTimeout, text);
      }
      lock.lock();
      // Too late to cancel: the callback will run, and this object must outlive it.
      if (late) wait_until(woken_, lock.native(), Deadline::never(), is_done);
    }
    if (result_->closed) {
      throw_error(ErrorKind::kAborted, "store: closed: {}", *result_->closed);
    }
    return std::move(*result_);
  }

 private:
  Mutex mutex_;
  std::condition_variable woken_;
  std::optional<KeyTable::Result> result_ DL_GUARDED_BY(mutex_);
};

}  // namespace

MemoryStore::MemoryStore(std::chrono::nanoseconds warn_after)
    : table_(std::make_unique<KeyTable>()), warn_after_(warn_after) {}

MemoryStore::~MemoryStore() = default;

void MemoryStore::set(std::string_view key, std::string_view value, Deadline) {
  check_key("set", key);
  check_value("set", key, value);
  table_->set(key, value);
}

std::string MemoryStore::get(std::string_view key, Deadline deadline) {
  check_key("get", key);
  Sleeper sleeper;
  const auto start = Deadline::Clock::now();
  const std::vector<std::string> keys{std::string(key)};
  const KeyTable::Ticket ticket = table_->when_value(keys.front(), sleeper.done());
  return sleeper
      .sleep(*table_, ticket, deadline, Patience(warn_after_),
             [&] { return missing_text("get", keys, 1, start); })
      .value;
}

std::optional<std::string> MemoryStore::try_get(std::string_view key, Deadline) {
  check_key("try_get", key);
  return table_->find(key);
}

void MemoryStore::wait(std::span<const std::string> keys, Deadline deadline) {
  for (const std::string& key : keys) check_key("wait", key);
  Sleeper sleeper;
  const auto start = Deadline::Clock::now();
  const std::vector<std::string> wanted(keys.begin(), keys.end());
  const KeyTable::Ticket ticket = table_->when_present(wanted, sleeper.done());
  sleeper.sleep(*table_, ticket, deadline, Patience(warn_after_), [&] {
    return missing_text("wait", table_->missing(wanted), wanted.size(), start);
  });
}

std::int64_t MemoryStore::add(std::string_view key, std::int64_t delta, Deadline) {
  check_key("add", key);
  return table_->add(key, delta);
}

Store::Swap MemoryStore::compare_and_set(std::string_view key,
                                         const std::optional<std::string>& expected,
                                         std::string_view desired, Deadline) {
  check_key("compare_and_set", key);
  check_value("compare_and_set", key, desired);
  return table_->compare_and_set(key, expected, desired);
}

void MemoryStore::close(std::string_view reason) noexcept {
  table_->close(reason);
}

}  // namespace dl::rendezvous
