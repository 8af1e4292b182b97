/* A CUDA driver that takes one page for memory of a GPU, and the next for managed memory. */
#include <stdint.h>

unsigned char fake_device[4096], fake_managed[4096];

static int holds(const unsigned char* page, unsigned long long pointer) {
  return pointer >= (uintptr_t)page && pointer < (uintptr_t)page + 4096;
}

int cuPointerGetAttribute(void* answer, int attribute, unsigned long long pointer) {
  const int is_managed = holds(fake_managed, pointer);
  if (!is_managed && !holds(fake_device, pointer)) return 1;
  *(unsigned*)answer = attribute == 2 ? 2 : (unsigned)is_managed;
  return 0;
}
