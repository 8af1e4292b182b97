#include "collectives/c/dl_comm.h"

#include <chrono>
#include <memory>
#include <string>

#include "collectives/api/symmetric_memory.h"
#include "collectives/call/descriptor.h"
#include "collectives/compose/custom_reduce.h"
#include "collectives/compose/objects.h"
#include "collectives/init/init.h"
#include "core/base/error.h"

struct dl_comm {
  dl::Ref<dl::collectives::ProcessGroup> group;
  std::string backend;
  bool is_world = false;
};
struct dl_work {
  dl::Ref<dl::collectives::Work> work;
};
struct dl_memory {
  dl::Ref<dl::collectives::SymmetricMemory> memory;
};

namespace {

using namespace dl::collectives;
using dl::DType;
using dl::Error;
using dl::ErrorKind;
using dl::Ref;

static_assert(static_cast<int>(ErrorKind::kInvalidArgument) + 1 == DL_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorKind::kTimeout) + 1 == DL_TIMEOUT);
static_assert(static_cast<int>(ErrorKind::kInternal) + 1 == DL_INTERNAL);
static_assert(static_cast<int>(DType::kF16) == DL_F16 && static_cast<int>(DType::kF32) == DL_F32);
static_assert(static_cast<int>(DType::kI64) == DL_I64 && static_cast<int>(DType::kBool) == DL_BOOL);
static_assert(static_cast<int>(ReduceOp::kSum) == DL_SUM &&
              static_cast<int>(ReduceOp::kBxor) == DL_BXOR);
static_assert(kAnySource == DL_ANY_SOURCE && kNoColor == DL_NO_COLOR);

thread_local std::string last_error;

// To be called in a catch block. Must not throw: the caller may not be C++.
dl_status status_of_exception() noexcept {
  dl_status status = DL_INTERNAL;
  try {
    try {
      throw;
    } catch (const Error& error) {
      status = static_cast<dl_status>(static_cast<int>(error.kind()) + 1);
      last_error = error.what();
    } catch (const std::exception& error) {
      last_error = error.what();
    } catch (...) {
      last_error = "an exception that is not a std::exception";
    }
  } catch (...) {
    last_error.clear();  // no memory for the text
  }
  return status;
}

template <typename Body>
dl_status guarded(const Body& body) noexcept {
  try {
    body();
    return DL_OK;
  } catch (...) {
    return status_of_exception();
  }
}

ProcessGroup& group_of(dl_comm* comm) {
  DL_CHECK(comm != nullptr, kInvalidArgument, "dl_comm: the group is NULL");
  return *comm->group;
}

// Starts an operation, and waits for it if the caller does not take the work.
template <typename Start>
dl_status run(dl_comm* comm, dl_work** work, const Start& start) noexcept {
  return guarded([&] {
    // Allocate before the operation begins: without a dl_work no caller could wait for it.
    auto taken = work != nullptr ? std::make_unique<dl_work>() : nullptr;
    Ref<Work> under_way = start(group_of(comm));
    if (work == nullptr) {
      under_way->wait();
    } else {
      taken->work = std::move(under_way);
      *work = taken.release();
    }
  });
}

DType dtype_of(dl_dtype dtype) {
  DL_CHECK(static_cast<unsigned>(dtype) < dl::kDTypeCount, kInvalidArgument,
           "dl_comm: {} is not a dl_dtype", dtype);
  return static_cast<DType>(dtype);
}

ReduceOp op_of(dl_reduce_op op) {
  DL_CHECK(static_cast<unsigned>(op) < kReduceOpCount, kInvalidArgument,
           "dl_comm: {} is not a dl_reduce_op", op);
  return static_cast<ReduceOp>(op);
}

std::optional<std::chrono::nanoseconds> time_of(double seconds) {
  DL_CHECK(seconds >= 0, kInvalidArgument, "dl_comm: timeout_s is {}, wanted 0 or more", seconds);
  if (seconds == 0) return std::nullopt;
  constexpr auto kMost = std::chrono::nanoseconds::max();
  const double nanoseconds = seconds * 1e9;
  if (nanoseconds >= static_cast<double>(kMost.count())) return kMost;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
}

CallOptions call_of(double timeout_s) {
  return {.timeout = time_of(timeout_s)};
}

UserReduceOptions user_options(const void* input, void* output, size_t count, size_t element_bytes,
                               dl_reduce_function function, void* context, double timeout_s) {
  ReduceFunction fold;
  if (function != nullptr) {
    fold = [function, context](const void* in, void* inout, std::size_t n) {
      function(in, inout, n, context);
    };
  }
  return {.input = input,
          .output = output,
          .count = count,
          .element_bytes = element_bytes,
          .function = std::move(fold),
          .call = call_of(timeout_s)};
}

std::span<const std::size_t> counts_of(const size_t* counts, const ProcessGroup& group) {
  if (counts == nullptr) return {};
  return {counts, static_cast<std::size_t>(group.size())};
}

}  // namespace

int dl_comm_version(void) {
  return DL_COMM_VERSION;
}

const char* dl_last_error(void) {
  return last_error.c_str();
}

dl_status dl_comm_init(const char* init_method, int rank, int size, double timeout_s,
                       dl_comm** world) {
  return dl_comm_init_named(nullptr, init_method, rank, size, timeout_s, world);
}

dl_status dl_comm_init_named(const char* name, const char* init_method, int rank, int size,
                             double timeout_s, dl_comm** world) {
  return guarded([&] {
    DL_CHECK(world != nullptr, kInvalidArgument, "dl_comm_init: world is NULL");
    dl::ProcessGroupOptions options{.timeout = time_of(timeout_s)};
    if (name != nullptr) options.name = name;
    if (init_method != nullptr) options.init_method = init_method;
    if (rank >= 0) options.rank = rank;
    if (size >= 0) options.world_size = size;
    auto comm = std::make_unique<dl_comm>();
    dl::init_process_group(options);
    comm->group = dl::default_group();
    comm->backend = comm->group->backend();
    comm->is_world = true;
    *world = comm.release();
  });
}

dl_status dl_comm_split(dl_comm* parent, int color, int key, dl_comm** part) {
  return guarded([&] {
    DL_CHECK(part != nullptr, kInvalidArgument, "dl_comm_split: part is NULL");
    Ref<ProcessGroup> group = group_of(parent).split({.color = color, .key = key});
    const std::string backend(group ? group->backend() : "");
    *part = group ? new dl_comm{.group = std::move(group), .backend = backend} : nullptr;
  });
}

void dl_comm_destroy(dl_comm* comm) {
  if (comm == nullptr) return;
  const bool is_world = comm->is_world;
  delete comm;
  if (is_world) dl::destroy_process_group();
}

int dl_comm_rank(const dl_comm* comm) {
  return comm == nullptr ? -1 : comm->group->rank();
}

int dl_comm_size(const dl_comm* comm) {
  return comm == nullptr ? -1 : comm->group->size();
}

const char* dl_comm_backend(const dl_comm* comm) {
  return comm == nullptr ? "" : comm->backend.c_str();
}

void dl_comm_abort(dl_comm* comm, const char* reason) {
  if (comm != nullptr) comm->group->abort(reason == nullptr ? "no reason was given" : reason);
}

dl_status dl_comm_error(dl_comm* comm) {
  return guarded([&] {
    if (const std::exception_ptr cause = group_of(comm).error()) std::rethrow_exception(cause);
  });
}

dl_status dl_work_wait(dl_work* work) {
  const std::unique_ptr<dl_work> mine(work);
  return guarded([&] {
    DL_CHECK(work != nullptr, kInvalidArgument, "dl_work_wait: the work is NULL");
    work->work->wait();
  });
}

int dl_work_is_completed(const dl_work* work) {
  return work == nullptr || work->work->is_completed() ? 1 : 0;
}

int dl_work_source(const dl_work* work) {
  return work == nullptr ? -1 : work->work->source().value_or(-1);
}

void dl_work_free(dl_work* work) {
  delete work;
}

dl_status dl_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_reduce({.input = input,
                             .output = output,
                             .count = count,
                             .dtype = dtype_of(dtype),
                             .op = op_of(op),
                             .call = call_of(timeout_s)});
  });
}

dl_status dl_reduce(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                    dl_reduce_op op, int root, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.reduce({.input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype_of(dtype),
                         .op = op_of(op),
                         .root = root,
                         .call = call_of(timeout_s)});
  });
}

dl_status dl_broadcast(dl_comm* comm, void* buffer, size_t count, dl_dtype dtype, int root,
                       double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.broadcast({.buffer = buffer,
                            .count = count,
                            .dtype = dtype_of(dtype),
                            .root = root,
                            .call = call_of(timeout_s)});
  });
}

dl_status dl_all_gather(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_gather({.input = input,
                             .output = output,
                             .count = count,
                             .dtype = dtype_of(dtype),
                             .call = call_of(timeout_s)});
  });
}

dl_status dl_reduce_scatter(dl_comm* comm, const void* input, void* output, size_t count,
                            dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.reduce_scatter({.input = input,
                                 .output = output,
                                 .count = count,
                                 .dtype = dtype_of(dtype),
                                 .op = op_of(op),
                                 .call = call_of(timeout_s)});
  });
}

dl_status dl_gather(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                    int root, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.gather({.input = input,
                         .output = output,
                         .count = count,
                         .dtype = dtype_of(dtype),
                         .root = root,
                         .call = call_of(timeout_s)});
  });
}

dl_status dl_scatter(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                     int root, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.scatter({.input = input,
                          .output = output,
                          .count = count,
                          .dtype = dtype_of(dtype),
                          .root = root,
                          .call = call_of(timeout_s)});
  });
}

dl_status dl_all_to_all(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_to_all({.input = input,
                             .output = output,
                             .count = count,
                             .dtype = dtype_of(dtype),
                             .call = call_of(timeout_s)});
  });
}

dl_status dl_barrier(dl_comm* comm, double timeout_s, dl_work** work) {
  return run(comm, work,
             [&](ProcessGroup& group) { return group.barrier({.call = call_of(timeout_s)}); });
}

dl_status dl_all_gatherv(dl_comm* comm, const void* input, void* output, const size_t* counts,
                         dl_dtype dtype, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_gatherv({.input = input,
                              .output = output,
                              .counts = counts_of(counts, group),
                              .dtype = dtype_of(dtype),
                              .call = call_of(timeout_s)});
  });
}

dl_status dl_reduce_scatterv(dl_comm* comm, const void* input, void* output, const size_t* counts,
                             dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.reduce_scatterv({.input = input,
                                  .output = output,
                                  .counts = counts_of(counts, group),
                                  .dtype = dtype_of(dtype),
                                  .op = op_of(op),
                                  .call = call_of(timeout_s)});
  });
}

dl_status dl_gatherv(dl_comm* comm, const void* input, size_t count, void* output,
                     const size_t* counts, dl_dtype dtype, int root, double timeout_s,
                     dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.gatherv({.input = input,
                          .count = count,
                          .output = output,
                          .counts = counts_of(counts, group),
                          .dtype = dtype_of(dtype),
                          .root = root,
                          .call = call_of(timeout_s)});
  });
}

dl_status dl_scatterv(dl_comm* comm, const void* input, const size_t* counts, void* output,
                      size_t count, dl_dtype dtype, int root, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.scatterv({.input = input,
                           .counts = counts_of(counts, group),
                           .output = output,
                           .count = count,
                           .dtype = dtype_of(dtype),
                           .root = root,
                           .call = call_of(timeout_s)});
  });
}

dl_status dl_all_to_allv(dl_comm* comm, const void* input, const size_t* send_counts, void* output,
                         const size_t* receive_counts, dl_dtype dtype, double timeout_s,
                         dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_to_allv({.input = input,
                              .send_counts = counts_of(send_counts, group),
                              .output = output,
                              .receive_counts = counts_of(receive_counts, group),
                              .dtype = dtype_of(dtype),
                              .call = call_of(timeout_s)});
  });
}

dl_status dl_send(dl_comm* comm, const void* buffer, size_t count, dl_dtype dtype, int peer,
                  uint32_t tag, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.send({.buffer = buffer,
                       .count = count,
                       .dtype = dtype_of(dtype),
                       .peer = peer,
                       .tag = tag,
                       .call = call_of(timeout_s)});
  });
}

dl_status dl_recv(dl_comm* comm, void* buffer, size_t count, dl_dtype dtype, int peer, uint32_t tag,
                  double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.recv({.buffer = buffer,
                       .count = count,
                       .dtype = dtype_of(dtype),
                       .peer = peer,
                       .tag = tag,
                       .call = call_of(timeout_s)});
  });
}

dl_status dl_sendrecv(dl_comm* comm, const void* sent, size_t sent_count, int to, uint32_t sent_tag,
                      void* received, size_t received_count, int from, uint32_t received_tag,
                      dl_dtype dtype, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.sendrecv({.buffer = sent,
                           .count = sent_count,
                           .dtype = dtype_of(dtype),
                           .peer = to,
                           .tag = sent_tag,
                           .call = call_of(timeout_s)},
                          {.buffer = received,
                           .count = received_count,
                           .dtype = dtype_of(dtype),
                           .peer = from,
                           .tag = received_tag,
                           .call = call_of(timeout_s)});
  });
}

dl_status dl_premul_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                               dl_dtype dtype, dl_reduce_op op, double factor, double timeout_s,
                               dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return premul_all_reduce(group,
                             {.input = input,
                              .output = output,
                              .count = count,
                              .dtype = dtype_of(dtype),
                              .op = op_of(op),
                              .call = call_of(timeout_s)},
                             factor);
  });
}

dl_status dl_premul_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                           dl_dtype dtype, dl_reduce_op op, double factor, int root,
                           double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return premul_reduce(group,
                         {.input = input,
                          .output = output,
                          .count = count,
                          .dtype = dtype_of(dtype),
                          .op = op_of(op),
                          .root = root,
                          .call = call_of(timeout_s)},
                         factor);
  });
}

dl_status dl_premul_reduce_scatter(dl_comm* comm, const void* input, void* output, size_t count,
                                   dl_dtype dtype, dl_reduce_op op, double factor, double timeout_s,
                                   dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return premul_reduce_scatter(group,
                                 {.input = input,
                                  .output = output,
                                  .count = count,
                                  .dtype = dtype_of(dtype),
                                  .op = op_of(op),
                                  .call = call_of(timeout_s)},
                                 factor);
  });
}

dl_status dl_user_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                             size_t element_bytes, dl_reduce_function function, void* context,
                             double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return user_all_reduce(
        group, user_options(input, output, count, element_bytes, function, context, timeout_s));
  });
}

dl_status dl_user_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                         size_t element_bytes, dl_reduce_function function, void* context, int root,
                         double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return user_reduce(
        group, user_options(input, output, count, element_bytes, function, context, timeout_s),
        root);
  });
}

dl_status dl_user_reduce_scatter(dl_comm* comm, const void* input, void* output, size_t count,
                                 size_t element_bytes, dl_reduce_function function, void* context,
                                 double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return user_reduce_scatter(
        group, user_options(input, output, count, element_bytes, function, context, timeout_s));
  });
}

dl_status dl_monitored_barrier(dl_comm* comm, double timeout_s) {
  return guarded([&] {
    const auto timeout = time_of(timeout_s);
    DL_CHECK(timeout, kInvalidArgument, "dl_monitored_barrier: timeout_s is 0, wanted more");
    monitored_barrier(group_of(comm), *timeout);
  });
}

dl_status dl_memory_allocate(dl_comm* comm, size_t bytes, dl_memory** memory) {
  return guarded([&] {
    DL_CHECK(memory != nullptr, kInvalidArgument, "dl_memory_allocate: memory is NULL");
    *memory = new dl_memory{group_of(comm).allocate_symmetric(bytes)};
  });
}

dl_status dl_memory_register(dl_comm* comm, void* data, size_t bytes, dl_memory** memory) {
  return guarded([&] {
    DL_CHECK(memory != nullptr, kInvalidArgument, "dl_memory_register: memory is NULL");
    *memory = new dl_memory{group_of(comm).register_symmetric(data, bytes)};
  });
}

void* dl_memory_data(const dl_memory* memory) {
  return memory == nullptr ? nullptr : memory->memory->data();
}

const char* dl_memory_why_not(const dl_memory* memory) {
  return memory == nullptr ? "there is no memory" : memory->memory->why_not().c_str();
}

dl_status dl_memory_check(const dl_memory* memory) {
  return guarded([&] {
    DL_CHECK(memory != nullptr, kInvalidArgument, "dl_memory_check: memory is NULL");
    memory->memory->check("dl_memory_check");
  });
}

void dl_memory_free(dl_memory* memory) {
  delete memory;
}
