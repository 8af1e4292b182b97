// The C interface's operations.
#include "collectives/c/dl_comm.h"
#include "collectives/c/handles.h"
#include "collectives/compose/custom_reduce.h"
#include "collectives/compose/objects.h"

using namespace dl::collectives;
using dl::collectives::c::check_buffers;
using dl::collectives::c::dtype_of;
using dl::collectives::c::group_of;
using dl::collectives::c::guarded;
using dl::collectives::c::op_of;
using dl::collectives::c::run;
using dl::collectives::c::time_of;

namespace {

CallOptions options_of(double timeout_s) {
  return {.timeout = time_of(timeout_s)};
}

// What a dl_call does not name is 0.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

// Starts a call whose buffers are the caller's.
dl_status start(dl_comm* comm, dl_work** work, dl_call call) {
  call.struct_size = sizeof call;
  return dl_start(comm, &call, work);
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

}  // namespace

dl_status dl_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_ALL_REDUCE,
                .dtype = dtype,
                .reduce = op,
                .input = input,
                .output = output,
                .count = count,
                .timeout_s = timeout_s});
}

dl_status dl_reduce(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                    dl_reduce_op op, int root, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_REDUCE,
                .dtype = dtype,
                .reduce = op,
                .input = input,
                .output = output,
                .count = count,
                .peer = root,
                .timeout_s = timeout_s});
}

dl_status dl_broadcast(dl_comm* comm, void* buffer, size_t count, dl_dtype dtype, int root,
                       double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_BROADCAST,
                .dtype = dtype,
                .output = buffer,
                .count = count,
                .peer = root,
                .timeout_s = timeout_s});
}

dl_status dl_all_gather(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_ALL_GATHER,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = count,
                .timeout_s = timeout_s});
}

dl_status dl_reduce_scatter(dl_comm* comm, const void* input, void* output, size_t count,
                            dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_REDUCE_SCATTER,
                .dtype = dtype,
                .reduce = op,
                .input = input,
                .output = output,
                .count = count,
                .timeout_s = timeout_s});
}

dl_status dl_gather(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                    int root, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_GATHER,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = count,
                .peer = root,
                .timeout_s = timeout_s});
}

dl_status dl_scatter(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                     int root, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_SCATTER,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = count,
                .peer = root,
                .timeout_s = timeout_s});
}

dl_status dl_all_to_all(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_ALL_TO_ALL,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = count,
                .timeout_s = timeout_s});
}

dl_status dl_barrier(dl_comm* comm, double timeout_s, dl_work** work) {
  return start(comm, work, {.op = DL_OP_BARRIER, .timeout_s = timeout_s});
}

dl_status dl_all_gatherv(dl_comm* comm, const void* input, void* output, const size_t* counts,
                         dl_dtype dtype, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_ALL_GATHERV,
                .dtype = dtype,
                .input = input,
                .output = output,
                .output_counts = counts,
                .timeout_s = timeout_s});
}

dl_status dl_reduce_scatterv(dl_comm* comm, const void* input, void* output, const size_t* counts,
                             dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_REDUCE_SCATTERV,
                .dtype = dtype,
                .reduce = op,
                .input = input,
                .output = output,
                .input_counts = counts,
                .timeout_s = timeout_s});
}

dl_status dl_gatherv(dl_comm* comm, const void* input, size_t count, void* output,
                     const size_t* counts, dl_dtype dtype, int root, double timeout_s,
                     dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_GATHERV,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = count,
                .output_counts = counts,
                .peer = root,
                .timeout_s = timeout_s});
}

dl_status dl_scatterv(dl_comm* comm, const void* input, const size_t* counts, void* output,
                      size_t count, dl_dtype dtype, int root, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_SCATTERV,
                .dtype = dtype,
                .input = input,
                .output = output,
                .count = count,
                .input_counts = counts,
                .peer = root,
                .timeout_s = timeout_s});
}

dl_status dl_all_to_allv(dl_comm* comm, const void* input, const size_t* send_counts, void* output,
                         const size_t* receive_counts, dl_dtype dtype, double timeout_s,
                         dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_ALL_TO_ALLV,
                .dtype = dtype,
                .input = input,
                .output = output,
                .input_counts = send_counts,
                .output_counts = receive_counts,
                .timeout_s = timeout_s});
}

dl_status dl_send(dl_comm* comm, const void* buffer, size_t count, dl_dtype dtype, int peer,
                  uint32_t tag, double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_SEND,
                .dtype = dtype,
                .input = buffer,
                .count = count,
                .peer = peer,
                .tag = tag,
                .timeout_s = timeout_s});
}

dl_status dl_recv(dl_comm* comm, void* buffer, size_t count, dl_dtype dtype, int peer, uint32_t tag,
                  double timeout_s, dl_work** work) {
  return start(comm, work,
               {.op = DL_OP_RECV,
                .dtype = dtype,
                .output = buffer,
                .count = count,
                .peer = peer,
                .tag = tag,
                .timeout_s = timeout_s});
}

dl_status dl_sendrecv(dl_comm* comm, const void* sent, size_t sent_count, int to, uint32_t sent_tag,
                      void* received, size_t received_count, int from, uint32_t received_tag,
                      dl_dtype dtype, double timeout_s, dl_work** work) {
  const dl_call both[] = {{.struct_size = sizeof(dl_call),
                           .op = DL_OP_RECV,
                           .dtype = dtype,
                           .output = received,
                           .count = received_count,
                           .peer = from,
                           .tag = received_tag,
                           .timeout_s = timeout_s},
                          {.struct_size = sizeof(dl_call),
                           .op = DL_OP_SEND,
                           .dtype = dtype,
                           .input = sent,
                           .count = sent_count,
                           .peer = to,
                           .tag = sent_tag,
                           .timeout_s = timeout_s}};
  return dl_start_list(comm, both, 2, work);
}

dl_status dl_premul_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                               dl_dtype dtype, dl_reduce_op op, double factor, double timeout_s,
                               dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    check_buffers(*comm, input, output);
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
    check_buffers(*comm, input, output);
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
    check_buffers(*comm, input, output);
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
    check_buffers(*comm, input, output);
    return user_all_reduce(
        group, user_options(input, output, count, element_bytes, function, context, timeout_s));
  });
}

dl_status dl_user_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                         size_t element_bytes, dl_reduce_function function, void* context, int root,
                         double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    check_buffers(*comm, input, output);
    return user_reduce(
        group, user_options(input, output, count, element_bytes, function, context, timeout_s),
        root);
  });
}

dl_status dl_user_reduce_scatter(dl_comm* comm, const void* input, void* output, size_t count,
                                 size_t element_bytes, dl_reduce_function function, void* context,
                                 double timeout_s, dl_work** work) {
  return run(comm, work, [&](ProcessGroup& group) {
    check_buffers(*comm, input, output);
    return user_reduce_scatter(
        group, user_options(input, output, count, element_bytes, function, context, timeout_s));
  });
}

dl_status dl_monitored_barrier(dl_comm* comm, double timeout_s) {
  return guarded([&] {
    const auto timeout = time_of(timeout_s);
    DL_CHECK(timeout, kInvalidArgument, "monitored_barrier: timeout_s is 0, wanted more");
    monitored_barrier(group_of(comm), *timeout);
  });
}
