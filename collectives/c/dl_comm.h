/* dl_comm: the collectives of dlrun for C, and for every language that can call C.
 *
 *     dl_comm* world;
 *     if (dl_comm_init(NULL, -1, -1, 0, &world) != DL_OK) { puts(dl_last_error()); exit(1); }
 *     dl_all_reduce(world, x, x, 1000, DL_F32, DL_SUM, 0, NULL);
 *     dl_comm_destroy(world);
 *
 * collectives/api/process_group.h describes each operation, its buffers and what ranks must agree
 * on; docs/reference/collectives.md is the full reference.
 *
 * Status: every function that can fail returns DL_OK or the kind of its error, and stores the text
 * for dl_last_error() of this thread. After an error of an operation (not of its arguments) the
 * group is broken: every later call returns the first cause.
 *
 * Asynchronous operations: if `work` is NULL the call returns when the operation is over.
 * Otherwise *work receives a dl_work, to be given to dl_work_wait() or dl_work_free(); the buffers
 * must stay valid until the operation is over. `timeout_s`: deadline in seconds, 0: the group's.
 *
 * Threads: a handle may be used from any thread; the order of a group's calls must be the same on
 * all ranks. Stability: functions and numbers keep their meaning; new ones may be added. */
#ifndef DL_COMM_H
#define DL_COMM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DL_COMM_VERSION 1

/* NOLINTBEGIN(modernize-use-using): this is C */
typedef struct dl_comm dl_comm;     /* a group of ranks */
typedef struct dl_work dl_work;     /* an operation under way */
typedef struct dl_memory dl_memory; /* symmetric memory */

/* Plain 32-bit numbers: every language passes them alike, and a wrong one is an error instead of
 * undefined behaviour. */
enum {
  DL_OK = 0,
  DL_INVALID_ARGUMENT = 1,
  DL_SHAPE = 2,
  DL_DTYPE = 3,
  DL_INDEX = 4,
  DL_NOT_FOUND = 5,
  DL_IO = 6,
  DL_PARSE = 7,
  DL_TIMEOUT = 8,
  DL_CONNECTION = 9,
  DL_AUTHENTICATION = 10,
  DL_MISMATCH = 11,
  DL_PEER_FAILED = 12,
  DL_ABORTED = 13,
  DL_NOT_IMPLEMENTED = 14,
  DL_INTERNAL = 15
};
typedef int32_t dl_status;

enum {
  DL_F16 = 0,
  DL_BF16 = 1,
  DL_F32 = 2,
  DL_F64 = 3,
  DL_I8 = 4,
  DL_U8 = 5,
  DL_I16 = 6,
  DL_U16 = 7,
  DL_I32 = 8,
  DL_U32 = 9,
  DL_I64 = 10,
  DL_U64 = 11,
  DL_BOOL = 12
};
typedef int32_t dl_dtype;

enum {
  DL_SUM = 0,
  DL_AVG = 1,
  DL_MIN = 2,
  DL_MAX = 3,
  DL_PROD = 4,
  DL_BAND = 5,
  DL_BOR = 6,
  DL_BXOR = 7
};
typedef int32_t dl_reduce_op;

#define DL_ANY_SOURCE (-1) /* peer of dl_recv */
#define DL_NO_COLOR (-1)   /* color of dl_comm_split */

/* DL_COMM_VERSION of the linked library. */
int dl_comm_version(void);
/* Text of this thread's last error; "" if there was none. Valid until its next failing call. */
const char* dl_last_error(void);

/* Groups. ---------------------------------------------------------------------------------------
 */

/* Joins the job: a collective call that returns when all ranks have come. NULL, -1, -1, 0: takes
 * everything from the environment (dlrun, mpirun, srun). A process has one such group at a time:
 * call it again only after dl_comm_destroy(). A rank's n-th call meets the n-th call of the other
 * ranks. */
dl_status dl_comm_init(const char* init_method, int rank, int size, double timeout_s,
                       dl_comm** world);
/* dl_comm_init() with a name for the group, equal on all ranks: 1 to 128 bytes without '/'; errors
 * and `dlrun autopsy` show it. NULL: "world". */
dl_status dl_comm_init_named(const char* name, const char* init_method, int rank, int size,
                             double timeout_s, dl_comm** world);
/* Collective over the parent. Sets *part to NULL for DL_NO_COLOR. */
dl_status dl_comm_split(dl_comm* parent, int color, int key, dl_comm** part);
/* Leaves the group; operations under way end with DL_ABORTED. `comm` may be NULL. */
void dl_comm_destroy(dl_comm* comm);
int dl_comm_rank(const dl_comm* comm);
int dl_comm_size(const dl_comm* comm);
/* "tcp", "shm", "hybrid", "mpi", or "solo" for one rank; "" for NULL. Valid as long as the group.
 */
const char* dl_comm_backend(const dl_comm* comm);
/* Breaks the group: operations under way end with DL_ABORTED and this reason on every rank. */
void dl_comm_abort(dl_comm* comm, const char* reason);
/* The first cause of a broken group, else DL_OK. */
dl_status dl_comm_error(dl_comm* comm);

/* Operations under way. -------------------------------------------------------------------------
 */

/* Waits for the operation, and frees the work. */
dl_status dl_work_wait(dl_work* work);
/* 1 once the operation is over, with or without an error. */
int dl_work_is_completed(const dl_work* work);
/* The rank whose message a receive has taken; -1 for other operations, and while it runs. */
int dl_work_source(const dl_work* work);
/* Frees the work without waiting; its error appears at the group's next call. May be NULL. */
void dl_work_free(dl_work* work);

/* Symmetric memory. -----------------------------------------------------------------------------
 *
 * Memory of the same size on every rank, which the other ranks of a node can map. Operations
 * recognise it by the pointers they are given, and are fastest in it
 * (collectives/api/symmetric_memory.h). It may outlive the group. */

/* Collective, blocks. The memory is aligned to at least 64 bytes and filled with zeros. If the
 * group cannot share memory, it is ordinary memory. */
dl_status dl_memory_allocate(dl_comm* comm, size_t bytes, dl_memory** memory);
/* Collective, blocks: shares existing memory (whole pages, private and anonymous), which must stay
 * mapped until dl_memory_free(). No thread may write to it during the call. */
dl_status dl_memory_register(dl_comm* comm, void* data, size_t bytes, dl_memory** memory);
void* dl_memory_data(const dl_memory* memory);
/* "" if the ranks share it, else the reason; valid as long as the memory. */
const char* dl_memory_why_not(const dl_memory* memory);
/* DL_ABORTED if an operation that used it has failed: its contents are undefined. */
dl_status dl_memory_check(const dl_memory* memory);
/* Frees this rank's part. `memory` may be NULL. */
void dl_memory_free(dl_memory* memory);

/* Operations. -----------------------------------------------------------------------------------
 */

dl_status dl_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work);
dl_status dl_reduce(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                    dl_reduce_op op, int root, double timeout_s, dl_work** work);
dl_status dl_broadcast(dl_comm* comm, void* buffer, size_t count, dl_dtype dtype, int root,
                       double timeout_s, dl_work** work);
dl_status dl_all_gather(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, double timeout_s, dl_work** work);
dl_status dl_reduce_scatter(dl_comm* comm, const void* input, void* output, size_t count,
                            dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work);
dl_status dl_gather(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                    int root, double timeout_s, dl_work** work);
dl_status dl_scatter(dl_comm* comm, const void* input, void* output, size_t count, dl_dtype dtype,
                     int root, double timeout_s, dl_work** work);
dl_status dl_all_to_all(dl_comm* comm, const void* input, void* output, size_t count,
                        dl_dtype dtype, double timeout_s, dl_work** work);
dl_status dl_barrier(dl_comm* comm, double timeout_s, dl_work** work);

/* Counts: one for each rank of the group, in elements; read during the call only. For gatherv and
 * scatterv they may be NULL if this rank is not the root. */
dl_status dl_all_gatherv(dl_comm* comm, const void* input, void* output, const size_t* counts,
                         dl_dtype dtype, double timeout_s, dl_work** work);
dl_status dl_reduce_scatterv(dl_comm* comm, const void* input, void* output, const size_t* counts,
                             dl_dtype dtype, dl_reduce_op op, double timeout_s, dl_work** work);
dl_status dl_gatherv(dl_comm* comm, const void* input, size_t count, void* output,
                     const size_t* counts, dl_dtype dtype, int root, double timeout_s,
                     dl_work** work);
dl_status dl_scatterv(dl_comm* comm, const void* input, const size_t* counts, void* output,
                      size_t count, dl_dtype dtype, int root, double timeout_s, dl_work** work);
dl_status dl_all_to_allv(dl_comm* comm, const void* input, const size_t* send_counts, void* output,
                         const size_t* receive_counts, dl_dtype dtype, double timeout_s,
                         dl_work** work);

dl_status dl_send(dl_comm* comm, const void* buffer, size_t count, dl_dtype dtype, int peer,
                  uint32_t tag, double timeout_s, dl_work** work);
dl_status dl_recv(dl_comm* comm, void* buffer, size_t count, dl_dtype dtype, int peer, uint32_t tag,
                  double timeout_s, dl_work** work);

/* Starts both at once; neither waits for the other. */
dl_status dl_sendrecv(dl_comm* comm, const void* sent, size_t sent_count, int to, uint32_t sent_tag,
                      void* received, size_t received_count, int from, uint32_t received_tag,
                      dl_dtype dtype, double timeout_s, dl_work** work);

/* Each rank's input times its own factor, then DL_SUM or DL_AVG. Floating dtypes. */
dl_status dl_premul_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                               dl_dtype dtype, dl_reduce_op op, double factor, double timeout_s,
                               dl_work** work);
dl_status dl_premul_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                           dl_dtype dtype, dl_reduce_op op, double factor, int root,
                           double timeout_s, dl_work** work);
dl_status dl_premul_reduce_scatter(dl_comm* comm, const void* input, void* output, size_t count,
                                   dl_dtype dtype, dl_reduce_op op, double factor, double timeout_s,
                                   dl_work** work);

/* inout[i] = inout[i] op in[i]; `in` is the higher rank's. Runs in the thread that waits. */
typedef void (*dl_reduce_function)(const void* in, void* inout, size_t count, void* context);
dl_status dl_user_all_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                             size_t element_bytes, dl_reduce_function function, void* context,
                             double timeout_s, dl_work** work);
dl_status dl_user_reduce(dl_comm* comm, const void* input, void* output, size_t count,
                         size_t element_bytes, dl_reduce_function function, void* context, int root,
                         double timeout_s, dl_work** work);
dl_status dl_user_reduce_scatter(dl_comm* comm, const void* input, void* output, size_t count,
                                 size_t element_bytes, dl_reduce_function function, void* context,
                                 double timeout_s, dl_work** work);

/* Blocks until all ranks have called it. At the deadline (more than 0) every rank that has called
 * it gets DL_TIMEOUT and the name of each missing rank, and the group is broken. */
dl_status dl_monitored_barrier(dl_comm* comm, double timeout_s);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
