// TensorImpl: what a Tensor handle points at. Code outside core/ uses Tensor.
//
// The dtype is fixed when the impl is made, and shape and strides are but for take_shape_of(). They
// are those that the tensor has in PyTorch. If its storage is deferred, the elements lie elsewhere
// in another order, and data() brings them to where the strides say
// (core/tensor/layout/deferred.h). What autograd knows of a tensor hangs on it as an opaque object,
// because autograd stands above this room.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/lifetime/ref.h"
#include "core/device/stream.h"
#include "core/memory/storage.h"
#include "core/tensor/dims.h"
#include "core/tensor/dtype.h"

namespace dl {

class TensorImpl final : public RefCounted {
 public:
  // `offset` in elements from the storage's beginning. The caller has checked that all fits.
  TensorImpl(Ref<Storage> memory, const Shape& sizes, const Strides& steps, std::int64_t first,
             DType type);

  // Another tensor of the same elements, without what autograd knows of this one.
  Ref<TensorImpl> alias() const;

  // The first element. Makes the memory of a deferred storage, and throws what that throws.
  void* data() const {
    void* const first = data_.load(std::memory_order_acquire);
    return first != nullptr ? first : settle();
  }
  // False if data() has to ask the storage first, which may be deferred. Once true, it stays true.
  bool is_settled() const noexcept { return data_.load(std::memory_order_relaxed) != nullptr; }
  // Takes shape and strides of `view`, a view of all elements of this tensor.
  void take_shape_of(const TensorImpl& view);

  static void* operator new(std::size_t bytes);
  static void operator delete(void* impl) noexcept;

  Ref<Storage> storage;

 private:
  mutable std::atomic<void*> data_;  // null: settle()

 public:
  std::int64_t offset;
  std::int64_t numel;
  Shape shape;
  Strides strides;
  DType dtype;
  bool contiguous;
  bool channels_last;

  // For autograd: whether gradients flow here, the node that made this tensor (null: it is a leaf),
  // and which of the node's outputs it is.
  bool requires_grad = false;
  // A view that was made while nothing was recorded: it has no history, and gets none.
  bool is_unrecorded_view = false;
  // And that is because forward() of a custom Function made it, or the view that it shows.
  bool is_function_view = false;
  std::uint32_t output_nr = 0;
  std::uint32_t view_version = 0;      // of the storage when `node` was right for this view
  std::uint32_t recorded_version = 0;  // of the storage when `node` was made
  Ref<RefCounted> node;
  // The LeafNode that holds the gradient of this tensor, which is a leaf or retains its gradient.
  Ref<RefCounted> leaf;
  // The tensor that a view shows; it is a view itself only if it was a leaf when the view was made.
  // Null if this is no view.
  Ref<TensorImpl> base;

  // Whether the storage was written after `node` was right for this view, so that its history, if
  // it has one, is that of its base now.
  bool is_older_than_storage() const noexcept { return base && view_version != storage->version(); }
  // Whether this is a view of a tensor that requires gradients.
  bool is_view_of_trained() const noexcept {
    for (const TensorImpl* each = base.get(); each != nullptr; each = each->base.get()) {
      if (each->requires_grad) return true;
    }
    return false;
  }
  // Whether this view has a history that `node` does not know, because its base was written.
  bool is_behind_base() const noexcept {
    if (!is_older_than_storage()) return false;
    if (!is_unrecorded_view) return is_view_of_trained();
    for (const TensorImpl* each = base.get(); each != nullptr; each = each->base.get()) {
      if (each->recorded_version > view_version) return true;
    }
    return false;
  }

 private:
  ~TensorImpl() override = default;

  void* settle() const;
};

}  // namespace dl
