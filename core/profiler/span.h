// Span: a part of a thread's time as a profile shows it.
//
//     const profiler::record_function span("model_inference");  // to the end of the scope
//
// Without a recording (recorder.h), a span costs one relaxed load. During one, each thread writes
// to its own log. A span's parent is the innermost span that is open on its thread. The end of the
// recording ends all open spans.
//
// Thread-safety: everything here may be used from any thread; a span must end on the thread that
// began it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>

namespace dl::profiler {

// The kind of a span.
enum class Category : std::uint8_t {
  kOperation,      // a call of a kernel
  kBackward,       // a node of a backward pass
  kUser,           // a span of the program's own
  kStep,           // between two calls of Profile::step()
  kOptimizer,      // Optimizer::step() and zero_grad()
  kData,           // waiting for a batch, or reading one
  kCommunication,  // a call of a collective, waiting for one, or (async) one that is under way
  kMemory,         // memory that was allocated or freed outside of all spans
};
// The category's name in traces: "cpu_op", "user_annotation", ...
std::string_view name_of(Category category) noexcept;

// The contents of a recording, as bits.
enum : std::uint32_t { kRecordSpans = 1, kRecordShapes = 2, kRecordMemory = 4, kRecordFlops = 8 };

namespace detail {
extern constinit std::atomic<std::uint32_t> recorded;  // the bits of this recording; 0: none
}

inline bool is_recording(std::uint32_t what = kRecordSpans) noexcept {
  return (detail::recorded.load(std::memory_order_relaxed) & what) != 0;
}

class Span {
 public:
  // Copies the name. If there is no memory for the copy, the span is not recorded.
  explicit Span(std::string_view name, Category category = Category::kUser) noexcept {
    if (is_recording()) [[unlikely]]
      begin({name}, category);
  }
  // Takes a name in parts, and joins them only during a recording: {"Optimizer.step#", name,
  // ".step"}.
  Span(std::initializer_list<std::string_view> name, Category category) noexcept {
    if (is_recording()) [[unlikely]]
      begin(name, category);
  }
  ~Span() {
    if (recording_id_ != 0) [[unlikely]]
      end();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

  // These do nothing if the span is not recorded. add_shape() gives the sizes of the next input.
  void add_flops(std::int64_t flops) noexcept;
  void add_shape(std::span<const std::int64_t> sizes) noexcept;

 private:
  void begin(std::initializer_list<std::string_view> name, Category category) noexcept;
  void end() noexcept;

  std::uint64_t recording_id_ = 0;  // the recording's number; 0: not recorded
  std::size_t event_ = 0;           // index in the thread's log
};

// A span of the user's program, like torch.profiler.record_function.
using record_function = Span;

namespace detail {
void count_memory(std::int64_t bytes) noexcept;
}
// Records that the calling thread allocated tensor memory, or freed it (a negative number).
inline void note_memory(std::int64_t bytes) noexcept {
  if (is_recording(kRecordMemory)) [[unlikely]]
    detail::count_memory(bytes);
}

}  // namespace dl::profiler
