/* dl_comm where a CUDA driver is loaded: device_test FAKE-DRIVER. */
#include <dl_comm.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      fprintf(stderr, "line %d: %s (last error: %s)\n", __LINE__, #condition, dl_last_error()); \
      exit(1);                                                                                  \
    }                                                                                           \
  } while (0)

static dl_comm* make(void) {
  dl_comm_options options = DL_COMM_OPTIONS_INIT;
  options.name = "alone";
  options.rank = 0;
  options.size = 1;
  dl_unique_id id;
  CHECK(dl_unique_id_make(NULL, &id) == DL_OK);
  options.id = &id;
  dl_comm* alone = NULL;
  CHECK(dl_comm_make(&options, NULL, 0, &alone) == DL_OK);
  return alone;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  void* const driver = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  CHECK(driver != NULL);
  float* const device = dlsym(driver, "fake_device");
  float* const managed = dlsym(driver, "fake_managed");
  CHECK(device != NULL && managed != NULL);
  dl_comm* alone = make();
  float x = 1;
  CHECK(dl_all_reduce(alone, &x, &x, 1, DL_F32, DL_SUM, 0, NULL) == DL_OK);
  CHECK(dl_all_reduce(alone, managed, managed, 1, DL_F32, DL_SUM, 0, NULL) == DL_OK);
  CHECK(dl_all_reduce(alone, device, &x, 1, DL_F32, DL_SUM, 0, NULL) == DL_INVALID_ARGUMENT);
  CHECK(strstr(dl_last_error(), "the input is memory of a GPU") != NULL);
  CHECK(strchr(dl_last_error(), '\n') == NULL);
  CHECK(dl_all_reduce(alone, &x, device + 7, 1, DL_F32, DL_SUM, 0, NULL) == DL_INVALID_ARGUMENT);
  CHECK(strstr(dl_last_error(), "the output is memory of a GPU") != NULL);
  CHECK(dl_premul_all_reduce(alone, device, &x, 1, DL_F32, DL_SUM, 2, 0, NULL) ==
        DL_INVALID_ARGUMENT);
  const dl_call call = {.struct_size = sizeof call,
                        .op = DL_OP_ALL_REDUCE,
                        .dtype = DL_F32,
                        .input = &x,
                        .output = device,
                        .count = 1};
  CHECK(dl_start_list(alone, &call, 1, NULL) == DL_INVALID_ARGUMENT);
  dl_comm_destroy(alone);
  return 0;
}
