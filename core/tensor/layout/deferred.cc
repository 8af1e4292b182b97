#include "core/tensor/layout/deferred.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/device/cuda/cuda.h"
#include "core/device/cuda/graph.h"
#include "core/memory/allocator.h"
#include "core/memory/cuda/cuda_memory.h"

namespace dl {
namespace {

// Adjacent dimensions that can be merged into one both in the visible strides and in the source's;
// outermost first.
struct Block {
  std::int64_t size;
  std::int64_t visible;  // strides
  std::int64_t stored;
};

std::vector<Block> blocks_of(const Shape& shape, const Strides& visible, const Strides& stored) {
  Dims order(shape.size(), 0);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, [&](std::int64_t a, std::int64_t b) {
    return visible[static_cast<std::size_t>(a)] > visible[static_cast<std::size_t>(b)];
  });
  std::vector<Block> blocks;
  for (const std::int64_t dim : order) {
    const auto d = static_cast<std::size_t>(dim);
    if (shape[d] == 1) continue;
    if (!blocks.empty() && blocks.back().stored == shape[d] * stored[d]) {
      blocks.back() = {blocks.back().size * shape[d], visible[d], stored[d]};
    } else {
      blocks.push_back({shape[d], visible[d], stored[d]});
    }
  }
  return blocks;
}

// Strides and offset that address the elements of `view` in the source.
struct Address {
  Strides strides;
  std::int64_t offset = 0;
};

std::optional<Address> address_in_source(const std::vector<Block>& blocks, const TensorImpl& view) {
  Address address{.strides = view.strides};
  Dims last(blocks.size(), 0);  // of each block, the last index that the view reaches
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    last[k] = view.offset / blocks[k].visible % blocks[k].size;
    address.offset += last[k] * blocks[k].stored;
  }
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] < 2 || view.strides[d] == 0) continue;
    std::size_t k = 0;
    while (blocks[k].visible > view.strides[d]) ++k;  // the innermost block is dense
    if (view.strides[d] % blocks[k].visible != 0) return std::nullopt;
    const std::int64_t step = view.strides[d] / blocks[k].visible;
    address.strides[d] = step * blocks[k].stored;
    last[k] += (view.shape[d] - 1) * step;
  }
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    if (last[k] >= blocks[k].size) return std::nullopt;
  }
  return address;
}

class DeferredLayout;

// The deferred layouts on devices, for graph captures.
constinit Mutex on_devices_mutex;
constinit DeferredLayout* first_on_devices DL_GUARDED_BY(on_devices_mutex) = nullptr;
thread_local const char this_thread = 0;  // its address names the thread

class DeferredLayout final : public DeferredBytes {
 public:
  DeferredLayout(Ref<TensorImpl> source, const Strides& visible)
      : source_(std::move(source)), visible_strides_(visible), device_(source_->storage->device()) {
    if (device_.type != DeviceType::kCUDA) return;
    stream_ = cuda::current_stream(device_.index);
    if (cuda::capturing()) captured_by_ = &this_thread;
    enlist();
  }

  // A tensor over the source with the elements of `view`; undefined if the storage is materialized,
  // or if no strides address them.
  Tensor over_source(const TensorImpl& view) const {
    const Ref<TensorImpl> source = this->source();
    if (!source) return {};
    if (view.offset == 0 && view.strides == visible_strides_ && view.shape == source->shape) {
      return Tensor(source);
    }
    const std::optional<Address> address =
        address_in_source(blocks_of(source->shape, visible_strides_, source->strides), view);
    if (!address) return {};
    return Tensor(make_ref<TensorImpl>(source->storage, view.shape, address->strides,
                                       source->offset + address->offset, view.dtype));
  }

  void* materialize() override {
    const Lock lock(mutex_);
    if (source_) copy_from_source();
    if (device_.type == DeviceType::kCUDA) order_after_copy();
    return own_memory_->data();
  }

  void bump_version() noexcept override {
    if (const Ref<TensorImpl> source = this->source()) source->storage->bump_version();
  }

  bool is_shared() const noexcept override {
    const Lock lock(mutex_);
    return source_ && (source_->use_count() > 1 || source_->storage->use_count() > 1);
  }

  // Called at the begin and the end of a capture by this thread.
  static void on_capture_begin_or_end() {
    const Lock lock(on_devices_mutex);
    const void* const captured_by = cuda::capturing() ? &this_thread : nullptr;
    for (DeferredLayout* each = first_on_devices; each != nullptr; each = each->next_) {
      if (each->captured_by_ != captured_by) continue;
      each->materialize();
      if (captured_by == nullptr) continue;
      // From now on each launch of the graph fills the memory, in the order of its own stream.
      const Lock lock_each(each->mutex_);
      each->stream_ = {};
    }
  }

  static void* operator new(std::size_t bytes) { return memory::allocate(bytes); }
  static void operator delete(void* self) noexcept {
    memory::deallocate(self, sizeof(DeferredLayout));
  }

 private:
  ~DeferredLayout() override {
    if (device_.type == DeviceType::kCUDA) delist();
  }

  Ref<TensorImpl> source() const noexcept {
    const Lock lock(mutex_);
    return source_;
  }

  void copy_from_source() DL_REQUIRES(mutex_) {
    const TensorImpl& from = *source_;
    const std::size_t bytes = static_cast<std::size_t>(from.numel) * size_of(from.dtype);
    std::optional<cuda::StreamGuard> on_stream;
    if (stream_.handle != nullptr) on_stream.emplace(stream_);
    Ref<Storage> memory = Storage::make(bytes, device_);
    detail::copy_elements(
        Tensor(source_),
        Tensor(make_ref<TensorImpl>(memory, from.shape, visible_strides_, 0, from.dtype)));
    own_memory_ = std::move(memory);
    source_ = nullptr;
  }

  // A captured stream is not ordered after a stream outside of the capture, but the elements of
  // such a stream were copied to their storages before the capture began.
  void order_after_copy() const DL_REQUIRES(mutex_) {
    const Stream current = cuda::current_stream(device_.index);
    if (stream_.handle == nullptr || current.handle == stream_.handle) return;
    if (cuda::capturing() != (captured_by_ != nullptr)) return;
    cuda::join(current, stream_);
    cuda::record_stream(device_.index, own_memory_->data(), current);
  }

  void enlist() {
    cuda::set_capture_hook(&on_capture_begin_or_end);
    const Lock lock(on_devices_mutex);
    next_ = first_on_devices;
    if (next_ != nullptr) next_->before_ = this;
    first_on_devices = this;
  }
  void delist() noexcept {
    const Lock lock(on_devices_mutex);
    (before_ != nullptr ? before_->next_ : first_on_devices) = next_;
    if (next_ != nullptr) next_->before_ = before_;
  }

  mutable Mutex mutex_;
  Ref<TensorImpl> source_ DL_GUARDED_BY(mutex_);  // null: the elements are in own_memory_
  Ref<Storage> own_memory_ DL_GUARDED_BY(mutex_);
  const Strides visible_strides_;  // of the whole storage
  const Device device_;
  // For a device: the stream that makes and copies the elements, its capture (the address of the
  // capturing thread's this_thread), and the position in the list.
  Stream stream_{};
  const void* captured_by_ = nullptr;
  DeferredLayout* before_ = nullptr;
  DeferredLayout* next_ = nullptr;
};

}  // namespace

Tensor with_visible_strides(const Tensor& memory, const Strides& strides) {
  const TensorImpl& impl = *memory.impl();
  if (strides == impl.strides) return memory;
  if (impl.numel == 0 || are_same_addresses(impl.shape, strides, impl.strides)) {
    return Tensor(make_ref<TensorImpl>(impl.storage, impl.shape, strides, impl.offset, impl.dtype));
  }
  Ref<Storage> storage =
      Storage::make_deferred(memory.nbytes(), impl.storage->device(),
                             make_ref<DeferredLayout>(Ref<TensorImpl>(memory.impl()), strides));
  return Tensor(make_ref<TensorImpl>(std::move(storage), impl.shape, strides, 0, impl.dtype));
}

Tensor with_visible_format(const Tensor& memory, MemoryFormat in_torch) {
  return in_torch == MemoryFormat::kChannelsLast
             ? memory
             : with_visible_strides(memory, contiguous_strides(memory.sizes()));
}

void StoredOrder::resolve() {
  const TensorImpl& impl = *stored_->impl();
  const auto* const deferred = static_cast<DeferredLayout*>(impl.storage->deferred());
  if (deferred == nullptr) return;
  source_ = deferred->over_source(impl);
  if (source_.defined()) {
    stored_ = &source_;
  } else {
    impl.data();
  }
}

}  // namespace dl
