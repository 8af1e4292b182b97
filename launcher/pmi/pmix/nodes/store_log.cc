#include "launcher/pmi/pmix/nodes/store_log.h"

#include <fmt/core.h>

#include <chrono>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "rendezvous/stores/prefix_store.h"

namespace dl::pmix {
namespace {

using rendezvous::Deadline;

// After this time a thread that connects looks whether the log is closed.
constexpr std::chrono::seconds kPatience{10};
// Notes for one key; a store takes values of 16 MiB.
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

std::string key_of(std::uint64_t number) {
  return fmt::format("pmix/notes/{}", number);
}

}  // namespace

StoreLog::StoreLog(boost::asio::io_context& io, Connect connect, std::uint64_t generation,
                   NoteReader reader, std::function<void(const std::string&)> on_lost)
    : io_(io),
      connect_(std::move(connect)),
      prefix_(rendezvous::PrefixStore::generation_prefix(generation)),
      reader_(std::move(reader)),
      on_lost_(std::move(on_lost)),
      reads_([this] { read(); }),
      writes_([this] { write_all(); }) {}

StoreLog::~StoreLog() {
  {
    const Lock lock(mutex_);
    closed_ = true;
    if (store_) store_->close("the job ends");
  }
  changed_.notify_all();
  reads_.join();
  writes_.join();
}

void StoreLog::write(const Note& note) {
  {
    const Lock lock(mutex_);
    unwritten_.push_back(bytes_of(note));
  }
  changed_.notify_all();
}

std::shared_ptr<rendezvous::Store> StoreLog::open() {
  std::shared_ptr<rendezvous::Store> store;
  while (!store) {
    {
      const Lock lock(mutex_);
      if (closed_) return nullptr;
    }
    try {
      store = connect_(Deadline::after(kPatience));
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
    }
  }
  const Lock lock(mutex_);
  if (closed_) return nullptr;
  store_ = store;
  changed_.notify_all();
  return store;
}

void StoreLog::read() try {
  const std::shared_ptr<rendezvous::Store> store = open();
  if (!store) return;
  rendezvous::PrefixStore own(*store, prefix_);
  for (std::uint64_t number = 1;; ++number) {
    const std::string bytes = own.get(key_of(number), Deadline::never());
    std::string_view rest = bytes;
    while (!rest.empty()) {
      const std::optional<Note> note = take_note(rest);
      DL_CHECK(note.has_value(), kParse, "key {} of the store is no note", key_of(number));
      boost::asio::post(io_, [this, note = *note] { reader_(note); });
    }
  }
} catch (const std::exception& error) {
  lose(error.what());
}

void StoreLog::write_all() try {
  std::shared_ptr<rendezvous::Store> store;
  while (true) {
    std::string bytes;
    {
      Lock lock(mutex_);
      changed_.wait(lock.native(), [this]() DL_REQUIRES(mutex_) {
        return closed_ || lost_ || (store_ && !unwritten_.empty());
      });
      if (closed_ || lost_) return;
      store = store_;
      std::size_t taken = 0;
      while (taken < unwritten_.size() && bytes.size() < kMostBytes) bytes += unwritten_[taken++];
      unwritten_.erase(unwritten_.begin(), unwritten_.begin() + static_cast<std::ptrdiff_t>(taken));
    }
    rendezvous::PrefixStore own(*store, prefix_);
    const std::int64_t number = own.add("pmix/notes/count", 1, Deadline::never());
    own.set(key_of(static_cast<std::uint64_t>(number)), bytes, Deadline::never());
  }
} catch (const std::exception& error) {
  lose(error.what());
}

void StoreLog::lose(const std::string& why) {
  {
    const Lock lock(mutex_);
    if (closed_ || std::exchange(lost_, true)) return;
  }
  changed_.notify_all();
  boost::asio::post(io_, [this, why] { on_lost_(why); });
}

}  // namespace dl::pmix
