#include "core/profiler/recorder.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/mutex.h"

namespace dl::profiler {

constinit std::atomic<std::uint32_t> detail::recorded{0};

namespace {

using Clock = std::chrono::steady_clock;

std::int64_t ns_of(Clock::time_point time) noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}
std::int64_t now_ns() noexcept {
  return ns_of(Clock::now());
}

struct OpenSpan {
  std::size_t event = 0;
  std::int64_t bytes_before = 0;  // Log::bytes when it began
};

// A thread's log. The thread appends to it; the thread that stops the recording takes its content.
struct Log {
  Mutex mutex;
  std::uint64_t recording_id DL_GUARDED_BY(mutex) = 0;  // the recording of the events
  ThreadLog content DL_GUARDED_BY(mutex);
  std::vector<OpenSpan> open DL_GUARDED_BY(mutex);  // the innermost last
  std::int64_t bytes DL_GUARDED_BY(mutex) =
      0;  // allocated minus freed on this thread in this recording
  std::string joined_name DL_GUARDED_BY(mutex);  // a member, so that its memory is used again
  bool is_over = false;                          // its thread has ended; under the registry's mutex

  std::string_view joined(std::initializer_list<std::string_view> parts) DL_REQUIRES(mutex) {
    joined_name.clear();
    for (const std::string_view part : parts) joined_name += part;
    return joined_name;
  }
};

struct Registry {
  Mutex mutex;
  std::vector<std::unique_ptr<Log>> logs DL_GUARDED_BY(mutex);
  // The number of the current recording, from 1. Atomic: threads read it without the mutex.
  std::atomic<std::uint64_t> recording_id{0};
  std::uint32_t what DL_GUARDED_BY(mutex) = 0;
  std::int64_t begin_ns DL_GUARDED_BY(mutex) = 0;
  std::int64_t main_tid DL_GUARDED_BY(mutex) = 0;
};

// Never destroyed: threads that outlive main() may still end spans.
Registry& registry() {
  static Registry* const made = new Registry;
  return *made;
}

// Has no destructor, so that destructors of other thread-local objects may still record.
struct Own {
  Log* log;
  bool is_over;  // the thread is ending and records nothing more
};
constinit thread_local Own own{};

struct Closer {
  ~Closer() {
    Registry& r = registry();
    const Lock lock(r.mutex);
    own.log->is_over = true;
    own = {.log = nullptr, .is_over = true};
  }
  void arm() noexcept {}
};
thread_local Closer closer;

std::string thread_name() {
  if (::getpid() == ::gettid()) return "main";
  char name[16] = {};
  if (::pthread_getname_np(::pthread_self(), name, sizeof name) != 0) return {};
  return name;
}

// The calling thread's log; null if the thread is ending.
Log* log_of_thread() {
  if (own.is_over) return nullptr;
  if (own.log == nullptr) {
    auto made = std::make_unique<Log>();
    Registry& r = registry();
    const Lock lock(r.mutex);
    r.logs.push_back(std::move(made));
    own.log = r.logs.back().get();
    closer.arm();
  }
  return own.log;
}

// Empties the log at the thread's first event in this recording. Only the log's own thread calls
// it.
void begin_log(Log& log) DL_REQUIRES(log.mutex) {
  const std::uint64_t recording_id = registry().recording_id.load(std::memory_order_acquire);
  if (log.recording_id == recording_id) return;
  log.content = {};
  log.content.tid = ::gettid();
  log.content.name = thread_name();
  log.content.events.reserve(1024);
  log.open.clear();
  log.bytes = 0;
  log.recording_id = recording_id;
}

Event& add_event(Log& log, std::string_view name, Category category) DL_REQUIRES(log.mutex) {
  const std::string_view kept = log.content.keep(name);
  Event& event = log.content.events.emplace_back();
  event.name = kept;
  event.category = category;
  return event;
}

}  // namespace

void Span::begin(std::initializer_list<std::string_view> name, Category category) noexcept {
  try {
    Log* const log = log_of_thread();
    if (log == nullptr) return;
    const Lock lock(log->mutex);
    begin_log(*log);
    if (log->open.size() == log->open.capacity()) log->open.reserve(2 * log->open.size() + 16);
    Event& event = add_event(*log, name.size() == 1 ? *name.begin() : log->joined(name), category);
    if (!log->open.empty()) event.parent = static_cast<std::int64_t>(log->open.back().event);
    event_ = log->content.events.size() - 1;
    log->open.push_back({event_, log->bytes});
    recording_id_ = log->recording_id;
    event.begin_ns = now_ns();
  } catch (...) {  // no memory for it
  }
}

void Span::end() noexcept {
  const std::int64_t now = now_ns();
  if (own.log == nullptr) return;
  Log& log = *own.log;
  const Lock lock(log.mutex);
  if (log.recording_id != recording_id_) return;  // stop_recording() has ended this span already
  // Spans usually end innermost first. A span inside this one that is still open stays open.
  const auto at = std::ranges::find(log.open.rbegin(), log.open.rend(), event_, &OpenSpan::event);
  if (at == log.open.rend()) return;
  Event& event = log.content.events[event_];
  event.end_ns = now;
  event.bytes = log.bytes - at->bytes_before;
  log.open.erase(std::next(at).base());
}

void Span::add_flops(std::int64_t flops) noexcept {
  if (recording_id_ == 0 || own.log == nullptr) return;
  const Lock lock(own.log->mutex);
  if (own.log->recording_id == recording_id_) own.log->content.events[event_].flops += flops;
}

void Span::add_shape(std::span<const std::int64_t> sizes) noexcept {
  if (recording_id_ == 0 || own.log == nullptr) return;
  const Lock lock(own.log->mutex);
  if (own.log->recording_id != recording_id_) return;
  std::vector<std::int64_t>& shapes = own.log->content.shapes;
  Event& event = own.log->content.events[event_];
  const std::size_t begin = shapes.size();
  try {
    shapes.push_back(static_cast<std::int64_t>(sizes.size()));
    shapes.insert(shapes.end(), sizes.begin(), sizes.end());
  } catch (...) {  // no memory for it
    shapes.resize(begin);
    return;
  }
  if (event.shapes++ == 0) event.first_shape = static_cast<std::uint32_t>(begin);
}

void record_async(std::string_view name, Category category, Clock::time_point begin,
                  Clock::time_point end) noexcept {
  if (!is_recording()) return;
  try {
    Log* const log = log_of_thread();
    if (log == nullptr) return;
    const Lock lock(log->mutex);
    begin_log(*log);
    Event& event = add_event(*log, name, category);
    event.is_async = true;
    event.begin_ns = ns_of(begin);
    event.end_ns = std::max(event.begin_ns, ns_of(end));
  } catch (...) {  // no memory for it
  }
}

void detail::count_memory(std::int64_t bytes) noexcept {
  if (bytes == 0) return;  // device, pinned or foreign memory
  try {
    Log* const log = log_of_thread();
    if (log == nullptr) return;
    const Lock lock(log->mutex);
    begin_log(*log);
    log->bytes += bytes;
    if (!log->open.empty()) return;
    Event& event = add_event(*log, "[memory]", Category::kMemory);
    event.begin_ns = event.end_ns = now_ns();
    event.bytes = bytes;
  } catch (...) {  // no memory for it
  }
}

void start_recording(std::uint32_t what) noexcept {
  Registry& r = registry();
  const Lock lock(r.mutex);
  r.what = what | kRecordSpans;
  r.main_tid = ::gettid();
  r.begin_ns = now_ns();
  r.recording_id.fetch_add(1, std::memory_order_release);
  detail::recorded.store(r.what, std::memory_order_relaxed);
}

Recording stop_recording() {
  Registry& r = registry();
  const Lock lock(r.mutex);
  detail::recorded.store(0, std::memory_order_relaxed);
  Recording result;
  const std::uint64_t recording_id = r.recording_id.load(std::memory_order_relaxed);
  result.begin_ns = r.begin_ns;
  result.end_ns = now_ns();
  result.epoch_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count() -
                    result.end_ns;
  result.main_tid = r.main_tid;
  result.has_shapes = (r.what & kRecordShapes) != 0;
  result.has_memory = (r.what & kRecordMemory) != 0;
  result.has_flops = (r.what & kRecordFlops) != 0;
  for (const std::unique_ptr<Log>& log : r.logs) {
    const Lock log_lock(log->mutex);
    if (log->recording_id != recording_id) continue;
    for (const OpenSpan& span : log->open) {
      Event& event = log->content.events[span.event];
      event.end_ns = std::max(event.begin_ns, result.end_ns);  // it may have begun after end_ns
      event.bytes = log->bytes - span.bytes_before;
    }
    log->recording_id = 0;
    log->open.clear();
    result.threads.push_back(std::exchange(log->content, {}));
  }
  std::erase_if(r.logs, [](const std::unique_ptr<Log>& log) { return log->is_over; });
  // The thread that started the recording comes first, then the others by their first event.
  const auto rank = [&](const ThreadLog& log) {
    const std::int64_t first = log.tid == result.main_tid ? 0
                               : log.events.empty()       ? result.end_ns
                                                          : log.events.front().begin_ns;
    return std::pair(first, log.tid);
  };
  std::ranges::sort(result.threads, {}, rank);
  return result;
}

std::vector<SelfShare> self_shares(const ThreadLog& log) {
  std::vector<SelfShare> shares(log.events.size());
  for (std::size_t i = 0; i < log.events.size(); ++i) {
    const Event& event = log.events[i];
    if (event.is_async) continue;
    shares[i].ns += event.duration_ns();
    shares[i].bytes += event.bytes;
    if (event.parent < 0) continue;
    const auto parent = static_cast<std::size_t>(event.parent);
    // A span may end later than its parent; only the time until the parent's end counts.
    const std::int64_t inside = std::min(event.end_ns, log.events[parent].end_ns) - event.begin_ns;
    shares[parent].ns -= std::max<std::int64_t>(0, inside);
    shares[parent].bytes -= event.bytes;
  }
  for (SelfShare& share : shares) share.ns = std::max<std::int64_t>(0, share.ns);
  return shares;
}

}  // namespace dl::profiler
