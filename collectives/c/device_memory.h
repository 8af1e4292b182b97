// Memory of a GPU, which the C interface does not take. Any thread.
#pragma once

namespace dl::collectives::c {

// cuPointerGetAttribute() of the driver.
using PointerQuestion = int (*)(void* answer, int attribute, unsigned long long pointer);

// Null if this process has not loaded the driver; then no pointer is a GPU's.
PointerQuestion find_pointer_question() noexcept;

// Throw kInvalidArgument for memory that only a GPU can read. Pinned and managed memory is the
// CPU's as well.
void refuse_device_memory(PointerQuestion ask, const void* input, const void* output);

}  // namespace dl::collectives::c
