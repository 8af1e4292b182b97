// Deferred layouts: tensors with PyTorch's strides whose elements are stored in a faster order.
//
// Convolution, pooling and similar operations compute on channels-last memory, even if PyTorch's
// result is row-major. Their result then has PyTorch's strides and a deferred storage. That storage
// has no memory yet; the elements are in the memory of another tensor, the source.
//
// Invariants:
// - Shape, strides and offset of every tensor are PyTorch's. They do not depend on the memory in
//   which the elements are. Views, checks and autograd use only these. All tensors over a deferred
//   storage (views, results of detach()) share that storage, its elements and its version.
// - The elements are in the source until the first access to the memory (data_ptr(), data<T>(),
//   Storage::data()). That access allocates the storage's own memory, copies the elements there in
//   the order of the strides, and releases the source. It happens once; the address stays the same
//   from then on.
// - An access to the memory sees PyTorch's layout, so kernels, collectives and files need no
//   special case. Code that wants the fast order uses StoredOrder.
// - An operation never returns a source. If another thread accesses the memory while an operation
//   reads the source, the operation continues to read the source, whose values are the same. A node
//   may save a source. Until the storage releases the source, a write into the storage also raises
//   the source's version; afterwards nothing writes into the source.
// - An in-place operation makes the StoredOrder of its operands before that of its destination. An
//   operand may be a view that no strides over the source can express. Its StoredOrder then copies
//   the elements into the storage, and the destination has to see that.
//
// On a GPU, the copy runs on the stream that was current when the tensor was made. Before a CUDA
// graph's capture begins, all deferred elements are copied into their storages. Before the capture
// ends, elements that were deferred during it are copied, too, so that each launch repeats the
// copy.
//
// Thread-safety: as for Tensor; several threads may read at once.
#pragma once

#include "core/tensor/dims.h"
#include "core/tensor/tensor.h"

namespace dl {

// Returns a tensor with the elements of `memory` and these dense strides. If the strides give each
// element the address that it has in `memory`, the result is over the same memory; else it is
// deferred. `memory` is new and has no other handles.
Tensor with_visible_strides(const Tensor& memory, const Strides& strides);
// with_visible_strides() for an image in channels-last memory. `in_torch` is the format of
// PyTorch's result: if it is channels-last, returns `memory`; else the strides are row-major.
Tensor with_visible_format(const Tensor& memory, MemoryFormat in_torch);

// For one operation, a tensor's elements in the order in which they are stored now: a tensor over
// the source, without history. It is the given tensor if that is not deferred. It is also the given
// tensor if no strides over the source address its elements, which are then copied into the
// storage. Reads and writes reach the elements, but a writer has to raise the given tensor's
// version. The given tensor must outlive this object.
class StoredOrder {
 public:
  explicit StoredOrder(const Tensor& tensor) : stored_(&tensor) {
    if (tensor.defined() && !tensor.impl()->is_materialized()) [[unlikely]]
      resolve();
  }
  StoredOrder(const StoredOrder&) = delete;
  StoredOrder& operator=(const StoredOrder&) = delete;

  const Tensor& operator*() const noexcept { return *stored_; }
  const Tensor* operator->() const noexcept { return stored_; }
  bool is_deferred() const noexcept { return source_.defined(); }

 private:
  void resolve();

  const Tensor* stored_;
  Tensor source_;
};

namespace detail {
// core/ops: copies the elements into a tensor of the same shape, dtype and device. Autograd does
// not record it.
void copy_elements(const Tensor& source, const Tensor& destination);
}  // namespace detail

}  // namespace dl
