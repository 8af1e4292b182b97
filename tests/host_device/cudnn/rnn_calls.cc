// cuDNN's recurrent layers on the host device: what dlrun calls of <cudnn.h>.
//
// f32, f16 and bf16, packed sequences, no dropout. The reserve keeps what backward reads, and the
// workspace is overwritten.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/host_device/cudnn/cudnn.h"
#include "tests/host_device/cudnn/rnn.h"
#include "tests/host_device/runtime.h"
#include "tests/host_device/stream.h"

using namespace dl::host_device;

// The types that cuDNN's headers declare only.
struct cudnnRNNStruct : Rnn {};
struct cudnnRNNDataStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::int64_t width = 0;
  std::vector<int> lengths;  // empty: not set
};
struct cudnnDropoutStruct {
  bool is_set = false;
};

namespace {

constexpr std::size_t kRnnWorkspace = 512;

bool is_ready(const cudnnRNNStruct* rnn) {
  return rnn != nullptr && rnn->directions > 0;
}

// What all three computations are given.
struct RnnCall {
  cudnnHandle_t handle;
  const cudnnRNNStruct* rnn;
  const cudnnRNNDataStruct* x;
  const cudnnRNNDataStruct* y;
  std::size_t weight_bytes;
  std::size_t workspace_bytes;
  void* workspace;
  std::size_t reserve_bytes;
  void* reserve;
  bool keeps;  // in the reserve
};

cudnnStatus_t check(const RnnCall& call, const RnnMemory& memory) {
  if (call.handle == nullptr || !is_ready(call.rnn) || call.x == nullptr || call.y == nullptr ||
      call.x->lengths.empty()) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor is null, or was never set");
  }
  const Rnn& rnn = *call.rnn;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device != call.handle->device) {
    return refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the handle is another device's");
  }
  if (call.x->type != rnn.type || call.y->type != rnn.type) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the tensors are of different data types");
  }
  if (call.x->lengths != call.y->lengths || call.x->width != rnn.inputs ||
      call.y->width != rnn.directions * rnn.width) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "x or y does not fit the layers");
  }
  const std::size_t reserve = call.keeps ? reserve_bytes(rnn, call.x->lengths) : 0;
  if (call.weight_bytes != weight_bytes(rnn) || call.workspace_bytes < kRnnWorkspace ||
      call.reserve_bytes < reserve) {
    return refuse(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT, "some memory is too small");
  }
  for (const void* const data :
       {memory.x, memory.hx, memory.cx, memory.weights, static_cast<const void*>(memory.y),
        static_cast<const void*>(memory.hy), static_cast<const void*>(memory.cy), memory.dy,
        memory.dhy, memory.dcy, static_cast<const void*>(memory.dx),
        static_cast<const void*>(memory.dhx), static_cast<const void*>(memory.dcx),
        static_cast<const void*>(memory.dweights), static_cast<const void*>(call.workspace)}) {
    if (data != nullptr && place_of(data) != Place::kDevice) {
      return refuse(CUDNN_STATUS_BAD_PARAM, "some memory is not the device's");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

using Compute = void (*)(const Rnn&, const std::vector<int>&, const RnnMemory&,
                         std::vector<float>&);

cudnnStatus_t start(const RnnCall& call, const RnnMemory& memory, Compute compute) {
  if (const cudnnStatus_t status = check(call, memory)) return status;
  const Rnn rnn = *call.rnn;
  const std::vector<int> lengths = call.x->lengths;
  void* const workspace = call.workspace;
  void* const reserve = call.keeps ? call.reserve : nullptr;
  const cudaError_t status = enqueue(call.handle->stream, [=] {
    std::memset(workspace, 0xff, kRnnWorkspace);
    const std::size_t bytes = reserve_bytes(rnn, lengths);
    std::vector<float> kept(bytes / sizeof(float));
    if (reserve != nullptr) std::memcpy(kept.data(), reserve, bytes);
    compute(rnn, lengths, memory, kept);
    if (reserve != nullptr) std::memcpy(reserve, kept.data(), bytes);
  });
  return status == cudaSuccess
             ? CUDNN_STATUS_SUCCESS
             : refuse(CUDNN_STATUS_EXECUTION_FAILED_CUDART, "the stream refused the work");
}

}  // namespace

extern "C" {

cudnnStatus_t cudnnCreateRNNDescriptor(cudnnRNNDescriptor_t* descriptor) {
  *descriptor = new cudnnRNNStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDescriptor(cudnnRNNDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateRNNDataDescriptor(cudnnRNNDataDescriptor_t* descriptor) {
  *descriptor = new cudnnRNNDataStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateDropoutDescriptor(cudnnDropoutDescriptor_t* descriptor) {
  *descriptor = new cudnnDropoutStruct;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyDropoutDescriptor(cudnnDropoutDescriptor_t descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle,
                                        float dropout, void* /*states*/, size_t /*bytes*/,
                                        unsigned long long /*seed*/) {
  if (handle == nullptr || dropout != 0) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device has no dropout");
  }
  descriptor->is_set = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDescriptor_v8(cudnnRNNDescriptor_t descriptor, cudnnRNNAlgo_t algo,
                                       cudnnRNNMode_t cell, cudnnRNNBiasMode_t bias,
                                       cudnnDirectionMode_t direction, cudnnRNNInputMode_t input,
                                       cudnnDataType_t type, cudnnDataType_t compute,
                                       cudnnMathType_t math, int32_t inputs, int32_t hidden,
                                       int32_t width, int32_t layers,
                                       cudnnDropoutDescriptor_t dropout, uint32_t flags) {
  const bool is_half = type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
  const bool projects = width != hidden;
  if (algo != CUDNN_RNN_ALGO_STANDARD || input != CUDNN_LINEAR_INPUT ||
      compute != CUDNN_DATA_FLOAT || (!is_half && type != CUDNN_DATA_FLOAT) ||
      (bias != CUDNN_RNN_NO_BIAS && bias != CUDNN_RNN_DOUBLE_BIAS) ||
      (is_half && math == CUDNN_FMA_MATH) || flags != CUDNN_RNN_PADDED_IO_DISABLED ||
      (projects && cell != CUDNN_LSTM)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "the host device has no such recurrent layers");
  }
  if (inputs < 1 || hidden < 1 || width < 1 || width > hidden || layers < 1 || dropout == nullptr ||
      !dropout->is_set) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a size or the dropout is wrong");
  }
  static_cast<Rnn&>(*descriptor) = {.cell = cell,
                                    .type = type,
                                    .has_bias = bias == CUDNN_RNN_DOUBLE_BIAS,
                                    .has_projection = projects,
                                    .directions = direction == CUDNN_BIDIRECTIONAL ? 2 : 1,
                                    .inputs = inputs,
                                    .hidden = hidden,
                                    .width = width,
                                    .layers = layers};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetRNNDataDescriptor(cudnnRNNDataDescriptor_t descriptor, cudnnDataType_t type,
                                        cudnnRNNDataLayout_t layout, int longest, int sequences,
                                        int width, const int lengths[], void* /*padding*/) {
  if (layout != CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "the host device takes packed sequences");
  }
  if (longest < 1 || sequences < 1 || width < 1 || lengths == nullptr ||
      !std::is_sorted(lengths, lengths + sequences, std::greater<>()) || lengths[0] != longest ||
      lengths[sequences - 1] < 1) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the lengths are not sorted, or a size is wrong");
  }
  *descriptor = {type, width, std::vector<int>(lengths, lengths + sequences)};
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightSpaceSize(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                         size_t* bytes) {
  if (handle == nullptr || !is_ready(rnn)) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor is null, or was never set");
  }
  *bytes = weight_bytes(*rnn);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNTempSpaceSizes(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                        cudnnForwardMode_t mode, cudnnRNNDataDescriptor_t x,
                                        size_t* workspace, size_t* reserve) {
  if (handle == nullptr || !is_ready(rnn) || x == nullptr || x->lengths.empty()) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor is null, or was never set");
  }
  *workspace = kRnnWorkspace;
  if (reserve != nullptr) {
    *reserve = mode == CUDNN_FWD_MODE_TRAINING ? reserve_bytes(*rnn, x->lengths) : 0;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetRNNWeightParams(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                      int32_t pseudo_layer, size_t bytes, const void* space,
                                      int32_t number, cudnnTensorDescriptor_t matrix,
                                      void** matrix_data, cudnnTensorDescriptor_t bias,
                                      void** bias_data) {
  if (handle == nullptr || !is_ready(rnn) || matrix == nullptr || bias == nullptr ||
      bytes != weight_bytes(*rnn)) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor is null, or the size is not the weights'");
  }
  const WeightPart part = weight_part(*rnn, pseudo_layer, number);
  char* const begin = static_cast<char*>(const_cast<void*>(space));
  const bool is_there = number < 2 * rnn->gates() || (rnn->has_projection && number == 8);
  const bool has_bias = rnn->has_bias && number < 2 * rnn->gates();
  *matrix_data = is_there ? begin + part.matrix : nullptr;
  *bias_data = has_bias ? begin + part.bias : nullptr;
  const int sizes[] = {1, static_cast<int>(part.rows), static_cast<int>(part.columns)};
  const int steps[] = {sizes[1] * sizes[2], sizes[2], 1};
  if (is_there) cudnnSetTensorNdDescriptor(matrix, rnn->type, 3, sizes, steps);
  const int one[] = {1, sizes[1], 1};
  const int along[] = {sizes[1], 1, 1};
  if (has_bias) cudnnSetTensorNdDescriptor(bias, rnn->type, 3, one, along);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRNNForward(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                              cudnnForwardMode_t mode, const int32_t* /*lengths*/,
                              cudnnRNNDataDescriptor_t x_form, const void* x,
                              cudnnRNNDataDescriptor_t y_form, void* y,
                              cudnnTensorDescriptor_t h_form, const void* hx, void* hy,
                              cudnnTensorDescriptor_t c_form, const void* cx, void* cy,
                              size_t weight_bytes, const void* weights, size_t workspace_bytes,
                              void* workspace, size_t reserve_bytes, void* reserve) {
  if (h_form == nullptr || (c_form == nullptr && cx != nullptr) || x == nullptr || y == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "x, y, or a form is null");
  }
  return start({.handle = handle,
                .rnn = rnn,
                .x = x_form,
                .y = y_form,
                .weight_bytes = weight_bytes,
                .workspace_bytes = workspace_bytes,
                .workspace = workspace,
                .reserve_bytes = reserve_bytes,
                .reserve = reserve,
                .keeps = mode == CUDNN_FWD_MODE_TRAINING},
               {.x = x, .hx = hx, .cx = cx, .weights = weights, .y = y, .hy = hy, .cy = cy},
               rnn_forward);
}

cudnnStatus_t cudnnRNNBackwardData_v8(
    cudnnHandle_t handle, cudnnRNNDescriptor_t rnn, const int32_t* /*lengths*/,
    cudnnRNNDataDescriptor_t y_form, const void* y, const void* dy, cudnnRNNDataDescriptor_t x_form,
    void* dx, cudnnTensorDescriptor_t h_form, const void* hx, const void* dhy, void* dhx,
    cudnnTensorDescriptor_t c_form, const void* cx, const void* dcy, void* dcx, size_t weight_bytes,
    const void* weights, size_t workspace_bytes, void* workspace, size_t reserve_bytes,
    void* reserve) {
  if (h_form == nullptr || (c_form == nullptr && cx != nullptr) || y == nullptr || dy == nullptr ||
      dx == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "y, a gradient, or a form is null");
  }
  return start({.handle = handle,
                .rnn = rnn,
                .x = x_form,
                .y = y_form,
                .weight_bytes = weight_bytes,
                .workspace_bytes = workspace_bytes,
                .workspace = workspace,
                .reserve_bytes = reserve_bytes,
                .reserve = reserve,
                .keeps = true},
               {.hx = hx,
                .cx = cx,
                .weights = weights,
                .dy = dy,
                .dhy = dhy,
                .dcy = dcy,
                .dx = dx,
                .dhx = dhx,
                .dcx = dcx},
               rnn_backward_data);
}

cudnnStatus_t cudnnRNNBackwardWeights_v8(cudnnHandle_t handle, cudnnRNNDescriptor_t rnn,
                                         cudnnWgradMode_t mode, const int32_t* /*lengths*/,
                                         cudnnRNNDataDescriptor_t x_form, const void* x,
                                         cudnnTensorDescriptor_t h_form, const void* hx,
                                         cudnnRNNDataDescriptor_t y_form, const void* y,
                                         size_t weight_bytes, void* dweights,
                                         size_t workspace_bytes, void* workspace,
                                         size_t reserve_bytes, void* reserve) {
  if (mode != CUDNN_WGRAD_MODE_ADD || h_form == nullptr || x == nullptr || y == nullptr) {
    return refuse(CUDNN_STATUS_BAD_PARAM, "the mode is not ADD, or x or y is null");
  }
  return start({.handle = handle,
                .rnn = rnn,
                .x = x_form,
                .y = y_form,
                .weight_bytes = weight_bytes,
                .workspace_bytes = workspace_bytes,
                .workspace = workspace,
                .reserve_bytes = reserve_bytes,
                .reserve = reserve,
                .keeps = true},
               {.x = x, .hx = hx, .dweights = dweights}, rnn_backward_weights);
}

}  // extern "C"
