// The C interface's operations.
#include "collectives/c/dl_comm.h"
#include "collectives/c/handles.h"
#include "collectives/call/descriptor.h"
#include "collectives/compose/custom_reduce.h"
#include "collectives/compose/objects.h"

using namespace dl::collectives;
using dl::DType;
using dl::Ref;
using dl::collectives::c::group_of;
using dl::collectives::c::guarded;
using dl::collectives::c::run;
using dl::collectives::c::time_of;

namespace {

static_assert(static_cast<int>(DType::kF16) == DL_F16 && static_cast<int>(DType::kF32) == DL_F32);
static_assert(static_cast<int>(DType::kI64) == DL_I64 && static_cast<int>(DType::kBool) == DL_BOOL);
static_assert(static_cast<int>(ReduceOp::kSum) == DL_SUM &&
              static_cast<int>(ReduceOp::kBxor) == DL_BXOR);
static_assert(kAnySource == DL_ANY_SOURCE);

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

CallOptions options_of(double timeout_s) {
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
          .call = options_of(timeout_s)};
}

std::span<const std::size_t> counts_of(const size_t* counts, const ProcessGroup& group) {
  if (counts == nullptr) return {};
  return {counts, static_cast<std::size_t>(group.size())};
}

}  // namespace

dl_status dl_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_reduce({.input = input,
                             .output = output,
                             .count = count,
                             .dtype = dtype_of(dtype),
                             .op = op_of(op),
                             .call = options_of(timeout_s)});
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
                         .call = options_of(timeout_s)});
  });
}

dl_status dl_broadcast(dl_comm* comm, void* buffer, size_t count, dl_dtype dtype, int root,
                       double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.broadcast({.buffer = buffer,
                            .count = count,
                            .dtype = dtype_of(dtype),
                            .root = root,
                            .call = options_of(timeout_s)});
  });
}

dl_status dl_all_gather(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_gather({.input = input,
                             .output = output,
                             .count = count,
                             .dtype = dtype_of(dtype),
                             .call = options_of(timeout_s)});
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
                                 .call = options_of(timeout_s)});
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
                         .call = options_of(timeout_s)});
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
                          .call = options_of(timeout_s)});
  });
}

dl_status dl_all_to_all(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_to_all({.input = input,
                             .output = output,
                             .count = count,
                             .dtype = dtype_of(dtype),
                             .call = options_of(timeout_s)});
  });
}

dl_status dl_barrier(dl_comm* comm, double timeout_s, dl_work** work) {
  return run(comm, work,
             [&](ProcessGroup& group) { return group.barrier({.call = options_of(timeout_s)}); });
}

dl_status dl_all_gatherv(dl_comm* comm, const void* input, void* output, const size_t* counts,
                         dl_dtype dtype, double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    return group.all_gatherv({.input = input,
                              .output = output,
                              .counts = counts_of(counts, group),
                              .dtype = dtype_of(dtype),
                              .call = options_of(timeout_s)});
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
                                  .call = options_of(timeout_s)});
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
                          .call = options_of(timeout_s)});
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
                           .call = options_of(timeout_s)});
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
                              .call = options_of(timeout_s)});
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
                       .call = options_of(timeout_s)});
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
                       .call = options_of(timeout_s)});
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
                           .call = options_of(timeout_s)},
                          {.buffer = received,
                           .count = received_count,
                           .dtype = dtype_of(dtype),
                           .peer = from,
                           .tag = received_tag,
                           .call = options_of(timeout_s)});
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
                              .call = options_of(timeout_s)},
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
                          .call = options_of(timeout_s)},
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
                                  .call = options_of(timeout_s)},
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
