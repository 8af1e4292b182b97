// Deferred layouts: tensors with PyTorch's strides whose elements are stored in a faster order.
//
// Convolution, pooling and similar operations compute on channels-last memory, also if PyTorch's
// result is row-major. Their result then has PyTorch's strides and a deferred storage: it has no
// memory yet, and its elements are in the memory of another tensor, the source.
//
// Invariants:
// - Shape, strides and offset of every tensor are PyTorch's and never change. Views, checks and
//   autograd use only these. All tensors over a deferred storage, its views and detach() among
//   them, share the one storage, and with it the elements and the version.
// - The elements are in one place at a time. It is the source until the first access to the memory
//   (data_ptr(), data<T>(), Storage::data()). That call allocates the storage's own memory, copies
//   the elements there in the order of the strides, and releases the source. It happens once; the
//   address stays the same from then on.
// - An access to the memory sees PyTorch's layout, so kernels, collectives and files need no
//   special case. Code that wants the fast order uses AsItLies.
// - A source is never returned from an operation. If another thread accesses the memory while an
//   operation reads the source, the operation continues to read the source, whose values are the
//   same. A node may save a source: until it is released, writes into the storage raise its
//   version, too; afterwards nothing writes into it.
// - An in-place operation makes the AsItLies of its destination after those of its operands: an
//   operand may be a view that no strides over the source can express, which copies the elements
//   into the storage.
//
// On a device, the elements are copied in the order of the stream that was current when the tensor
// was made. Before a CUDA graph's capture begins, all deferred elements are copied into their
// storages; before it ends, those made in the capture are, so that each launch repeats the copy.
//
// Thread-safety: as Tensor; several threads may read at once.
#pragma once

#include "core/tensor/dims.h"
#include "core/tensor/tensor.h"

namespace dl {

// Returns a tensor with the elements of `memory` and with dense `strides`: over the same memory if
// both strides address the same elements, else a deferred tensor. `memory` is new and has no other
// handles.
Tensor shown_with(const Tensor& memory, const Strides& strides);
// shown_with() for an image: row-major, or in the layout of `memory` if that is PyTorch's format.
Tensor shown_in(const Tensor& memory, MemoryFormat in_torch);

// A tensor in the order in which its elements are stored now, for one operation. It is a tensor
// over the source, without history; or the given tensor, if that is not deferred or if no strides
// over the source address its elements (they are then copied into the storage). Reads and writes
// reach the elements, but a writer has to raise the version of the given tensor itself. The given
// tensor must outlive this object.
class AsItLies {
 public:
  explicit AsItLies(const Tensor& tensor) : lying_(&tensor) {
    if (tensor.defined() && !tensor.impl()->is_settled()) [[unlikely]]
      look();
  }
  AsItLies(const AsItLies&) = delete;
  AsItLies& operator=(const AsItLies&) = delete;

  const Tensor& operator*() const noexcept { return *lying_; }
  const Tensor* operator->() const noexcept { return lying_; }
  bool is_deferred() const noexcept { return source_.defined(); }

 private:
  void look();

  const Tensor* lying_;
  Tensor source_;
};

namespace detail {
// core/ops: copies elements of one shape and dtype on one device, not recorded.
void copy_elements(const Tensor& source, const Tensor& destination);
}  // namespace detail

}  // namespace dl
