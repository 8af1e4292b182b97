// What the parts of the host device's runtime share: streams and what they record into.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dl::host_device {

using Work = std::function<void()>;

// A mark in a stream that others wait for.
struct Mark {
  std::mutex mutex;
  std::condition_variable passed_now;
  bool passed = false;
  std::chrono::steady_clock::time_point when;

  void pass();
  void wait();
  bool is_passed();
};

// What a graph is made of, in the order of the calls, which obeys all of its dependencies.
using Nodes = std::vector<Work>;

// How far a captured stream has seen the others: their number of nodes.
using Seen = std::map<cudaStream_t, std::size_t>;

struct Capture {
  cudaStream_t origin = nullptr;
  std::thread::id thread;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool broken = false;
  Nodes nodes;
  std::map<cudaStream_t, Seen> streams;  // that take part
};

// Of the calling thread: the last error, the device, the mode of captures.
struct ThreadState {
  cudaError_t error = cudaSuccess;
  int device = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::vector<std::shared_ptr<Capture>> captures;  // begun by this thread, not ended
};
ThreadState& this_thread() noexcept;

// Every call of the runtime returns through it.
cudaError_t answer(cudaError_t error);
// For calls that a capture must not meet: breaks the captures that forbid it.
bool is_forbidden();
// Until all streams of the device are empty.
void drain(int device);
int device_count();
// Its number among all of the machine, whatever CUDA_VISIBLE_DEVICES says.
int physical_device(int device);

// The place of an allocation: whether a copy has to wait for it.
enum class Place : std::uint8_t { kPageable, kPinned, kDevice };
Place place_of(const void* data);

inline constexpr std::size_t kMemory = std::size_t{1} << 30;  // of a device
cudaError_t allocate(void** out, std::size_t bytes, Place place);
cudaError_t release(void* data, Place place);
std::size_t used_memory(int device);
// Ends the program if bytes around an allocation were written; when() is part of what it says.
void check_memory(std::string (*when)());

// Ends the program with one line.
[[noreturn]] void fail(const std::string& what);
// The launch that the calling thread runs or has run last; and the position there.
std::string running_kernel();
std::string running_thread();

}  // namespace dl::host_device

// The types that NVIDIA's headers declare only.
struct CUstream_st {
  explicit CUstream_st(int device);

  void give(dl::host_device::Work work);
  // Nothing is given to it any more.
  void end();
  void drain();

  const int device;
  std::shared_ptr<dl::host_device::Capture> capture;  // under the captures' mutex

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<dl::host_device::Work> given_;
  bool busy_ = false;
  bool ending_ = false;
};

struct CUevent_st {
  std::mutex mutex;
  std::shared_ptr<dl::host_device::Mark> mark;        // null: never recorded
  std::shared_ptr<dl::host_device::Capture> capture;  // the mark is in a graph
  dl::host_device::Seen seen;
  bool timing = true;
};

struct CUgraph_st {
  std::shared_ptr<const dl::host_device::Nodes> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const dl::host_device::Nodes> nodes;
};
