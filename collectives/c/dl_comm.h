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

#define DL_COMM_VERSION                                                    \
  2 /* 1: without dl_call, options, ids, reform, byte strings, descriptors \
     */

/* NOLINTBEGIN(modernize-use-using): this is C */
typedef struct dl_comm dl_comm;     /* a group of ranks */
typedef struct dl_work dl_work;     /* an operation under way */
typedef struct dl_memory dl_memory; /* symmetric memory */
typedef struct dl_bytes dl_bytes;   /* byte strings that other ranks have sent */

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
  DL_BOOL = 12,
  /* Pairs of floats, real and imaginary part; DL_SUM and DL_AVG reduce them. */
  DL_C64 = 13, /* of f32 */
  DL_C128 = 14 /* of f64 */
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

/* The order of additions. */
enum {
  DL_ORDER_PLAN = 0, /* that of the plan's algorithm, the fastest */
  DL_ORDER_TREE = 1  /* one fixed tree: the same bits for every number of ranks */
};
typedef int32_t dl_order;

#define DL_ANY_SOURCE (-1) /* peer of dl_recv */
#define DL_NO_COLOR (-1)   /* color of dl_comm_split */

/* DL_COMM_VERSION of the linked library. */
int dl_comm_version(void);
/* Text of this thread's last error; "" if there was none. Valid until its next failing call. */
const char* dl_last_error(void);
/* The rank in the job (RANK) that this error blames, for example one that died; -1: none. Of a
 * mismatch: one of the two whose calls the text quotes, which may be this rank. */
int dl_last_error_rank(void);

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

/* By what the ranks of a new group find rank 0: its addresses and a fresh secret. Pass it on to the
 * ranks as you like; what knows it can join. */
typedef struct dl_unique_id {
  unsigned char bytes[128];
} dl_unique_id;
/* For the process that will be rank 0: it listens from now on, and answers in dl_comm_make(). An id
 * is for one group. `iface`: an interface, an address or a network; NULL: DLRUN_IFACE, else all. */
dl_status dl_unique_id_make(const char* iface, dl_unique_id* id);

/* What dl_comm_init() takes, and more. Begin with DL_COMM_OPTIONS_INIT. NULL: from the environment
 * (init_method, backend, algorithm, plan: DLRUN_BACKEND and so on), and "world" for the name. */
typedef struct dl_comm_options {
  size_t struct_size;
  const char* name;
  const char* init_method; /* "env://", "tcp://host:port", "file:///directory" */
  const char* backend;     /* "auto", "shm", "tcp", "hybrid", "mpi" */
  const char* algorithm;   /* "ring", or "all_reduce:ring,broadcast:chain" */
  const char* plan;        /* a file */
  int rank;                /* -1: from the environment */
  int size;                /* -1: from the environment */
  double timeout_s;        /* of an operation, and of this call; 0: DLRUN_TIMEOUT, else 600 */
  const dl_unique_id* id;  /* of dl_comm_make() */
  /* Of dl_comm_make(): the RANK of each of the `size` ranks, by which errors name it, and by which
   * dlrun notices that it has ended. NULL: not known, unless the group is the whole job. */
  const int* job_ranks;
} dl_comm_options;
#define DL_COMM_OPTIONS_INIT \
  {sizeof(dl_comm_options), NULL, NULL, NULL, NULL, NULL, -1, -1, 0, NULL, NULL}
dl_status dl_comm_init_options(const dl_comm_options* options, dl_comm** world);

/* A store of the caller's, through which ranks find each other. The functions return DL_OK or the
 * kind of an error, and are called by the thread that makes the group. */
typedef struct dl_store {
  void* context;
  dl_status (*set)(void* context, const char* key, const void* value, size_t size);
  /* Waits until the key exists, then calls give(to, value, size) once; DL_TIMEOUT after timeout_s.
   */
  dl_status (*get)(void* context, const char* key, double timeout_s,
                   void (*give)(void* to, const void* value, size_t size), void* to);
} dl_store;

/* Collective over `size` processes, numbered by the caller; returns when all have come. They meet
 * by the options' id, or, with a NULL id, over the store, in which rank 0 sets one key that the
 * others get. `name` is equal on all ranks, and unique among the groups that are ever made in this
 * store; NULL: "group". Of the options it uses name, backend (not "mpi"), algorithm, plan, rank,
 * size, timeout_s (0: 600), id and job_ranks. `with_job_key` 1: the ranks are of one job of dlrun,
 * whose key (DLRUN_KEY_FILE) they prove; 0: the id's, and what can read the store can join.
 * Independent of dl_comm_init(); any number in a process. */
dl_status dl_comm_make(const dl_comm_options* options, const dl_store* store, int with_job_key,
                       dl_comm** comm);

/* Collective over the parent. Sets *part to NULL for DL_NO_COLOR. */
dl_status dl_comm_split(dl_comm* parent, int color, int key, dl_comm** part);
/* Collective over the parent: one group for the ranks of each node, in the parent's order. */
dl_status dl_comm_split_by_node(dl_comm* parent, dl_comm** part);
/* Collective over the ranks that are left after others have died or left, or over all: makes a new
 * group of them, in the same order, with numbers from 0. `comm` is aborted, and still needs
 * dl_comm_destroy(). `timeout_s` 0: the group's. DL_TIMEOUT names a rank that lives and has not
 * called it; it may be called again then. Not over MPI, nor for a part of dl_comm_split(). The
 * group of dl_comm_init() is replaced by the new one. */
dl_status dl_comm_reform(dl_comm* comm, double timeout_s, dl_comm** made);
/* Leaves the group; operations under way end with DL_ABORTED. `comm` may be NULL. */
void dl_comm_destroy(dl_comm* comm);
int dl_comm_rank(const dl_comm* comm);
int dl_comm_size(const dl_comm* comm);
/* "tcp", "shm", "hybrid", "mpi", or "solo" for one rank; "" for NULL. Valid as long as the group.
 */
const char* dl_comm_backend(const dl_comm* comm);
/* The group's name, and the name of the plan that picks algorithms, "" if none does. */
const char* dl_comm_name(const dl_comm* comm);
const char* dl_comm_plan(const dl_comm* comm);
/* Breaks the group: operations under way end with DL_ABORTED and this reason on every rank. */
void dl_comm_abort(dl_comm* comm, const char* reason);
/* The first cause of a broken group, else DL_OK. */
dl_status dl_comm_error(dl_comm* comm);

/* Operations under way. -------------------------------------------------------------------------
 */

/* Waits for the operation, and frees the work. */
dl_status dl_work_wait(dl_work* work);
/* Waits without freeing the work, for at most `timeout_s` (0: until the operation is over). Returns
 * the operation's status, or DL_TIMEOUT naming the missing ranks if it still runs:
 * dl_work_is_completed() then returns 0. */
dl_status dl_work_wait_for(dl_work* work, double timeout_s);
/* 1 once the operation is over, with or without an error. */
int dl_work_is_completed(const dl_work* work);
/* The error of an operation that is over; DL_OK while it runs, and if it succeeded. */
dl_status dl_work_error(const dl_work* work);
/* The rank whose message a receive has taken; -1 for other operations, and while it runs. For a
 * list of messages `dl_work_source_of` tells it of each, by its place in the list. */
int dl_work_source(const dl_work* work);
int dl_work_source_of(const dl_work* work, size_t message);
/* A descriptor that becomes readable once the operation is over, for poll() and event loops. Only
 * poll it: it belongs to the work, and is closed when that is freed. wait() may still run a last
 * step, such as a user's function. */
dl_status dl_work_fd(dl_work* work, int* fd);
/* Waits until one of the works is over, for at most `timeout_s` (0: for ever), and stores its place
 * in *which. NULL works are skipped. Returns DL_TIMEOUT if none is over in time. Frees no work, and
 * does not return the operation's error. */
dl_status dl_wait_any(dl_work* const* works, size_t count, double timeout_s, size_t* which);
/* 1 if all works are over; NULL works are. */
int dl_test_all(dl_work* const* works, size_t count);
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

/* Any operation as data. Every function below that takes buffers makes such a call, except those
 * for factors and users' functions. */
enum {
  DL_OP_ALL_REDUCE = 0,
  DL_OP_BROADCAST = 1,
  DL_OP_ALL_GATHER = 2,
  DL_OP_REDUCE_SCATTER = 3,
  DL_OP_BARRIER = 4,
  DL_OP_SEND = 5,
  DL_OP_RECV = 6,
  DL_OP_REDUCE = 7,
  DL_OP_GATHER = 8,
  DL_OP_SCATTER = 9,
  DL_OP_ALL_TO_ALL = 10,
  DL_OP_ALL_GATHERV = 11,
  DL_OP_REDUCE_SCATTERV = 12,
  DL_OP_GATHERV = 13,
  DL_OP_SCATTERV = 14,
  DL_OP_ALL_TO_ALLV = 15
};
typedef int32_t dl_op;

/* May be called from any thread, but must not call the library. */
typedef void (*dl_release_function)(void* context);

typedef struct dl_call {
  size_t struct_size; /* sizeof(dl_call); set the rest to 0 first */
  dl_op op;
  dl_dtype dtype;
  dl_reduce_op reduce;
  dl_order order;
  const void* input; /* of a send: its buffer */
  void* output;      /* of a broadcast and a recv: the buffer */
  size_t count;
  const size_t* input_counts; /* v-variants: elements of each rank's part, on the divided side */
  const size_t* output_counts;
  int32_t peer; /* the root of a collective, the other rank of a message */
  uint32_t tag; /* of a message */
  double timeout_s;
  /* If not NULL, called once with `context` when the library needs the buffers no more: shortly
   * after the end of the operation, or before a failing call returns. Not called if struct_size is
   * less than sizeof(dl_call). */
  dl_release_function release;
  void* context;
  /* Where each part begins, in elements, as in MPI; NULL: one behind the other. On the side that
   * has counts. The parts are copied; parts of an output must not overlap. */
  const size_t* input_displacements;
  const size_t* output_displacements;
} dl_call;

dl_status dl_start(dl_comm* comm, const dl_call* call, dl_work** work);
/* Starts a list as one operation. Messages start at once, and none waits for another.
 * all_reduce, all_gather or reduce_scatter of one dtype and reduction are packed, so that their
 * latency is paid once (collectives/compose/coalesced.h); the first call's timeout and order count.
 * Other lists are refused. */
dl_status dl_start_list(dl_comm* comm, const dl_call* calls, size_t count, dl_work** work);

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

/* Byte strings whose lengths the other ranks do not know. These block. ---------------------------
 */

/* Every rank's string, by rank. */
dl_status dl_all_gather_bytes(dl_comm* comm, const void* data, size_t size, double timeout_s,
                              dl_bytes** all);
/* Every rank's string on the root; none elsewhere. */
dl_status dl_gather_bytes(dl_comm* comm, const void* data, size_t size, int root, double timeout_s,
                          dl_bytes** all);
/* The root's string; other ranks' `data` is not read. */
dl_status dl_broadcast_bytes(dl_comm* comm, const void* data, size_t size, int root,
                             double timeout_s, dl_bytes** bytes);
/* parts[rank] of the root, of sizes[rank] bytes; not read elsewhere. */
dl_status dl_scatter_bytes(dl_comm* comm, const void* const* parts, const size_t* sizes, int root,
                           double timeout_s, dl_bytes** bytes);
/* The number of strings, and one of them; NULL if there is no such one. Valid until freed. */
size_t dl_bytes_count(const dl_bytes* bytes);
const void* dl_bytes_data(const dl_bytes* bytes, size_t which, size_t* size);
void dl_bytes_free(dl_bytes* bytes); /* `bytes` may be NULL */

/* *should: 1 on all ranks after the same call, once the job is asked to save; to be called once a
 * step on every rank (collectives/init/checkpoint/checkpoint.h). Needs no group. */
dl_status dl_should_checkpoint(int* should);

/* Lets all ranks of the job agree on a flag, even after the group broke and with ranks gone;
 * blocks. *agreed is "and" over the flags of the ranks that came before the patience of any waiting
 * rank ended; *missing is the number of the others, and their ranks are stored in `ranks`, as many
 * as `room` allows. `ranks` and `missing` may be NULL. A name is used once. Needs the group of
 * dl_comm_init(). */
dl_status dl_agree(const char* name, int flag, double patience_s, int* agreed, int* ranks,
                   size_t room, size_t* missing);

/* NOLINTEND(modernize-use-using) */

#ifdef __cplusplus
}
#endif

#endif
