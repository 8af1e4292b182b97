/* dl_comm from C: three processes that meet in a directory and use what a binding would use. */
#define _GNU_SOURCE
#include <dl_comm.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRanks = 3, kTimeout = 60 };

static int my_rank = -1;
static int ended[2];     /* a byte of each rank that has seen the group's end */
static int may_leave[2]; /* closed once all have */

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "rank %d, line %d: %s (last error: %s)\n", my_rank, __LINE__, #condition, \
              dl_last_error());                                                                 \
      _exit(1);                                                                                 \
    }                                                                                           \
  } while (0)

static void largest(const void* in, void* inout, size_t count, void* context) {
  const int* theirs = in;
  int* ours = inout;
  for (size_t i = 0; i < count; ++i) {
    if (theirs[i] > ours[i]) ours[i] = theirs[i];
  }
  ++*(int*)context;
}

static void reductions(dl_comm* comm) {
  int x[4] = {my_rank, 1, 2, 3}, y[4] = {0}, parts[3] = {my_rank, my_rank, my_rank};
  CHECK(dl_all_reduce(comm, x, y, 4, DL_I32, DL_SUM, 0, NULL) == DL_OK);
  CHECK(y[0] == 3 && y[1] == 3 && y[3] == 9);
  CHECK(dl_reduce(comm, x, y, 1, DL_I32, DL_MAX, 2, 0, NULL) == DL_OK);
  CHECK(my_rank != 2 || y[0] == 2);
  CHECK(dl_reduce_scatter(comm, parts, y, 1, DL_I32, DL_SUM, 0, NULL) == DL_OK && y[0] == 3);
  const size_t counts[kRanks] = {0, 1, 2};
  CHECK(dl_reduce_scatterv(comm, parts, y, counts, DL_I32, DL_SUM, 0, NULL) == DL_OK);
  CHECK(my_rank == 0 || y[0] == 3);
  int calls = 0;
  CHECK(dl_user_all_reduce(comm, x, y, 4, sizeof(int), largest, &calls, 0, NULL) == DL_OK);
  CHECK(y[0] == 2 && calls == kRanks - 1);
  CHECK(dl_user_reduce(comm, x, y, 4, sizeof(int), largest, &calls, 1, 0, NULL) == DL_OK);
  CHECK(my_rank != 1 || y[0] == 2);
  CHECK(dl_user_reduce_scatter(comm, parts, y, 1, sizeof(int), largest, &calls, 0, NULL) == DL_OK);
  CHECK(y[0] == 2);
  const double factor = my_rank + 1; /* 1, 2, 3 */
  float ones[kRanks] = {1, 1, 1}, sums[kRanks] = {0};
  CHECK(dl_premul_all_reduce(comm, ones, sums, 3, DL_F32, DL_SUM, factor, 0, NULL) == DL_OK);
  CHECK(sums[0] == 6 && sums[2] == 6);
  CHECK(dl_premul_reduce(comm, ones, sums, 1, DL_F32, DL_AVG, factor, 0, 0, NULL) == DL_OK);
  CHECK(my_rank != 0 || sums[0] == 2);
  CHECK(dl_premul_reduce_scatter(comm, ones, sums, 1, DL_F32, DL_SUM, factor, 0, NULL) == DL_OK);
  CHECK(sums[0] == 6);
}

static void parts(dl_comm* comm) {
  int own = my_rank + 1, all[kRanks] = {0}, sent[kRanks], got[kRanks] = {0};
  CHECK(dl_all_gather(comm, &own, all, 1, DL_I32, 0, NULL) == DL_OK && all[2] == 3);
  CHECK(dl_gather(comm, &own, all, 1, DL_I32, 0, 0, NULL) == DL_OK);
  CHECK(dl_scatter(comm, all, &own, 1, DL_I32, 0, 0, NULL) == DL_OK && own == my_rank + 1);
  for (int r = 0; r < kRanks; ++r) sent[r] = 10 * my_rank + r;
  CHECK(dl_all_to_all(comm, sent, got, 1, DL_I32, 0, NULL) == DL_OK && got[2] == 20 + my_rank);
  const size_t ones[kRanks] = {1, 1, 1};
  CHECK(dl_all_to_allv(comm, sent, ones, got, ones, DL_I32, 0, NULL) == DL_OK &&
        got[1] == 10 + my_rank);
  CHECK(dl_all_gatherv(comm, &own, all, ones, DL_I32, 0, NULL) == DL_OK && all[1] == 2);
  const size_t* at_root = my_rank == 0 ? ones : NULL;
  CHECK(dl_gatherv(comm, &own, 1, all, at_root, DL_I32, 0, 0, NULL) == DL_OK);
  CHECK(dl_scatterv(comm, all, at_root, &own, 1, DL_I32, 0, 0, NULL) == DL_OK);
  CHECK(own == my_rank + 1);
  int word = my_rank == 1 ? 42 : 0;
  CHECK(dl_broadcast(comm, &word, 1, DL_I32, 1, 0, NULL) == DL_OK && word == 42);
}

// Asks for a minute at least.
static int is_completed_in_time(const dl_work* work) {
  for (int tries = 0; tries < 600000; ++tries) {
    if (dl_work_is_completed(work)) return 1;
    usleep(100);
  }
  return 0;
}

static void messages(dl_comm* comm) {
  int x = my_rank, y = -1;
  const int right = (my_rank + 1) % kRanks, left = (my_rank + 2) % kRanks;
  CHECK(dl_sendrecv(comm, &x, 1, right, 9, &y, 1, left, 9, DL_I32, 0, NULL) == DL_OK && y == left);
  if (my_rank != 0) {
    CHECK(dl_send(comm, &x, 1, DL_I32, 0, 7, 0, NULL) == DL_OK);
    return;
  }
  for (int k = 1; k < kRanks; ++k) {
    dl_work* work = NULL;
    CHECK(dl_recv(comm, &x, 1, DL_I32, DL_ANY_SOURCE, 7, 0, &work) == DL_OK && work != NULL);
    CHECK(is_completed_in_time(work));
    CHECK(dl_work_source(work) == x);
    CHECK(dl_work_wait(work) == DL_OK);
  }
}

static void count_release(void* context) {
  ++*(int*)context;
}

static void calls(dl_comm* comm) {
  int released = 0;
  float z[4] = {1, (float)my_rank, 2, 0}; /* 1 + i rank, 2 */
  dl_call call = {.struct_size = sizeof call,
                  .op = DL_OP_ALL_REDUCE,
                  .dtype = DL_C64,
                  .reduce = DL_SUM,
                  .order = DL_ORDER_TREE,
                  .input = z,
                  .output = z,
                  .count = 2,
                  .release = count_release,
                  .context = &released};
  CHECK(dl_start(comm, &call, NULL) == DL_OK);
  CHECK(z[0] == 3 && z[1] == 3 && z[2] == 6 && z[3] == 0);
  CHECK(dl_barrier(comm, 0, NULL) == DL_OK && released == 1);
  /* A refused call releases its buffers, too. */
  call.reduce = DL_MAX;
  CHECK(dl_start(comm, &call, NULL) == DL_DTYPE && released == 2);
  call.op = 99;
  CHECK(dl_start(comm, &call, NULL) == DL_INVALID_ARGUMENT && released == 3);
  CHECK(dl_start(NULL, &call, NULL) == DL_INVALID_ARGUMENT && released == 4);
  /* One of a later version has these fields, too; a shorter one may end before them. */
  call.struct_size = sizeof call + 8;
  CHECK(dl_start(comm, &call, NULL) == DL_INVALID_ARGUMENT && released == 5);
  CHECK(strstr(dl_last_error(), "wanted sizeof(dl_call)") != NULL);
  call.struct_size = 8;
  CHECK(dl_start(comm, &call, NULL) == DL_INVALID_ARGUMENT && released == 5);
  CHECK(dl_start(comm, NULL, NULL) == DL_INVALID_ARGUMENT);
  /* Two complex numbers of rank 0, one of rank 2. */
  const size_t counts[kRanks] = {2, 0, 1};
  float all[6] = {0};
  const dl_call gather = {.struct_size = sizeof gather,
                          .op = DL_OP_ALL_GATHERV,
                          .dtype = DL_C64,
                          .input = z,
                          .output = all,
                          .output_counts = counts};
  z[0] = (float)my_rank;
  CHECK(dl_start(comm, &gather, NULL) == DL_OK && all[1] == 3 && all[4] == 2 && all[5] == 3);
}

/* Parts that lie apart, in another order, and where they may not. */
static void displaced(dl_comm* comm) {
  const size_t counts[kRanks] = {1, 2, 3}, places[kRanks] = {7, 4, 0};
  int mine[3] = {my_rank, my_rank, my_rank}, all[8], released = 0;
  memset(all, -1, sizeof all);
  dl_call gather = {.struct_size = sizeof gather,
                    .op = DL_OP_ALL_GATHERV,
                    .dtype = DL_I32,
                    .input = mine,
                    .output = all,
                    .output_counts = counts,
                    .release = count_release,
                    .context = &released,
                    .output_displacements = places};
  dl_work* work = NULL;
  CHECK(dl_start(comm, &gather, &work) == DL_OK && dl_work_wait(work) == DL_OK);
  const int wanted[8] = {2, 2, 2, -1, 1, 1, -1, 0};
  CHECK(memcmp(all, wanted, sizeof all) == 0);
  CHECK(dl_barrier(comm, 0, NULL) == DL_OK && released == 1);
  const size_t overlapping[kRanks] = {4, 5, 0}, one[kRanks] = {1, 1, 1};
  const size_t huge[kRanks] = {0, 1, SIZE_MAX / 2};
  gather.output_displacements = huge;
  CHECK(dl_start(comm, &gather, NULL) == DL_INVALID_ARGUMENT && released == 2);
  gather.output_displacements = one;
  CHECK(dl_start(comm, &gather, NULL) == DL_INVALID_ARGUMENT);
  CHECK(strstr(dl_last_error(), "overlap") != NULL);
  gather.output_displacements = overlapping; /* they touch */
  CHECK(dl_start(comm, &gather, NULL) == DL_OK && all[4] == 0 && all[5] == 1 && all[6] == 1);
  gather.input_displacements = one;
  CHECK(dl_start(comm, &gather, NULL) == DL_INVALID_ARGUMENT);
  CHECK(strstr(dl_last_error(), "without the counts") != NULL);
  CHECK(dl_start_list(comm, &gather, 1, NULL) == DL_INVALID_ARGUMENT);
  /* Inputs may overlap: every rank gets the same two numbers. */
  const size_t two[kRanks] = {2, 2, 2}, same[kRanks] = {1, 1, 1}, back[kRanks] = {4, 2, 0};
  const double sent[3] = {-1, my_rank, 10 * my_rank};
  double got[6] = {0};
  const dl_call exchange = {.struct_size = sizeof exchange,
                            .op = DL_OP_ALL_TO_ALLV,
                            .dtype = DL_F64,
                            .input = sent,
                            .output = got,
                            .input_counts = two,
                            .output_counts = two,
                            .input_displacements = same,
                            .output_displacements = back};
  CHECK(dl_start(comm, &exchange, NULL) == DL_OK);
  CHECK(got[0] == 2 && got[1] == 20 && got[2] == 1 && got[3] == 10 && got[4] == 0 && got[5] == 0);
  CHECK(dl_barrier(comm, 0, NULL) == DL_OK);
}

static void lists(dl_comm* comm) {
  int released = 0, x[kRanks], y[kRanks] = {0}, sums[3] = {1, my_rank, 10};
  dl_call list[2 * kRanks];
  memset(list, 0, sizeof list);
  for (int r = 0; r < kRanks; ++r) {
    x[r] = 10 * my_rank + r;
    list[r] = (dl_call){.struct_size = sizeof(dl_call),
                        .op = DL_OP_SEND,
                        .dtype = DL_I32,
                        .input = &x[r],
                        .count = 1,
                        .peer = (my_rank + 1) % kRanks,
                        .tag = (uint32_t)r,
                        .release = count_release,
                        .context = &released};
    list[kRanks + r] = (dl_call){.struct_size = sizeof(dl_call),
                                 .op = DL_OP_RECV,
                                 .dtype = DL_I32,
                                 .output = &y[r],
                                 .count = 1,
                                 .peer = DL_ANY_SOURCE,
                                 .tag = (uint32_t)r};
  }
  dl_work* work = NULL;
  CHECK(dl_start_list(comm, list, 2 * kRanks, &work) == DL_OK);
  CHECK(dl_work_wait_for(work, 0) == DL_OK && dl_work_error(work) == DL_OK);
  const int left = (my_rank + 2) % kRanks;
  CHECK(dl_work_source_of(work, kRanks) == left && dl_work_source_of(work, 99) == -1);
  CHECK(dl_work_wait(work) == DL_OK);
  for (int r = 0; r < kRanks; ++r) CHECK(y[r] == 10 * left + r);
  for (int i = 0; i < 2; ++i) {
    list[i] = (dl_call){.struct_size = sizeof(dl_call),
                        .op = DL_OP_ALL_REDUCE,
                        .dtype = DL_I32,
                        .input = &sums[i],
                        .output = &sums[i],
                        .count = i == 0 ? 1 : 2};
  }
  CHECK(dl_start_list(comm, list, 2, NULL) == DL_OK);
  CHECK(sums[0] == 3 && sums[1] == 3 && sums[2] == 30);
  CHECK(released == kRanks);
  /* Calls of a list that share memory. */
  list[1].output = &sums[0];
  list[1].input = &sums[0];
  CHECK(dl_start_list(comm, list, 2, NULL) == DL_INVALID_ARGUMENT);
  CHECK(strstr(dl_last_error(), "share memory") != NULL);
  list[1].output = &sums[1];
  list[1].input = &sums[1];
  list[1].op = DL_OP_BROADCAST;
  CHECK(dl_start_list(comm, list, 2, NULL) == DL_INVALID_ARGUMENT);
  CHECK(dl_start_list(comm, NULL, 0, NULL) == DL_OK);
}

/* Rank 0 sends to the others when they have looked at their open receives. */
static void waits(dl_comm* comm) {
  char go = 1;
  if (my_rank == 0) {
    for (int k = 1; k < kRanks; ++k) {
      dl_work* asked = NULL;
      CHECK(dl_recv(comm, &go, 1, DL_U8, DL_ANY_SOURCE, 21, 0, &asked) == DL_OK);
      CHECK(dl_work_wait_for(asked, 0) == DL_OK);
      const int from = dl_work_source(asked);
      dl_work_free(asked);
      CHECK(dl_send(comm, &go, 1, DL_U8, from, 22, 0, NULL) == DL_OK);
    }
    return;
  }
  dl_work* works[3] = {NULL, NULL, NULL};
  size_t which = 99;
  int fd = -1;
  CHECK(dl_wait_any(works, 3, 0, &which) == DL_INVALID_ARGUMENT);
  CHECK(dl_test_all(works, 3) == 1);
  CHECK(dl_recv(comm, &go, 1, DL_U8, 0, 22, 0, &works[1]) == DL_OK);
  CHECK(dl_test_all(works, 3) == 0);
  CHECK(dl_work_wait_for(works[1], 0.01) == DL_TIMEOUT && !dl_work_is_completed(works[1]));
  CHECK(dl_work_error(works[1]) == DL_OK);
  CHECK(dl_wait_any(works, 3, 0.01, &which) == DL_TIMEOUT);
  CHECK(dl_work_fd(works[1], &fd) == DL_OK);
  struct pollfd polled = {.fd = fd, .events = POLLIN};
  CHECK(poll(&polled, 1, 0) == 0);
  CHECK(dl_send(comm, &go, 1, DL_U8, 0, 21, 0, NULL) == DL_OK);
  CHECK(poll(&polled, 1, 1000 * kTimeout) == 1 && dl_work_is_completed(works[1]));
  CHECK(dl_wait_any(works, 3, 0, &which) == DL_OK && which == 1 && dl_test_all(works, 3) == 1);
  CHECK(dl_work_wait(works[1]) == DL_OK);
}

static void strings(dl_comm* comm) {
  const char* words[kRanks] = {"", "one", "three times"};
  dl_bytes* all = NULL;
  size_t size = 0;
  CHECK(dl_all_gather_bytes(comm, words[my_rank], strlen(words[my_rank]), 0, &all) == DL_OK);
  CHECK(dl_bytes_count(all) == kRanks && dl_bytes_data(all, kRanks, &size) == NULL && size == 0);
  CHECK(memcmp(dl_bytes_data(all, 2, &size), words[2], strlen(words[2])) == 0 && size == 11);
  dl_bytes_free(all);
  CHECK(dl_gather_bytes(comm, words[my_rank], strlen(words[my_rank]), 1, 0, &all) == DL_OK);
  CHECK(dl_bytes_count(all) == (my_rank == 1 ? kRanks : 0));
  dl_bytes_free(all);
  CHECK(dl_broadcast_bytes(comm, my_rank == 2 ? "two" : NULL, 3, 2, 0, &all) == DL_OK);
  CHECK(dl_bytes_count(all) == 1 && memcmp(dl_bytes_data(all, 0, NULL), "two", 3) == 0);
  dl_bytes_free(all);
  const size_t sizes[kRanks] = {0, 3, 11};
  CHECK(dl_scatter_bytes(comm, (const void* const*)words, sizes, 0, 0, &all) == DL_OK);
  dl_bytes_data(all, 0, &size);
  CHECK(size == sizes[my_rank]);
  dl_bytes_free(all);
  dl_bytes_free(NULL);
  CHECK(dl_all_gather_bytes(comm, NULL, 1, 0, &all) == DL_INVALID_ARGUMENT);
  int agreed = -1, missing_rank = -1;
  size_t missing = 99;
  CHECK(dl_agree("all", my_rank != 1, kTimeout, &agreed, &missing_rank, 1, &missing) == DL_OK);
  CHECK(agreed == 0 && missing == 0);
  int should = -1;
  CHECK(dl_should_checkpoint(&should) == DL_OK && should == 0);
  CHECK(dl_should_checkpoint(NULL) == DL_INVALID_ARGUMENT);
  CHECK(dl_agree("again", 1, kTimeout, &agreed, NULL, 0, NULL) == DL_OK && agreed == 1);
}

static void groups(dl_comm* world) {
  dl_comm* part = NULL;
  CHECK(dl_comm_split(world, my_rank == 0 ? DL_NO_COLOR : 1, -my_rank, &part) == DL_OK);
  CHECK((part == NULL) == (my_rank == 0));
  if (part == NULL) return;
  CHECK(dl_comm_size(part) == 2 && dl_comm_rank(part) == kRanks - 1 - my_rank);
  CHECK(dl_barrier(part, 0, NULL) == DL_OK);
  dl_comm_destroy(part);
}

static void nodes(dl_comm* world) {
  dl_comm* node = NULL;
  CHECK(dl_comm_split_by_node(world, &node) == DL_OK);
  CHECK(dl_comm_size(node) == kRanks && dl_comm_rank(node) == my_rank);
  CHECK(strcmp(dl_comm_name(node), dl_comm_name(world)) != 0);
  dl_comm_destroy(node);
}

static void memories(dl_comm* comm) {
  enum { kCount = 100000 };
  dl_memory* memory = NULL;
  CHECK(dl_memory_allocate(comm, kCount * sizeof(float), &memory) == DL_OK);
  CHECK(strcmp(dl_memory_why_not(memory), "") == 0);
  float* x = dl_memory_data(memory);
  CHECK(x[0] == 0 && x[kCount - 1] == 0);
  for (int i = 0; i < kCount; ++i) x[i] = (float)my_rank;
  CHECK(dl_all_reduce(comm, x, x, kCount, DL_F32, DL_SUM, 0, NULL) == DL_OK);
  for (int i = 0; i < kCount; ++i) CHECK(x[i] == kRanks * (kRanks - 1) / 2);
  CHECK(dl_memory_check(memory) == DL_OK);
  dl_memory_free(memory);
  dl_memory_free(NULL);
  /* No whole pages: it stays as it is. */
  float own[100] = {1};
  CHECK(dl_memory_register(comm, own, sizeof own, &memory) == DL_OK);
  CHECK(dl_memory_data(memory) == own && own[0] == 1 && strlen(dl_memory_why_not(memory)) > 0);
  dl_memory_free(memory);
  CHECK(dl_memory_allocate(NULL, 1, &memory) == DL_INVALID_ARGUMENT);
}

static void abort_by_rank_1(dl_comm* comm) {
  /* Not before the others are out of the barrier, too. */
  char through = 1;
  if (my_rank != 1) CHECK(dl_send(comm, &through, 1, DL_U8, 1, 8, 0, NULL) == DL_OK);
  for (int k = 1; my_rank == 1 && k < kRanks; ++k) {
    CHECK(dl_recv(comm, &through, 1, DL_U8, DL_ANY_SOURCE, 8, 0, NULL) == DL_OK);
  }
  if (my_rank == 1) dl_comm_abort(comm, "enough");
  dl_status status = DL_OK;
  while (status == DL_OK) status = dl_barrier(comm, 0, NULL);
  CHECK(status == DL_ABORTED && strstr(dl_last_error(), "enough") != NULL);
  CHECK(dl_last_error_rank() == -1 || dl_last_error_rank() == 1);
  CHECK(dl_comm_error(comm) == DL_ABORTED);
}

static void errors(dl_comm* comm) {
  float x = 1;
  CHECK(dl_all_reduce(comm, &x, &x, 1, DL_F32, DL_BXOR, 0, NULL) == DL_DTYPE);
  CHECK(strstr(dl_last_error(), "bxor has no meaning for f32") != NULL);
  CHECK(dl_all_reduce(comm, &x, &x, 1, (dl_dtype)99, DL_SUM, 0, NULL) == DL_INVALID_ARGUMENT);
  CHECK(dl_barrier(NULL, 0, NULL) == DL_INVALID_ARGUMENT);
  CHECK(dl_barrier(comm, -1, NULL) == DL_INVALID_ARGUMENT);
  CHECK(dl_comm_error(comm) == DL_OK);
  CHECK(dl_barrier(comm, 0, NULL) == DL_OK);
  abort_by_rank_1(comm);
  /* Who leaves early is an error of its own to the others. */
  char through = 1;
  CHECK(write(ended[1], &through, 1) == 1);
  close(ended[1]);
  CHECK(read(may_leave[0], &through, 1) == 0);
}

/* After a group that broke, at the same place. */
static void again_with_a_name(const char* method) {
  dl_comm* named = NULL;
  dl_comm_options options = DL_COMM_OPTIONS_INIT;
  options.backend = "carrier pigeon";
  options.init_method = method;
  options.rank = my_rank;
  options.size = kRanks;
  options.timeout_s = kTimeout;
  CHECK(dl_comm_init_options(&options, &named) == DL_INVALID_ARGUMENT);
  CHECK(strstr(dl_last_error(), "carrier pigeon") != NULL);
  CHECK(dl_comm_init_options(NULL, &named) == DL_INVALID_ARGUMENT);
  options.backend = "tcp";
  options.name = "by options";
  CHECK(dl_comm_init_options(&options, &named) == DL_OK);
  CHECK(strcmp(dl_comm_backend(named), "tcp") == 0 && strlen(dl_comm_plan(named)) > 0);
  CHECK(strcmp(dl_comm_name(named), "by options") == 0 && strcmp(dl_comm_name(NULL), "") == 0);
  waits(named);
  CHECK(dl_barrier(named, 0, NULL) == DL_OK);
  dl_comm_destroy(named);
  CHECK(dl_comm_init_named("a/b", method, my_rank, kRanks, kTimeout, &named) ==
        DL_INVALID_ARGUMENT);
  CHECK(dl_comm_init_named("second", method, my_rank, kRanks, kTimeout, &named) == DL_OK);
  int x = 1;
  CHECK(dl_all_reduce(named, &x, &x, 1, DL_I32, DL_SUM, 0, NULL) == DL_OK && x == kRanks);
  abort_by_rank_1(named);
  CHECK(strstr(dl_last_error(), "'second'") != NULL);
  dl_comm_destroy(named);
}

/* A store in a directory. */
static void path_of(char* path, size_t room, const char* directory, const char* key) {
  snprintf(path, room, "%s/store.%s", directory, key);
  for (char* c = path + strlen(directory) + 1; *c != 0; ++c) {
    if (*c == '/') *c = '_';
  }
}

static dl_status store_set(void* context, const char* key, const void* value, size_t size) {
  char path[512], hidden[600];
  path_of(path, sizeof path, context, key);
  snprintf(hidden, sizeof hidden, "%s.%d", path, my_rank);
  FILE* file = fopen(hidden, "w");
  CHECK(file != NULL && fwrite(value, 1, size, file) == size && fclose(file) == 0);
  CHECK(rename(hidden, path) == 0);
  return DL_OK;
}

static dl_status store_get(void* context, const char* key, double timeout_s,
                           void (*give)(void* to, const void* value, size_t size), void* to) {
  char path[512], value[4096];
  path_of(path, sizeof path, context, key);
  for (double waited = 0; access(path, R_OK) != 0; waited += 1e-3) {
    if (waited >= timeout_s) return DL_TIMEOUT;
    usleep(1000);
  }
  FILE* file = fopen(path, "r");
  CHECK(file != NULL);
  give(to, value, fread(value, 1, sizeof value, file));
  fclose(file);
  return DL_OK;
}

static void take_id(void* to, const void* value, size_t size) {
  CHECK(size == sizeof(dl_unique_id));
  memcpy(to, value, size);
}

static dl_status store_fails(void* context, const char* key, const void* value, size_t size) {
  (void)context, (void)key, (void)value, (void)size;
  return DL_IO;
}

/* Groups beside the world, and after it: other members, other numbers, two at a time. */
static void made_groups(char* directory) {
  mkdir(directory, 0700); /* the world's end removed it */
  dl_store store = {.context = directory, .set = store_set, .get = store_get};
  dl_comm_options options = DL_COMM_OPTIONS_INIT;
  options.name = "all";
  options.rank = kRanks - 1 - my_rank;
  options.size = kRanks;
  options.timeout_s = kTimeout;
  int job_ranks[kRanks];
  for (int r = 0; r < kRanks; ++r) job_ranks[r] = kRanks - 1 - r;
  options.job_ranks = job_ranks;
  dl_comm *all = NULL, *pair = NULL, *alone = NULL;
  CHECK(dl_comm_make(&options, &store, 0, &all) == DL_OK);
  CHECK(dl_comm_rank(all) == options.rank && strcmp(dl_comm_backend(all), "shm") == 0);
  options.job_ranks = NULL;
  options.name = "pair";
  options.backend = "tcp";
  options.rank = my_rank - 1;
  options.size = 2;
  if (my_rank > 0) CHECK(dl_comm_make(&options, &store, 0, &pair) == DL_OK);
  options.name = "alone";
  options.rank = 0;
  options.size = 1;
  CHECK(dl_comm_make(&options, &store, 0, &alone) == DL_OK);
  int x = 1;
  CHECK(dl_all_reduce(all, &x, &x, 1, DL_I32, DL_SUM, 0, NULL) == DL_OK && x == kRanks);
  if (my_rank > 0) {
    CHECK(dl_all_reduce(pair, &x, &x, 1, DL_I32, DL_SUM, 0, NULL) == DL_OK && x == 2 * kRanks);
    CHECK(strcmp(dl_comm_backend(pair), "tcp") == 0 && strcmp(dl_comm_name(pair), "pair") == 0);
  }
  dl_comm_destroy(pair);
  dl_comm_destroy(alone);
  CHECK(dl_barrier(all, 0, NULL) == DL_OK);
  dl_comm_destroy(all);
  options.backend = "mpi";
  CHECK(dl_comm_make(&options, &store, 0, &all) == DL_INVALID_ARGUMENT);
  options.backend = NULL;
  options.size = 2;
  options.name = "refused";
  store.set = store_fails;
  CHECK(dl_comm_make(&options, &store, 0, &all) == DL_IO);
  CHECK(strstr(dl_last_error(), "the caller's store: set('dlrun/refused/id') failed") != NULL);
  CHECK(dl_comm_make(&options, NULL, 0, &all) == DL_INVALID_ARGUMENT);
  options.rank = 2;
  CHECK(dl_comm_make(&options, &store, 0, &all) == DL_INVALID_ARGUMENT);
  options.rank = 0;
  job_ranks[0] = job_ranks[1];
  options.job_ranks = job_ranks;
  CHECK(dl_comm_make(&options, &store, 0, &all) == DL_INVALID_ARGUMENT);
  CHECK(strstr(dl_last_error(), "job_ranks has 1 twice") != NULL);
}

/* A group over an id that rank 0 passes on through the directory. */
static void group_by_id(char* directory) {
  dl_store store = {.context = directory, .set = store_set, .get = store_get};
  dl_unique_id id;
  if (my_rank == 0) {
    CHECK(dl_unique_id_make(NULL, &id) == DL_OK);
    CHECK(store_set(directory, "my/id", &id, sizeof id) == DL_OK);
  } else {
    CHECK(store_get(directory, "my/id", kTimeout, take_id, &id) == DL_OK);
  }
  dl_comm_options options = DL_COMM_OPTIONS_INIT;
  options.name = "by id";
  options.rank = my_rank;
  options.size = kRanks;
  options.timeout_s = kTimeout;
  options.id = &id;
  dl_comm* group = NULL;
  CHECK(dl_comm_make(&options, &store, 0, &group) == DL_INVALID_ARGUMENT); /* both */
  CHECK(dl_comm_make(&options, NULL, 0, &group) == DL_OK);
  int x = 1;
  CHECK(dl_all_reduce(group, &x, &x, 1, DL_I32, DL_SUM, 0, NULL) == DL_OK && x == kRanks);
  dl_comm_destroy(group);
  id.bytes[77] ^= 1;
  CHECK(dl_comm_make(&options, NULL, 0, &group) == DL_INVALID_ARGUMENT);
  CHECK(strstr(dl_last_error(), "the id is damaged") != NULL);
  CHECK(dl_unique_id_make("nosuch0", &id) == DL_NOT_FOUND);
  CHECK(dl_unique_id_make(NULL, NULL) == DL_INVALID_ARGUMENT);
}

/* The world leaves its rank 0, which destroys it, and the others make it anew. */
static void reformed(const char* method) {
  dl_comm *world = NULL, *made = NULL;
  CHECK(dl_comm_init_named("to reform", method, my_rank, kRanks, kTimeout, &world) == DL_OK);
  CHECK(dl_comm_reform(world, 0, NULL) == DL_INVALID_ARGUMENT);
  CHECK(dl_comm_reform(NULL, 0, &made) == DL_INVALID_ARGUMENT);
  if (my_rank > 0) {
    CHECK(dl_comm_reform(world, kTimeout, &made) == DL_OK);
    CHECK(dl_comm_reform(world, kTimeout, &made) == DL_INVALID_ARGUMENT);
    CHECK(dl_comm_rank(made) == my_rank - 1 && dl_comm_size(made) == kRanks - 1);
    CHECK(strcmp(dl_comm_name(made), "to reform~1") == 0);
    int x = 1;
    CHECK(dl_all_reduce(made, &x, &x, 1, DL_I32, DL_SUM, 0, NULL) == DL_OK && x == kRanks - 1);
    CHECK(dl_barrier(made, 0, NULL) == DL_OK);
  }
  dl_comm_destroy(world);
  dl_comm_destroy(made);
}

static void run_rank(int rank, char* directory) {
  my_rank = rank;
  alarm(2 * kTimeout);
  close(ended[0]);
  close(may_leave[1]);
  char method[256];
  snprintf(method, sizeof method, "file://%s", directory);
  dl_comm* world = NULL;
  CHECK(dl_comm_init(method, rank, kRanks, kTimeout, &world) == DL_OK);
  CHECK(dl_comm_rank(world) == rank && dl_comm_size(world) == kRanks);
  CHECK(strcmp(dl_comm_backend(world), "shm") == 0 && strcmp(dl_comm_backend(NULL), "") == 0);
  CHECK(dl_monitored_barrier(world, kTimeout) == DL_OK);
  CHECK(dl_monitored_barrier(world, 0) == DL_INVALID_ARGUMENT);
  dl_comm* again = NULL;
  CHECK(dl_comm_init(method, rank, kRanks, kTimeout, &again) == DL_INVALID_ARGUMENT);
  reductions(world);
  parts(world);
  messages(world);
  calls(world);
  displaced(world);
  lists(world);
  waits(world);
  strings(world);
  groups(world);
  nodes(world);
  memories(world);
  errors(world);
  dl_comm_destroy(world);
  again_with_a_name(method);
  reformed(method);
  made_groups(directory);
  group_by_id(directory);
  exit(0);
}

int main(void) {
  CHECK(dl_comm_version() == DL_COMM_VERSION && dl_last_error()[0] == '\0');
  dl_comm_destroy(NULL);
  dl_work_free(NULL);
  const char* tmp = getenv("TMPDIR");
  char directory[200];
  snprintf(directory, sizeof directory, "%s/dl_comm_test.XXXXXX", tmp != NULL ? tmp : "/tmp");
  CHECK(mkdtemp(directory) != NULL);
  CHECK(pipe(ended) == 0 && pipe(may_leave) == 0);
  pid_t pids[kRanks];
  for (int r = 0; r < kRanks; ++r) {
    pids[r] = fork();
    CHECK(pids[r] >= 0);
    if (pids[r] == 0) run_rank(r, directory);
  }
  close(ended[1]);
  char byte;
  for (int r = 0; r < kRanks; ++r) {
    if (read(ended[0], &byte, 1) != 1) break; /* the others have failed, and say so */
  }
  close(may_leave[1]);
  int failed = 0;
  for (int r = 0; r < kRanks; ++r) {
    int status = 0;
    CHECK(waitpid(pids[r], &status, 0) == pids[r]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      fprintf(stderr, "rank %d ended with status %d\n", r, status);
      failed = 1;
    }
  }
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  if (system(command) != 0) failed = 1;
  return failed;
}
