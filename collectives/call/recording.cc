#include "collectives/call/recording.h"

#include <unistd.h>

#include <array>
#include <cstring>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/profiler/recorder.h"

namespace dl::collectives {
namespace {

template <typename E, std::size_t N, typename Name>
std::array<std::string_view, N> names_of(const Name& name) {
  static_assert(N <= record::kNames, "a recorder's table of names is full");
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = name(static_cast<E>(i));
  return names;
}

std::string_view text_in(std::span<const char> field) noexcept {
  return {field.data(), ::strnlen(field.data(), field.size())};
}

// Adds the span of a finished operation to the profile.
void record_span(const record::Header& header, const record::Group& group, const record::Slot& slot,
                 std::uint64_t ended_at) noexcept {
  if (!profiler::is_recording()) return;
  const std::uint64_t op = slot.kinds.load(std::memory_order_relaxed) & 0xff;
  if (op >= record::kNames) return;
  try {
    std::string name(text_in(group.backend));
    name.append(":").append(text_in(header.ops[op]));
    const std::uint64_t begun_at = slot.enqueued_at.load(std::memory_order_relaxed);
    profiler::record_async(name, profiler::Category::kCommunication,
                           record::tick_time().time_of(begun_at),
                           record::tick_time().time_of(ended_at));
  } catch (...) {  // no memory for a name
  }
}

}  // namespace

record::Names recorded_names() {
  static const auto ops = names_of<OpKind, kOpKindCount>([](OpKind op) { return name_of(op); });
  static const auto dtypes = names_of<DType, kDTypeCount>([](DType d) { return short_name(d); });
  static const auto reduces =
      names_of<ReduceOp, kReduceOpCount>([](ReduceOp op) { return name_of(op); });
  return {.ops = ops, .dtypes = dtypes, .reduces = reduces};
}

std::shared_ptr<record::Recorder> open_recorder(int rank, int world_size,
                                                std::uint64_t generation) {
  if (!env::get_switch(env::Var::kRecorder)) return nullptr;
  record::tick_time();  // starts the measurement of the clock's rate
  record::observe_ends(&record_span);
  if (const auto fd = env::get_int(env::Var::kRecorderFd)) {
    std::string why;
    auto opened = record::Recorder::open(static_cast<int>(*fd), recorded_names(), why);
    if (opened) return opened;
    log::warning("flight recorder: {}; `dlrun autopsy` will not see this rank", why);
  }
  char host[65] = {};
  ::gethostname(host, sizeof host - 1);
  const std::string job = env::get(env::Var::kJobId).value_or("local");
  return record::Recorder::make(
      {.rank = rank, .world_size = world_size, .generation = generation, .host = host, .job = job},
      recorded_names(),
      {.directory = env::get(env::Var::kRecorderDir).value_or(""),
       .failed = [](const std::string& why) { log::warning("flight recorder: {}", why); }});
}

}  // namespace dl::collectives
