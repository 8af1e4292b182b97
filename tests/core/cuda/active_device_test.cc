// Which devices the module's scopes touch, and which device they leave a thread: over two calls of
// CUDA's runtime that this file defines. A cudaSetDevice() makes a context.
#include "core/kernels/cuda/runtime/active_device.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "core/kernels/cuda/runtime/errors.h"

namespace {

// CUDA's device of the calling thread: 0 if none was named.
constinit thread_local int device_of_thread = 0;
constinit thread_local std::vector<int>* touched = nullptr;
constinit thread_local int lost = -1;

}  // namespace

extern "C" {
cudaError_t cudaGetDevice(int* device) {
  *device = device_of_thread;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  touched->push_back(device);
  if (device == lost) return cudaErrorDevicesUnavailable;
  device_of_thread = device;
  return cudaSuccess;
}
}

namespace dl::cuda {

void throw_cuda(cudaError_t, const char* call) {
  throw std::runtime_error(call);
}

namespace {

using ::testing::ElementsAre;

// What cudaSetDevice() was called with in a thread of its own.
std::vector<int> touched_by(void (*body)()) {
  std::vector<int> devices;
  std::thread([&] {
    touched = &devices;
    body();
  }).join();
  return devices;
}

class ActiveDevice : public ::testing::Test {
 protected:
  // The process's first.
  static void SetUpTestSuite() {
    touched_by([] { const OnDevice on(3); });
  }
};

TEST_F(ActiveDevice, AThreadThatHasNamedNoneIsNeverTakenToDeviceZero) {
  EXPECT_THAT(touched_by([] {
                {
                  const OnDevice on(3);
                  EXPECT_EQ(active_device(), 3);
                  const OnDevice again(3);
                }
                EXPECT_EQ(active_device(), -1);
                {
                  const OnDevice on(2);
                }
                EXPECT_EQ(device_of_thread, 3);
                ensure_device();
              }),
              ElementsAre(3, 2, 3));
  // A call without a device, in a thread without one: some device that the process uses.
  EXPECT_THAT(touched_by([] {
                ensure_device();
                ensure_device();
              }),
              ElementsAre(3));
}

// cudaGetDevice() says 0 before, too, but the thread has no context then.
TEST_F(ActiveDevice, DeviceZeroIsSetIfItIsWanted) {
  EXPECT_THAT(touched_by([] {
                {
                  const OnDevice on(0);
                }
                {
                  const OnDevice on(1);
                }
                EXPECT_EQ(device_of_thread, 0);
              }),
              ElementsAre(0, 1, 0));
}

TEST_F(ActiveDevice, TheProgramsOwnChoiceHolds) {
  EXPECT_THAT(touched_by([] {
                device_of_thread = 5;
                ensure_device();
                {
                  const OnDevice on(2);
                }
                EXPECT_EQ(device_of_thread, 5);
                device_of_thread = 0;
                {
                  const OnDevice on(2);
                  EXPECT_EQ(device_of_thread, 2);
                  const OnDevice inner(4);
                }
                EXPECT_EQ(device_of_thread, 0);
                adopt_device(1);
                {
                  const OnDevice on(1);
                }
                EXPECT_EQ(device_of_thread, 1);
              }),
              ElementsAre(2, 5, 2, 4, 2, 0, 1));
}

TEST_F(ActiveDevice, ADeviceThatIsLostLeavesTheThreadWhereItIs) {
  EXPECT_THAT(touched_by([] {
                lost = 6;
                EXPECT_THROW(OnDevice(6), std::runtime_error);
                EXPECT_EQ(active_device(), -1);
                adopt_device(6);
                EXPECT_EQ(device_of_thread, 0);
              }),
              ElementsAre(6, 6));
}

}  // namespace
}  // namespace dl::cuda
