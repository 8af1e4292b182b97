// TensorImpl: the object behind a Tensor handle. Code outside core/ uses Tensor.
//
// The dtype never changes; shape and strides change only in take_shape_of(). They are PyTorch's. If
// the storage is deferred, the elements are elsewhere in a different order, and data() first copies
// them to the addresses that the strides give (core/tensor/layout/deferred.h). Autograd's data is
// an opaque object here, because core/tensor must not depend on core/autograd.
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
  // `first` is the offset in elements from the storage's beginning. The caller has checked that all
  // elements are inside the storage.
  TensorImpl(Ref<Storage> memory, const Shape& sizes, const Strides& steps, std::int64_t first,
             DType type);

  // Another tensor of the same elements, without autograd's data.
  Ref<TensorImpl> alias() const;

  // The first element. Makes the memory of a deferred storage, and throws what that throws.
  void* data() const {
    void* const first = data_.load(std::memory_order_acquire);
    return first != nullptr ? first : materialize();
  }
  // False if data() still has to ask the storage, which may be deferred. Once true, it stays true.
  bool is_materialized() const noexcept { return data_.load(std::memory_order_relaxed) != nullptr; }
  // Takes over shape and strides of `view`, a view of all elements of this tensor.
  void take_shape_of(const TensorImpl& view);

  static void* operator new(std::size_t bytes);
  static void operator delete(void* impl) noexcept;

  Ref<Storage> storage;

 private:
  mutable std::atomic<void*> data_;  // null: materialize()

 public:
  std::int64_t offset;
  std::int64_t numel;
  Shape shape;
  Strides strides;
  DType dtype;
  bool contiguous;
  bool channels_last;

  // For autograd.
  bool requires_grad = false;
  // A view made while nothing was recorded: it never has a history.
  bool is_unrecorded_view = false;
  // Says why is_unrecorded_view is set: forward() of a custom Function made the view or its base.
  bool is_function_view = false;
  std::uint32_t output_nr = 0;         // which of the node's outputs the tensor is
  std::uint32_t view_version = 0;      // the storage's version when `node` last described this view
  std::uint32_t recorded_version = 0;  // the storage's version when `node` was made
  Ref<RefCounted> node;                // made the tensor; null: it is a leaf
  // The LeafNode with the gradient of this tensor, if it is a leaf or retains its gradient.
  Ref<RefCounted> leaf;
  // The base of a view; the base is a view itself only if it was a leaf when this view was made.
  // Null if this is not a view.
  Ref<TensorImpl> base;

  // True if the storage was written after `node` last described this view; its history, if any,
  // then comes from the base.
  bool is_older_than_storage() const noexcept { return base && view_version != storage->version(); }
  // True if this is a view of a tensor that requires gradients.
  bool is_view_of_requires_grad() const noexcept {
    for (const TensorImpl* each = base.get(); each != nullptr; each = each->base.get()) {
      if (each->requires_grad) return true;
    }
    return false;
  }
  // True if a write to the base gave this view a history that is not in `node` yet.
  bool is_behind_base() const noexcept {
    if (!is_older_than_storage()) return false;
    if (!is_unrecorded_view) return is_view_of_requires_grad();
    for (const TensorImpl* each = base.get(); each != nullptr; each = each->base.get()) {
      if (each->recorded_version > view_version) return true;
    }
    return false;
  }

 private:
  ~TensorImpl() override = default;

  void* materialize() const;
};

}  // namespace dl
