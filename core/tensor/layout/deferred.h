// Deferred layouts: tensors that look as in PyTorch while their elements lie in a faster order.
//
// Convolution, pooling and their like compute on channels-last memory, also if PyTorch's result is
// row-major. Such a result has PyTorch's strides and a deferred storage: one without memory, whose
// elements lie in the memory of another tensor, the source.
//
// What holds:
// - Shape, strides and offset of every tensor are PyTorch's and never change. Views, checks and
//   autograd's history of views work with them alone. All tensors over a deferred storage, its
//   views and detach() among them, share the one storage, and with it the elements and the version.
// - The elements have one home at a time. It is the source until the first call that asks for the
//   memory (data_ptr(), data<T>(), Storage::data()). This call gives the storage memory of its own,
//   copies the elements there as the strides say, and lets go of the source. It happens once; the
//   address stays the same from then on.
// - A call that asks for the memory gets PyTorch's layout. So kernels, collectives and files need
//   not know of this. Only code that wants the fast order asks for it, with AsItLies.
// - A source is never shown outside of an operation. An operation that holds one while another
//   thread asks for the memory goes on reading the source, whose values are the same. A node may
//   save a source: while it is the home, writes into the storage raise its version, too; afterwards
//   nothing writes into it.
// - An operation that writes in place takes its destination's AsItLies after those of its operands:
//   an operand may be a view that the source cannot show, which brings the elements home.
//
// On a device the elements are copied in the order of the stream that was current when the tensor
// was made. A CUDA graph finds all elements at home when its capture begins, and brings home those
// of its own before the capture ends, so that each launch does.
//
// Thread-safety: as Tensor; threads that only look may do so at once.
#pragma once

#include "core/tensor/dims.h"
#include "core/tensor/tensor.h"

namespace dl {

// A tensor with the elements of `memory`, a new one without other handles, and with `strides`,
// which are dense: over the same memory if they lead to the same places, else a deferred one.
Tensor shown_with(const Tensor& memory, const Strides& strides);
// The same for an image: row-major, or as `memory` lies if that is PyTorch's format.
Tensor shown_in(const Tensor& memory, MemoryFormat in_torch);

// A tensor in the order in which its elements lie now, for the time of one operation: a tensor over
// the source, without history, or the given one if it is not deferred, or if no strides over the
// source show the same elements (then they are brought home). Reads and writes reach the elements,
// but a write raises the version of the given tensor only if the writer does so. The given tensor
// must outlive this.
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
