// NCCL between processes of one machine: what its header and documentation promise, and no more. A
// call waits for the same ranks as NCCL; if NCCL's result is undefined, it fails or waits.
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/host_device/nccl_calls.h"
#include "tests/host_device/nccl_world.h"
#include "tests/host_device/runtime.h"
#include "tests/host_device/stream.h"

struct ncclComm {
  ncclComm(int size, int rank, int cuda_device, bool blocks)
      : device(cuda_device), blocking(blocks), world(size, rank) {}

  // Of the thread in which it does what was called last; while it runs, `state` is ncclInProgress.
  void end_job() {
    const std::lock_guard lock(job_mutex);
    if (job.joinable()) job.join();
  }
  // Until no stream and no graph holds its work.
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return uses == 0; });
  }

  const int device;
  const bool blocking;
  dl::host_device::nccl::World world;
  std::atomic<ncclResult_t> state{ncclSuccess};
  bool is_finalized = false;
  std::mutex job_mutex;
  std::thread job;
  std::mutex running;  // streams take turns
  std::mutex mutex;
  std::condition_variable changed;
  int uses = 0;
};

namespace dl::host_device::nccl {
namespace {

using Comm = std::shared_ptr<ncclComm>;

// For ever: a thread may still be in ncclCommDestroy() when the program ends.
struct Comms {
  std::mutex mutex;
  std::map<ncclComm_t, Comm> all;
  std::string last_error;
};
Comms& comms() {
  static Comms& all = *new Comms;
  return all;
}

ncclResult_t fail(ncclResult_t code, const std::string& text) {
  const std::lock_guard lock(comms().mutex);
  comms().last_error = text;
  return code;
}

Comm find(ncclComm_t handle) {
  const std::lock_guard lock(comms().mutex);
  const auto found = comms().all.find(handle);
  return found == comms().all.end() ? nullptr : found->second;
}

// NCCL reads it once.
const std::string& host_name() {
  static const std::string& name = *new std::string([] {
    if (const char* const given = std::getenv("NCCL_HOSTID")) return std::string(given);
    char own[256] = {};
    ::gethostname(own, sizeof own - 1);
    return std::string(own);
  }());
  return name;
}

// In a thread of the communicator's; one that blocks waits for it later.
void start(const Comm& comm, std::function<ncclResult_t()> job) {
  comm->end_job();
  comm->state = ncclInProgress;
  const std::lock_guard lock(comm->job_mutex);
  comm->job = std::thread([comm, job = std::move(job)] { comm->state = job(); });
}

ncclResult_t answer_of(const Comm& comm) {
  if (comm->blocking) comm->end_job();
  const ncclResult_t state = comm->state;
  if (state != ncclInProgress) comm->end_job();
  return state;
}

ncclResult_t check_ready(const Comm& comm) {
  if (comm->state != ncclInProgress) return comm->state;
  return fail(ncclInvalidArgument, "the communicator is used before its last call is over");
}

// The work of a group, as a stream or a graph holds it.
class Launch {
 public:
  Launch(Comm comm, std::vector<Call> calls) : comm_(std::move(comm)), calls_(std::move(calls)) {
    const std::lock_guard lock(comm_->mutex);
    ++comm_->uses;
  }
  ~Launch() {
    const std::lock_guard lock(comm_->mutex);
    --comm_->uses;
    comm_->changed.notify_all();
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  void run() const {
    const std::lock_guard turn(comm_->running);
    nccl::run(comm_->world, calls_);
  }

 private:
  const Comm comm_;
  const std::vector<Call> calls_;
};

// What a thread has called of one communicator since ncclGroupStart().
struct Part {
  Comm comm;
  cudaStream_t stream = nullptr;
  cudaStreamCaptureStatus capture{};
  std::vector<Call> calls{};
};
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Part> parts;
};
thread_local Group group;

ncclResult_t note(ncclResult_t code) {
  if (group.depth > 0 && group.error == ncclSuccess) group.error = code;
  return code;
}

ncclResult_t launch(const Part& part) {
  World& world = part.comm->world;
  if (lacks_half(part.calls, world.rank())) {
    return fail(ncclInvalidUsage, "a message to itself has no other half");
  }
  if (const std::string fault = fault_of(part.calls, world.size(), world.rank()); !fault.empty()) {
    return fail(ncclInvalidArgument, fault);
  }
  if (!connect(world, part.calls)) return fail(ncclInternalError, "aborted");
  const auto work = std::make_shared<Launch>(part.comm, part.calls);
  if (cudaSetDevice(part.comm->device) != cudaSuccess ||
      enqueue(part.stream, [work] { work->run(); }) != cudaSuccess) {
    return fail(ncclUnhandledCudaError, "the stream does not take it");
  }
  return ncclSuccess;
}

ncclResult_t end_group() {
  const Group ended = std::exchange(group, {});
  ncclResult_t result = ended.error;
  for (const Part& part : ended.parts) {
    if (ended.error == ncclSuccess) {
      start(part.comm, [part] { return launch(part); });
    } else if (!part.comm->blocking) {
      part.comm->state = ended.error;
    }
  }
  if (ended.error != ncclSuccess) return result;
  for (const Part& part : ended.parts) {
    const ncclResult_t state = part.comm->blocking ? answer_of(part.comm) : ncclInProgress;
    // A blocking communicator has no state that a failed call would leave.
    if (part.comm->blocking) part.comm->state = ncclSuccess;
    if (result == ncclSuccess) result = state;
  }
  return result;
}

ncclResult_t add(const Comm& comm, const Call& call, cudaStream_t stream) {
  if (const ncclResult_t code = check_ready(comm)) return code;
  const World& world = comm->world;
  if (comm->is_finalized) return fail(ncclInvalidUsage, "the communicator is finalized");
  if (const std::string fault = fault_of(call, world.size(), world.rank()); !fault.empty()) {
    return fail(ncclInvalidArgument, fault);
  }
  const bool is_message = call.kind == Kind::kSend || call.kind == Kind::kReceive;
  if (call.count == 0 && !is_message) return ncclSuccess;
  cudaStreamCaptureStatus capture{};
  if (cudaStreamIsCapturing(stream, &capture) != cudaSuccess ||
      capture == cudaStreamCaptureStatusInvalidated) {
    return fail(ncclUnhandledCudaError, "the capture of the stream is broken");
  }
  for (Part& part : group.parts) {
    if (part.comm->blocking != comm->blocking) {
      return fail(ncclInvalidArgument, "blocking and other communicators in one group");
    }
    if (part.comm != comm) continue;
    if (part.stream != stream || part.capture != capture) {
      return fail(ncclInvalidUsage, "several streams in one group are not offered");
    }
    part.calls.push_back(call);
    return ncclSuccess;
  }
  group.parts.push_back({.comm = comm, .stream = stream, .capture = capture, .calls = {call}});
  return ncclSuccess;
}

ncclResult_t give(const Call& call, ncclComm_t handle, cudaStream_t stream) {
  const Comm comm = find(handle);
  if (!comm) return note(fail(ncclInvalidArgument, "there is no such communicator"));
  ncclGroupStart();
  const ncclResult_t added = note(add(comm, call, stream));
  if (added != ncclSuccess && !comm->blocking) comm->state = added;
  const ncclResult_t ended = ncclGroupEnd();
  if (added != ncclSuccess) return added;
  return comm->blocking ? ended : answer_of(comm);
}

ncclResult_t check_config(const ncclConfig_t* config) {
  if (config == nullptr) return ncclSuccess;
  const ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  const bool is_made = config->size == sizeof known && config->magic == known.magic &&
                       config->version == known.version;
  const bool is_valid =
      config->blocking == NCCL_CONFIG_UNDEF_INT || config->blocking == 0 || config->blocking == 1;
  return is_made && is_valid ? ncclSuccess
                             : fail(ncclInvalidArgument, "the configuration is wrong");
}

ncclResult_t join(ncclComm& comm, const std::string& id) {
  switch (comm.world.join(id, physical_device(comm.device), host_name())) {
    case Joined::kYes:
      return ncclSuccess;
    case Joined::kSharesDevice:
      return fail(ncclInvalidUsage, "another rank has the same device");
    case Joined::kOthersShareDevice:
      return fail(ncclRemoteError, "other ranks have the same device, and are gone");
    case Joined::kNobodyThere:
      return fail(ncclRemoteError, "whoever made the id is not there");
    case Joined::kAborted:
      break;
  }
  return fail(ncclInternalError, "aborted");
}

void forget(const Comm& comm) {
  const std::lock_guard lock(comms().mutex);
  comms().all.erase(comm.get());
}

}  // namespace
}  // namespace dl::host_device::nccl

using namespace dl::host_device::nccl;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  constexpr const char* kTexts[] = {"no error",       "CUDA error",       "system error",
                                    "internal error", "invalid argument", "invalid usage",
                                    "a peer is gone", "in progress"};
  return code >= ncclSuccess && code < ncclNumResults ? kTexts[code] : "unknown code";
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  const std::lock_guard lock(comms().mutex);
  text = comms().last_error;
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (id == nullptr) return fail(ncclInvalidArgument, "no place for the id");
  static_cast<void>(host_name());
  const std::string text = make_id();
  if (text.empty()) return fail(ncclSystemError, "no shared memory");
  *id = {};
  text.copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* made, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (made == nullptr) return fail(ncclInvalidArgument, "no place for the communicator");
  *made = nullptr;
  if (group.depth > 0) return note(fail(ncclInvalidUsage, "in a group it is not offered"));
  if (size < 1 || rank < 0 || rank >= size) return fail(ncclInvalidArgument, "no such rank");
  if (const ncclResult_t code = check_config(config)) return code;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return fail(ncclUnhandledCudaError, "no device");
  const bool blocks = config == nullptr || config->blocking != 0;
  const auto comm = std::make_shared<ncclComm>(size, rank, device, blocks);
  {
    const std::lock_guard lock(comms().mutex);
    comms().all.emplace(comm.get(), comm);
  }
  *made = comm.get();
  static_cast<void>(host_name());  // not in a thread: the environment may change
  const std::string text(id.internal, ::strnlen(id.internal, sizeof id.internal));
  start(comm, [owner = comm.get(), text] { return join(*owner, text); });
  return answer_of(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* state) {
  const Comm comm = find(handle);
  if (!comm || state == nullptr) return fail(ncclInvalidArgument, "there is no such communicator");
  *state = comm->state;
  if (*state != ncclInProgress) comm->end_job();
  if (*state == ncclSuccess && comm->world.has_lost_a_rank()) {
    *state = fail(ncclRemoteError, "Connection closed by remote peer");
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const Comm comm = find(handle);
  if (!comm) return fail(ncclInvalidArgument, "there is no such communicator");
  if (group.depth > 0) return note(fail(ncclInvalidUsage, "in a group it is not offered"));
  ncclResult_t code = check_ready(comm);
  if (code == ncclSuccess && comm->is_finalized) {
    code = fail(ncclInvalidArgument, "the communicator is finalized already");
  }
  if (code != ncclSuccess) {
    if (!comm->blocking) comm->state = code;
    return code;
  }
  comm->is_finalized = true;
  start(comm, [owner = comm.get()] {
    owner->drain();
    owner->world.leave();
    return ncclSuccess;
  });
  return answer_of(comm);
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const Comm comm = find(handle);
  if (!comm) return fail(ncclInvalidArgument, "there is no such communicator");
  if (group.depth > 0) return note(fail(ncclInvalidUsage, "in a group it is not offered"));
  if (const ncclResult_t code = check_ready(comm)) return code;
  comm->end_job();
  comm->drain();
  comm->world.leave();
  comm->world.wait_for_neighbours();
  forget(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const Comm comm = find(handle);
  if (!comm) return fail(ncclInvalidArgument, "there is no such communicator");
  if (group.depth > 0) return note(fail(ncclInvalidUsage, "in a group it is not offered"));
  comm->world.abort();
  comm->end_job();
  comm->drain();
  comm->world.leave();
  forget(comm);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return fail(ncclInvalidUsage, "there is no group");
  if (group.depth > 1) {
    --group.depth;
    return ncclSuccess;
  }
  return end_group();
}

ncclResult_t ncclAllReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::kAllReduce, input, output, count, type, op}, comm, stream);
}

ncclResult_t ncclReduce(const void* input, void* output, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::kReduce, input, output, count, type, op, root}, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* input, void* output, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::kReduceScatter, input, output, count, type, op}, comm, stream);
}

ncclResult_t ncclBroadcast(const void* input, void* output, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::kBroadcast, input, output, count, type, ncclSum, root}, comm, stream);
}

ncclResult_t ncclAllGather(const void* input, void* output, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::kAllGather, input, output, count, type}, comm, stream);
}

ncclResult_t ncclSend(const void* buffer, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return give({Kind::kSend, buffer, nullptr, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclRecv(void* buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return give({Kind::kReceive, nullptr, buffer, count, type, ncclSum, peer}, comm, stream);
}

}  // extern "C"
