#include "collectives/nccl/library/module.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstring>

namespace dl::collectives::nccl {
namespace {

static_assert(ncclSuccess == kSuccess && ncclRemoteError == kRemoteError &&
              ncclInProgress == kInProgress);
static_assert(sizeof(ncclUniqueId) == sizeof(UniqueId));

ncclComm_t of(Comm comm) noexcept {
  return static_cast<ncclComm_t>(comm);
}
cudaStream_t on(void* stream) noexcept {
  return static_cast<cudaStream_t>(stream);
}

ncclDataType_t type_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kI8:
      return ncclInt8;
    case DType::kI32:
      return ncclInt32;
    case DType::kU32:
      return ncclUint32;
    case DType::kI64:
      return ncclInt64;
    case DType::kU64:
      return ncclUint64;
    default:  // u8 and bool; the group refuses dtypes that NCCL lacks
      return ncclUint8;
  }
}

ncclRedOp_t op_of(DType dtype, ReduceOp op) noexcept {
  const bool is_bool = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kSum:
      return is_bool ? ncclMax : ncclSum;
    case ReduceOp::kProd:
      return is_bool ? ncclMin : ncclProd;
    case ReduceOp::kAvg:
      return ncclAvg;
    case ReduceOp::kMin:
    case ReduceOp::kBand:
      return ncclMin;
    default:
      return ncclMax;
  }
}

int get_version(int* version) {
  return ncclGetVersion(version);
}
const char* error_text(int code) {
  return ncclGetErrorString(static_cast<ncclResult_t>(code));
}
const char* last_error() {
  const char* const text = ncclGetLastError(nullptr);
  return text == nullptr ? "" : text;
}
int unique_id(UniqueId* id) {
  return ncclGetUniqueId(reinterpret_cast<ncclUniqueId*>(id));
}

int connect(Comm* comm, int size, const UniqueId* id, int rank, int device, int blocking) {
  // NCCL uses the calling thread's current device.
  int before = 0;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) {
    return ncclUnhandledCudaError;
  }
  ncclUniqueId copied;
  std::memcpy(&copied, id, sizeof copied);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking;
  ncclComm_t made = nullptr;
  const int code = ncclCommInitRankConfig(&made, size, copied, rank, &config);
  *comm = made;
  return cudaSetDevice(before) == cudaSuccess ? code : ncclUnhandledCudaError;
}
int init(Comm* comm, int size, const UniqueId* id, int rank, int device) {
  return connect(comm, size, id, rank, device, 0);
}
int init_blocking(Comm* comm, int size, const UniqueId* id, int rank, int device) {
  return connect(comm, size, id, rank, device, 1);
}

int async_error(Comm comm, int* state) {
  ncclResult_t now = ncclSuccess;
  const int code = ncclCommGetAsyncError(of(comm), &now);
  *state = now;
  return code;
}
int finalize(Comm comm) {
  return ncclCommFinalize(of(comm));
}
int destroy(Comm comm) {
  return ncclCommDestroy(of(comm));
}
int abort(Comm comm) {
  return ncclCommAbort(of(comm));
}
int group_start() {
  return ncclGroupStart();
}
int group_end() {
  return ncclGroupEnd();
}

int all_reduce(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
               Comm comm, void* stream) {
  return ncclAllReduce(input, output, count, type_of(dtype), op_of(dtype, op), of(comm),
                       on(stream));
}
int reduce(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op, int root,
           Comm comm, void* stream) {
  return ncclReduce(input, output, count, type_of(dtype), op_of(dtype, op), root, of(comm),
                    on(stream));
}
int reduce_scatter(const void* input, void* output, std::size_t count, DType dtype, ReduceOp op,
                   Comm comm, void* stream) {
  return ncclReduceScatter(input, output, count, type_of(dtype), op_of(dtype, op), of(comm),
                           on(stream));
}
int broadcast(void* buffer, std::size_t bytes, int root, Comm comm, void* stream) {
  return ncclBroadcast(buffer, buffer, bytes, ncclUint8, root, of(comm), on(stream));
}
int all_gather(const void* input, void* output, std::size_t bytes, Comm comm, void* stream) {
  return ncclAllGather(input, output, bytes, ncclUint8, of(comm), on(stream));
}
int send(const void* buffer, std::size_t bytes, int peer, Comm comm, void* stream) {
  return ncclSend(buffer, bytes, ncclUint8, peer, of(comm), on(stream));
}
int receive(void* buffer, std::size_t bytes, int peer, Comm comm, void* stream) {
  return ncclRecv(buffer, bytes, ncclUint8, peer, of(comm), on(stream));
}

constexpr Module kModule{.version = kModuleVersion,
                         .built_with = NCCL_VERSION_CODE,
                         .get_version = get_version,
                         .error_text = error_text,
                         .last_error = last_error,
                         .unique_id = unique_id,
                         .init = init,
                         .init_blocking = init_blocking,
                         .async_error = async_error,
                         .finalize = finalize,
                         .destroy = destroy,
                         .abort = abort,
                         .group_start = group_start,
                         .group_end = group_end,
                         .all_reduce = all_reduce,
                         .reduce = reduce,
                         .reduce_scatter = reduce_scatter,
                         .broadcast = broadcast,
                         .all_gather = all_gather,
                         .send = send,
                         .receive = receive};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module* dlrun_nccl_module() {
  return &kModule;
}

}  // namespace dl::collectives::nccl
