#include "collectives/mpi/module/module.h"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

namespace dl::collectives::mpi {
namespace {

// MPICH's handles are integers, Open MPI's are pointers.
template <typename T>
Handle handle_of(T value) noexcept {
  static_assert(sizeof(T) <= sizeof(Handle));  // NOLINT(bugprone-sizeof-expression): of the pointer
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<Handle>(value);
  } else {
    return static_cast<std::make_unsigned_t<T>>(value);
  }
}

template <typename T>
T from_handle(Handle handle) noexcept {
  if constexpr (std::is_pointer_v<T>) {
    return reinterpret_cast<T>(handle);  // NOLINT(performance-no-int-to-ptr): it was made from one
  } else {
    return static_cast<T>(handle);
  }
}

MPI_Comm comm_of(Handle handle) noexcept {
  return from_handle<MPI_Comm>(handle);
}

// Stores the handle if the call that made it succeeded.
template <typename T>
int give(int code, T made, Handle* to) noexcept {
  if (code == MPI_SUCCESS) *to = handle_of(made);
  return code;
}

int start(Started* started) {
  int is_initialized = 0;
  int level = MPI_THREAD_SINGLE;
  int code = MPI_Initialized(&is_initialized);
  if (code != MPI_SUCCESS) return code;
  code = is_initialized != 0 ? MPI_Query_thread(&level)
                             : MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  if (code != MPI_SUCCESS) return code;
  if (is_initialized == 0) {
    // For errors of objects that belong to none of dlrun's communicators.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  }
  started->was_started = is_initialized != 0;
  started->is_multiple = level >= MPI_THREAD_MULTIPLE;
  int* most_tag = nullptr;
  int is_set = 0;
  code = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&most_tag), &is_set);
  if (code != MPI_SUCCESS) return code;
  started->most_tag = is_set != 0 ? *most_tag : 32767;  // the minimum that MPI guarantees
  code = MPI_Comm_rank(MPI_COMM_WORLD, &started->rank);
  return code != MPI_SUCCESS ? code : MPI_Comm_size(MPI_COMM_WORLD, &started->size);
}

int finish() {
  int is_finalized = 0;
  const int code = MPI_Finalized(&is_finalized);
  return code != MPI_SUCCESS || is_finalized != 0 ? code : MPI_Finalize();
}

void error_text(int code, char* text, std::size_t room) {
  char full[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  if (MPI_Error_string(code, full, &length) != MPI_SUCCESS) length = 0;
  std::size_t bytes = static_cast<std::size_t>(length);
  if (bytes >= room) bytes = room - 1;
  std::memcpy(text, full, bytes);
  text[bytes] = 0;
}

int returning_errors(int code, MPI_Comm made, Handle* to) {
  if (code == MPI_SUCCESS && made != MPI_COMM_NULL) {
    code = MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
  }
  return give(code, made, to);
}

int duplicate_world(Handle* comm) {
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPI_Comm_dup(MPI_COMM_WORLD, &made);
  return returning_errors(code, made, comm);
}

int split(Handle comm, int color, int key, Handle* to) {
  MPI_Comm made = MPI_COMM_NULL;
  const int code = MPI_Comm_split(comm_of(comm), color < 0 ? MPI_UNDEFINED : color, key, &made);
  return returning_errors(code, made, to);
}

int free_comm(Handle comm) {
  MPI_Comm of = comm_of(comm);
  return MPI_Comm_free(&of);
}

int all_gather(const void* input, void* output, std::size_t bytes, Handle comm, Handle* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int count = static_cast<int>(bytes);
  const int code =
      MPI_Iallgather(input, count, MPI_BYTE, output, count, MPI_BYTE, comm_of(comm), &made);
  return give(code, made, request);
}

int broadcast(void* buffer, std::size_t bytes, int root, Handle comm, Handle* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code =
      MPI_Ibcast(buffer, static_cast<int>(bytes), MPI_BYTE, root, comm_of(comm), &made);
  return give(code, made, request);
}

int send(const void* buffer, std::size_t bytes, int peer, int tag, Handle comm, Handle* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code =
      MPI_Isend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_of(comm), &made);
  return give(code, made, request);
}

int send_matched(const void* buffer, std::size_t bytes, int peer, int tag, Handle comm,
                 Handle* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code =
      MPI_Issend(buffer, static_cast<int>(bytes), MPI_BYTE, peer, tag, comm_of(comm), &made);
  return give(code, made, request);
}

int receive(void* buffer, std::size_t bytes, int peer, int tag, Handle comm, Handle* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  const int code = MPI_Irecv(buffer, static_cast<int>(bytes), MPI_BYTE,
                             peer < 0 ? MPI_ANY_SOURCE : peer, tag, comm_of(comm), &made);
  return give(code, made, request);
}

int test(Handle* request, Ended* ended) {
  MPI_Request tested = from_handle<MPI_Request>(*request);
  MPI_Status status;
  int flag = 0;
  const int code = MPI_Test(&tested, &flag, &status);
  ended->is_ended = flag != 0;
  *request = handle_of(tested);
  if (code != MPI_SUCCESS || flag == 0) return code;
  ended->source = status.MPI_SOURCE;
  int is_cancelled = 0;
  const int asked = MPI_Test_cancelled(&status, &is_cancelled);
  ended->is_cancelled = is_cancelled != 0;
  return asked;
}

int test_some(Handle* requests, int count, int* ended) {
  std::array<MPI_Request, kMostTested> tested;
  std::array<int, kMostTested> indices;
  std::array<MPI_Status, kMostTested> statuses;
  std::transform(requests, requests + count, tested.begin(), from_handle<MPI_Request>);
  const int code = MPI_Testsome(count, tested.data(), ended, indices.data(), statuses.data());
  const bool has_own_codes = code == MPI_ERR_IN_STATUS;
  if ((code != MPI_SUCCESS && !has_own_codes) || *ended == MPI_UNDEFINED) *ended = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(*ended); ++i) {
    requests[indices[i]] = 0;
    if (has_own_codes && statuses[i].MPI_ERROR != MPI_SUCCESS) return statuses[i].MPI_ERROR;
  }
  return code;
}

int cancel(Handle request) {
  MPI_Request of = from_handle<MPI_Request>(request);
  return MPI_Cancel(&of);
}

#define DL_TEXT_OF(x) #x
#define DL_TEXT(x) DL_TEXT_OF(x)
#if defined(OPEN_MPI)
constexpr const char* kLibrary = "Open MPI " DL_TEXT(OMPI_MAJOR_VERSION) "." DL_TEXT(
    OMPI_MINOR_VERSION) "." DL_TEXT(OMPI_RELEASE_VERSION);
#elif defined(MPICH_VERSION)
constexpr const char* kLibrary = "MPICH " MPICH_VERSION;
#else
constexpr const char* kLibrary = "MPI " DL_TEXT(MPI_VERSION) "." DL_TEXT(MPI_SUBVERSION);
#endif

#if defined(OPEN_MPI)
constexpr std::size_t kSmallSlice = 2048;  // it asks the receiver above about 4,000 bytes
// With 256 KiB, all_gather of 512 KiB to 8 MiB took up to 1.4 times as long, broadcast 1.1 times.
constexpr std::size_t kLeastSlice = 2 * 1024 * 1024;
#else
constexpr std::size_t kSmallSlice = 0;
// With 2 MiB, broadcast of 4 MiB to 4 ranks took 1.4 times as long.
constexpr std::size_t kLeastSlice = 256 * 1024;
#endif

constexpr Module kModule{.version = kModuleVersion,
                         .small_slice = kSmallSlice,
                         .least_slice = kLeastSlice,
                         .library = kLibrary,
                         .start = start,
                         .finish = finish,
                         .error_text = error_text,
                         .duplicate_world = duplicate_world,
                         .split = split,
                         .free = free_comm,
                         .all_gather = all_gather,
                         .broadcast = broadcast,
                         .send = send,
                         .send_matched = send_matched,
                         .receive = receive,
                         .test = test,
                         .test_some = test_some,
                         .cancel = cancel};

}  // namespace

extern "C" __attribute__((visibility("default"))) const Module* dlrun_mpi_module() {
  return &kModule;
}

}  // namespace dl::collectives::mpi
