#include "core/device/cuda/cuda.h"

#include <array>
#include <atomic>
#include <map>
#include <utility>
#include <vector>

#include "core/base/env.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "core/base/text/number.h"
#include "core/device/cuda/graph.h"
#include "core/device/cuda/module/module.h"
#include "core/device/cuda/watched_error.h"

namespace dl::cuda {
namespace {

constinit thread_local int device_of_thread = 0;
// Null: the device's default stream.
constinit thread_local std::array<void*, kMostDevices> stream_of_thread{};

constinit std::array<std::atomic<void*>, kMostDevices> default_streams{};
constinit Mutex default_streams_mutex;

constinit std::atomic<int> first_device{-1};

// CUDA streams without an owner, by device and priority.
struct SpareStreams {
  Mutex mutex;
  std::map<std::pair<int, bool>, std::vector<void*>> streams DL_GUARDED_BY(mutex);
};
SpareStreams& spare() {
  static auto* const all = new SpareStreams;  // never destroyed: a static object may own a stream
  return *all;
}

bool is_captured(void* stream) noexcept {
  try {
    return runtime().capture_state(stream) != CaptureState::kNone;
  } catch (const Error&) {  // the device is lost, and its streams with it
    return true;
  }
}

constexpr const char* kNoWait =
    "a captured step cannot wait for the device (item(), printing, synchronize())";

void check_index(int device) {
  const int count = std::min(runtime().device_count(), kMostDevices);
  DL_CHECK(device >= 0 && device < count, kInvalidArgument,
           "cuda:{}: this process sees {} device{}, cuda:0{}", device, count, count == 1 ? "" : "s",
           count == 1 ? "" : " to cuda:" + std::to_string(count - 1));
}

void note_use(int device) noexcept {
  int none = -1;
  first_device.compare_exchange_strong(none, device, std::memory_order_relaxed);
}

std::size_t slot(int device) {
  DL_CHECK(device >= 0 && device < kMostDevices, kInvalidArgument,
           "cuda:{}: a device is a number from 0 to {}", device, kMostDevices - 1);
  return static_cast<std::size_t>(device);
}

void throw_errors(int device) {
  if (const std::exception_ptr error = error_on(device)) std::rethrow_exception(error);
}

Stream stream_on(int device, void* handle) {
  return {{DeviceType::kCUDA, static_cast<std::int16_t>(device)}, handle};
}

}  // namespace

bool is_available() noexcept {
  return device_count() > 0;
}

int device_count() noexcept {
  try {
    return runtime().device_count();
  } catch (const Error&) {
    return 0;
  }
}

DeviceProperties get_device_properties(int device) {
  check_index(device);
  return runtime().properties(device);
}

int current_device() noexcept {
  return device_of_thread;
}

void set_device(int device) {
  check_index(device);
  note_use(device);
  device_of_thread = device;
}

void synchronize() {
  synchronize(current_device());
}

void synchronize(int device) {
  refuse_in_capture(kNoWait);
  check_index(device);
  runtime().synchronize_device(device);
  throw_errors(device);
}

Stream default_stream(int device) {
  std::atomic<void*>& known = default_streams[slot(device)];
  if (void* const handle = known.load(std::memory_order_acquire)) return stream_on(device, handle);
  check_index(device);
  note_use(device);
  const Lock lock(default_streams_mutex);
  if (known.load(std::memory_order_relaxed) == nullptr) {
    runtime().check_device(device);
    known.store(runtime().make_stream(device, false), std::memory_order_release);
  }
  return stream_on(device, known.load(std::memory_order_relaxed));
}

Stream current_stream(int device) {
  void* const handle = stream_of_thread[slot(device)];
  return handle != nullptr ? stream_on(device, handle) : default_stream(device);
}

void set_stream(const Stream& stream) {
  DL_CHECK(stream.device.type == DeviceType::kCUDA, kInvalidArgument,
           "set_stream: a stream of the {} came, wanted one of a CUDA device", stream.device.str());
  stream_of_thread[slot(stream.device.index)] = stream.handle;
}

void synchronize(const Stream& stream) {
  if (stream.device.type != DeviceType::kCUDA) return;
  refuse_in_capture(kNoWait);
  runtime().synchronize_stream(stream.handle);
  throw_errors(stream.device.index);
}

void join(const Stream& waiting, const Stream& stream) {
  Event event(stream.device.index);
  event.record(stream);
  event.wait(waiting);
}

DeviceGuard::DeviceGuard(int device) : before_(current_device()) {
  if (device != before_) set_device(device);
}

DeviceGuard::~DeviceGuard() {
  device_of_thread = before_;
}

StreamGuard::StreamGuard(const Stream& stream)
    : before_(current_stream(stream.device.index)), device_before_(current_device()) {
  set_stream(stream);
  device_of_thread = stream.device.index;
}

StreamGuard::~StreamGuard() {
  stream_of_thread[static_cast<std::size_t>(before_.device.index)] = before_.handle;
  device_of_thread = device_before_;
}

OwnedStream::OwnedStream(int device, bool high_priority) : high_priority_(high_priority) {
  check_index(device);
  note_use(device);
  {
    const Lock lock(spare().mutex);
    std::vector<void*>& free = spare().streams[{device, high_priority}];
    if (!free.empty()) {
      stream_ = stream_on(device, free.back());
      free.pop_back();
      return;
    }
  }
  runtime().check_device(device);
  stream_ = stream_on(device, runtime().make_stream(device, high_priority));
}

OwnedStream::~OwnedStream() {
  if (stream_.handle == nullptr) return;
  if (is_captured(stream_.handle)) {  // unusable until the capture by another stream ends
    runtime().destroy_stream(stream_.handle);
    return;
  }
  const Lock lock(spare().mutex);
  spare().streams[{stream_.device.index, high_priority_}].push_back(stream_.handle);
}

Event::Event(int device, bool timing) : event_(runtime().make_event(device, timing)) {}

Event::~Event() {
  if (event_ != nullptr) runtime().destroy_event(event_);
}

void Event::record(const Stream& stream) {
  runtime().record_event(event_, stream.handle);
}

void Event::wait(const Stream& stream) const {
  runtime().wait_event(stream.handle, event_);
}

bool Event::query() const {
  return runtime().query_event(event_);
}

void Event::synchronize() const {
  refuse_in_capture(kNoWait);
  runtime().synchronize_event(event_);
}

float Event::elapsed_ms(const Event& end) const {
  return runtime().elapsed_ms(event_, end.event_);
}

int home_device() {
  const int first = first_device.load(std::memory_order_relaxed);
  return first >= 0 ? first : rank_device().index;
}

Device rank_device() {
  int index = 0;
  if (const auto gpus = env::get(env::Var::kGpus)) {
    const std::optional<int> first = read_number<int>(gpus->substr(0, gpus->find(',')));
    DL_CHECK(first.has_value(), kInvalidArgument,
             "DLRUN_GPUS={}: wanted numbers of devices, as 2 or 2,3", *gpus);
    index = *first;
  } else {
    const std::int64_t local_rank = env::get_int(env::Var::kLocalRank).value_or(0);
    index = static_cast<int>(local_rank % runtime().device_count());
  }
  check_index(index);
  return {DeviceType::kCUDA, static_cast<std::int16_t>(index)};
}

Device parse_device(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "cuda") return {DeviceType::kCUDA, static_cast<std::int16_t>(current_device())};
  constexpr std::string_view kPrefix = "cuda:";
  int index = -1;
  if (text.starts_with(kPrefix)) {
    index = read_number<int>(text.substr(kPrefix.size())).value_or(-1);
  }
  DL_CHECK(index >= 0 && index < kMostDevices, kInvalidArgument,
           "device \"{}\": wanted cpu, cuda or cuda:N with N from 0", text);
  return {DeviceType::kCUDA, static_cast<std::int16_t>(index)};
}

Device choose_device(std::string_view text) {
  const Device device = text == "cuda" ? rank_device() : parse_device(text);
  if (device.type == DeviceType::kCUDA) set_device(device.index);
  return device;
}

}  // namespace dl::cuda
