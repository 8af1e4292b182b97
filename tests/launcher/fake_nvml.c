/* A libnvidia-ml.so.1 for tests: FAKE_NVML is a list of GPUs, as "A,B*2" for a plain one and one in MIG mode with two instances;
   "hang", "crash" and "mismatch" are drivers in trouble, and unset is a library without a driver. FAKE_NVML_LINKS is the number of
   NVLinks of each GPU, to its neighbour on the bus, or "6s": to switches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct device {
  char uuid[64];
  char name[64];
  unsigned instances;
  int partitioned;
  struct device* instance;
};
static struct device devices[16];
static unsigned devices_made;

int nvmlInit_v2(void) {
  const char* wanted = getenv("FAKE_NVML");
  if (wanted == NULL) return 9;
  if (strcmp(wanted, "mismatch") == 0) return 18;
  if (strcmp(wanted, "crash") == 0) abort();
  while (strcmp(wanted, "hang") == 0) pause();
  for (; *wanted != '\0'; ++wanted) {
    if (*wanted == ',') continue;
    struct device* made = &devices[devices_made++];
    snprintf(made->uuid, sizeof made->uuid, "GPU-%c000", *wanted);
    snprintf(made->name, sizeof made->name, "NVIDIA Fake %c", *wanted);
    if (wanted[1] != '*') continue;
    made->partitioned = 1;
    made->instances = (unsigned)(wanted[2] - '0');
    made->instance = calloc(made->instances + 1, sizeof *made->instance);
    for (unsigned i = 0; i < made->instances; ++i) {
      snprintf(made->instance[i].uuid, sizeof made->instance[i].uuid, "MIG-%c%u", *wanted, i);
    }
    wanted += 2;
  }
  return 0;
}

const char* nvmlErrorString(int code) { return code == 18 ? "Driver/library version mismatch" : "an error"; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = devices_made, 0; }
/* "X" is a GPU that the control group keeps from this process. */
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** device) { return *device = &devices[i], devices[i].uuid[4] == 'X' ? 4 : 0; }
int nvmlDeviceGetUUID(void* device, char* text, unsigned size) { return snprintf(text, size, "%s", ((struct device*)device)->uuid), 0; }
int nvmlDeviceGetName(void* device, char* text, unsigned size) { return snprintf(text, size, "%s", ((struct device*)device)->name), 0; }
int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* later) {
  *now = *later = (unsigned)((struct device*)device)->partitioned;
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) { return *count = ((struct device*)device)->instances + 1, 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned i, void** instance) {
  struct device* parent = device;
  if (i >= parent->instances) return 6;
  *instance = &parent->instance[i];
  return 0;
}

struct pci_info {
  char legacy_id[16];
  unsigned domain, bus, device, device_id, subsystem_id;
  char id[32];
};
static unsigned number_of(void* device) { return (unsigned)((struct device*)device - devices); }
static int set_place(unsigned number, struct pci_info* pci) { return memset(pci, 0, sizeof *pci), pci->bus = 16 + number, 0; }
int nvmlDeviceGetPciInfo_v3(void* device, void* pci) { return set_place(number_of(device), pci); }
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* is_up) {
  const char* const links = getenv("FAKE_NVML_LINKS");
  (void)device;
  return *is_up = links != NULL && link < (unsigned)atoi(links), 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, void* pci) {
  (void)link;
  return set_place(number_of(device) ^ 1, pci);
}
int nvmlDeviceGetNvLinkRemoteDeviceType(void* device, unsigned link, int* kind) {
  const char* const links = getenv("FAKE_NVML_LINKS");
  (void)device, (void)link;
  return *kind = links != NULL && strchr(links, 's') != NULL ? 2 : 0, 0;
}
