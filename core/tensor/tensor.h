// Tensor: a handle to an n-dimensional array, with PyTorch's names and semantics.
//
// A Tensor is 8 bytes; copying one shares the array. Views share the storage; clone() copies the
// elements. An undefined Tensor (default constructed, or moved from) stands for "none". The dtype
// of a tensor never changes; its shape changes only in squeeze_(), unsqueeze_(), t_() and
// transpose_().
// Thread-safety: handles to one array may be copied and destroyed on any thread; any thread may
// read while no thread writes, and those four are writes.
//
// Members that only read the handle are defined here. A comment "core/ops:" or "core/autograd:"
// names the folder that defines the members below it; autograd records those of core/ops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/lifetime/ref.h"
#include "core/device/stream.h"
#include "core/tensor/dims.h"
#include "core/tensor/dtype.h"
#include "core/tensor/dtype_types.h"
#include "core/tensor/layout/shape.h"
#include "core/tensor/reduce_options.h"
#include "core/tensor/scalar/scalar.h"
#include "core/tensor/tensor_impl.h"

namespace dl {

class HookHandle;  // core/base/lifetime/hook_handle.h
class Tensor;
class TensorIndex;
class IndexedTensor;
class Generator;                          // core/random/generator.h
Generator& default_generator() noexcept;  // NOLINT(readability-redundant-declaration)

// Throws kInvalidArgument with the text "dim: the tensor is undefined ...".
[[noreturn]] void refuse_undefined(std::string_view op);

namespace detail {
// Throws for `p.grad() = g` if p has no gradient.
[[noreturn]] void refuse_undefined_left_side();
// core/ops: split() into pieces of the same size.
std::vector<Tensor> split_evenly(const Tensor& input, std::int64_t size, std::int64_t dim);
// For x[0] = value: removes leading sizes of 1 from `value` until it has `dims` dimensions.
Tensor without_leading_ones(const Tensor& value, std::int64_t dims);
}  // namespace detail

struct BackwardOptions {
  // Keep the saved tensors, so that backward can run again. By default create_graph.
  std::optional<bool> retain_graph{};
  // Record the pass, so that the gradients have a history and can be differentiated themselves.
  bool create_graph = false;
};

struct ToOptions {
  bool non_blocking = false;
};

// For x.new_zeros() and its kin: what is not given is that of x.
struct NewOptions {
  std::optional<DType> dtype{};
  std::optional<Device> device{};
  bool requires_grad = false;
  bool pin_memory = false;
};

class Tensor {
 public:
  Tensor() noexcept = default;
  explicit Tensor(Ref<TensorImpl> impl) noexcept : impl_(std::move(impl)) {}

  bool defined() const noexcept { return static_cast<bool>(impl_); }
  explicit operator bool() const noexcept = delete;  // use defined() or item<bool>()
  TensorImpl* impl() const noexcept { return impl_.get(); }
  // Assigning to a variable makes it a handle to the other array. Assigning to a temporary (x[0] =
  // y, x.t() = 0) writes into its elements, like copy_() and fill_().
  Tensor(const Tensor&) noexcept = default;
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor&) & noexcept = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  void operator=(const Tensor& value) && {
    if (!defined()) detail::refuse_undefined_left_side();
    copy_(detail::without_leading_ones(value, dim()));
  }
  void operator=(Scalar value) && {
    if (!defined()) detail::refuse_undefined_left_side();
    fill_(value);
  }

  // True if both handles refer to the same array object.
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }

  // These and all members below, except str(), throw kInvalidArgument for an undefined tensor.
  std::int64_t dim() const { return static_cast<std::int64_t>(get("dim").shape.size()); }
  const Shape& sizes() const { return get("sizes").shape; }
  const Strides& strides() const { return get("strides").strides; }
  std::int64_t size(std::int64_t d) const {
    const Shape& shape = get("size").shape;
    return shape[wrap_dim(d, shape.size(), "size")];
  }
  std::int64_t stride(std::int64_t d) const {
    const Strides& strides = get("stride").strides;
    return strides[wrap_dim(d, strides.size(), "stride")];
  }
  std::int64_t numel() const { return get("numel").numel; }
  std::size_t nbytes() const {
    const TensorImpl& impl = get("nbytes");
    return static_cast<std::size_t>(impl.numel) * size_of(impl.dtype);
  }
  DType dtype() const { return get("dtype").dtype; }
  Device device() const { return get("device").storage->device(); }
  bool is_contiguous() const { return get("is_contiguous").contiguous; }
  bool is_channels_last() const { return get("is_channels_last").channels_last; }
  bool is_contiguous(MemoryFormat format) const {
    const TensorImpl& impl = get("is_contiguous");
    return format == MemoryFormat::kChannelsLast ? impl.channels_last : impl.contiguous;
  }
  const Ref<Storage>& storage() const { return get("storage").storage; }
  std::int64_t storage_offset() const { return get("storage_offset").offset; }
  // The number of in-place writes to the storage so far.
  std::uint32_t version() const { return get("version").storage->version(); }
  // Call it after a write through a pointer, so that autograd notices the write.
  void bump_version() const { get("bump_version").storage->bump_version(); }

  // The address of the first element. data<T>() throws kDType if T is not the type of dtype().
  void* data_ptr() const {
    const TensorImpl& impl = get("data_ptr");
    note_access(impl);
    return impl.data();
  }
  template <typename T>
  T* data() const {
    const TensorImpl& impl = get("data");
    if (impl.dtype != kDTypeOf<T>) [[unlikely]]
      refuse_data(kDTypeOf<T>);
    note_access(impl);
    return static_cast<T*>(impl.data());
  }
  // The value of a tensor of one element, converted to T. Throws kShape unless there is exactly one
  // element, and kInvalidArgument if the value does not fit into an integer type T
  // (core/tensor/scalar/scalar.h).
  template <typename T>
  T item(const std::source_location& caller = std::source_location::current()) const {
    const Scalar value = item(caller);
    if (!value.fits<T>()) [[unlikely]]
      detail::refuse_item(value, sizeof(T), std::is_signed_v<T>);
    return value.to<T>();
  }
  // The value of a tensor of one element, as a Scalar of the dtype's kind (bool, integer,
  // floating). A step that is being compiled (nn/compile/compile.h) names the caller.
  Scalar item(const std::source_location& caller = std::source_location::current()) const;
  // One element on the CPU, for tests and small tools: at<float>({1, 2}).
  template <typename T>
  T& at(std::initializer_list<std::int64_t> index) const {
    return data<T>()[offset_of(index)];
  }

  // core/ops: views, which share the storage. A negative `dim` counts from the end.
  // Pass sizes and dimensions in braces or as separate arguments: x.view({2, 3}), x.view(2, 3).
  Tensor view(const Shape& shape) const;     // one size may be -1; throws if it needs a copy
  Tensor reshape(const Shape& shape) const;  // a view if possible, else a copy
  Tensor view(SizeNumber auto size, SizeNumber auto... rest) const {
    return view(detail::listed(size, rest...));
  }
  Tensor reshape(SizeNumber auto size, SizeNumber auto... rest) const {
    return reshape(detail::listed(size, rest...));
  }
  Tensor flatten(std::int64_t start_dim = 0, std::int64_t end_dim = -1) const;
  Tensor transpose(std::int64_t dim0, std::int64_t dim1) const;
  Tensor t() const;  // at most two dimensions
  Tensor T() const;  // all dimensions in the reverse order
  Tensor permute(const Dims& dims) const;
  Tensor permute(SizeNumber auto dim, SizeNumber auto... rest) const {
    return permute(detail::listed(dim, rest...));
  }
  Tensor select(std::int64_t dim, std::int64_t index) const;
  Tensor operator[](std::int64_t index) const { return select(0, index); }
  // Elements start, start + step, ... below end; out-of-range bounds are clipped, as in Python.
  Tensor slice(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) const;
  // `length` elements from `start` on; a negative start counts from the end.
  Tensor narrow(std::int64_t dim, std::int64_t start, std::int64_t length) const;
  Tensor expand(const Shape& shape) const;  // -1 keeps a size
  Tensor expand(SizeNumber auto size, SizeNumber auto... rest) const {
    return expand(detail::listed(size, rest...));
  }
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t dim) const;
  Tensor unsqueeze(std::int64_t dim) const;
  // core/ops/shape/view_in_place.cc: squeeze_() gives this tensor the shape of squeeze(), and so
  // on. All handles to the tensor see the new shape; its views and the results of detach() keep
  // theirs. Gradients flow as through the view, also under a NoGradGuard. Throws kInvalidArgument
  // for a leaf that requires gradients and for a tensor that has a gradient.
  Tensor& squeeze_();
  Tensor& squeeze_(std::int64_t dim);
  Tensor& unsqueeze_(std::int64_t dim);
  Tensor& transpose_(std::int64_t dim0, std::int64_t dim1);
  Tensor& t_();

  // core/ops: copies. If nothing has to change, contiguous(), to() and pin_memory() return the
  // tensor itself.
  Tensor contiguous(MemoryFormat format = MemoryFormat::kContiguous) const;
  Tensor clone(MemoryFormat format = MemoryFormat::kPreserve) const;
  Tensor to(DType dtype) const;
  // A copy on another device. It has the same strides if the tensor has no gaps, and is contiguous
  // otherwise. With non_blocking, a copy between pinned memory and a GPU may still run when this
  // returns. The copy runs on the GPU's current stream: synchronise that stream before you read a
  // result on the CPU.
  Tensor to(Device device, ToOptions options = {}) const;
  // "cpu", "cuda" (the thread's current device) or "cuda:1"; throws kInvalidArgument for others.
  Tensor to(std::string_view device, ToOptions options = {}) const;
  Tensor cuda() const;  // to the thread's current CUDA device
  Tensor cuda(int index) const;
  Tensor cpu() const { return to(Device{}); }
  bool is_cuda() const { return device().type == DeviceType::kCUDA; }
  // A copy in pinned memory, from which copies to a device are fast and asynchronous.
  Tensor pin_memory() const;
  bool is_pinned() const;

  // core/ops: new tensors of this tensor's dtype and device, unless the options say otherwise.
  Tensor new_empty(const Shape& shape, NewOptions options = {}) const;
  Tensor new_zeros(const Shape& shape, NewOptions options = {}) const;
  Tensor new_ones(const Shape& shape, NewOptions options = {}) const;
  Tensor new_full(const Shape& shape, Scalar value, NewOptions options = {}) const;
  Tensor new_empty(SizeNumber auto size, SizeNumber auto... rest) const {
    return new_empty(detail::listed(size, rest...));
  }
  Tensor new_zeros(SizeNumber auto size, SizeNumber auto... rest) const {
    return new_zeros(detail::listed(size, rest...));
  }
  Tensor new_ones(SizeNumber auto size, SizeNumber auto... rest) const {
    return new_ones(detail::listed(size, rest...));
  }
  // x.new_tensor(1.5), x.new_tensor({1, 2}), x.new_tensor({{1, 2}, {3, 4}}), or a copy of a tensor
  // without its history.
  Tensor new_tensor(Scalar value, NewOptions options = {}) const;
  Tensor new_tensor(std::initializer_list<Scalar> values, NewOptions options = {}) const;
  Tensor new_tensor(std::initializer_list<std::initializer_list<Scalar>> rows,
                    NewOptions options = {}) const;
  Tensor new_tensor(const Tensor& values, NewOptions options = {}) const;

  // core/ops: in-place writes; each raises version() by one.
  // Broadcasts and converts `source`, which may be on any device. non_blocking: as for to().
  Tensor& copy_(const Tensor& source, ToOptions options = {});
  Tensor& fill_(Scalar value);
  Tensor& zero_();
  // += alpha * other, computed in the promoted dtype; alpha must be whole for an integer result.
  Tensor& add_(const Tensor& other, Scalar alpha = 1);
  Tensor& add_(Scalar other);
  Tensor& sub_(const Tensor& other);
  Tensor& sub_(Scalar other);
  Tensor& mul_(const Tensor& other);
  Tensor& mul_(Scalar other);
  Tensor& div_(const Tensor& other);
  Tensor& div_(Scalar other);

  // core/ops/random/random.cc: overwrite the elements with random numbers, on the CPU the same as
  // PyTorch's (core/random/distributions.h lists the exceptions). The gradient of the overwritten
  // values is 0. Floating dtypes; any dtype for bernoulli_().
  Tensor& uniform_(double low = 0, double high = 1, Generator& generator = default_generator());
  Tensor& normal_(double mean = 0, double std = 1, Generator& generator = default_generator());
  Tensor& bernoulli_(double p = 0.5, Generator& generator = default_generator());
  Tensor& exponential_(double lambda = 1, Generator& generator = default_generator());

  // core/ops: x.relu() and x.relu_() for every row of DL_UNARY in core/elementwise/list.def.
#define DL_UNARY(enumerator, name, ...) \
  Tensor name() const;                  \
  Tensor& name##_();
#include "core/elementwise/list.def"

  // core/ops: reductions, over all dimensions or some, one for each row of
  // core/reductions/list.def (core/ops/reduce/reduce.h): x.sum(), x.mean(1), x.amax({0, 2}).
#define DL_REDUCTION(enumerator, name, ...) \
  Tensor name(const DimList& dims = {}, ReduceOptions options = {}) const;
  // x.max(1): values and indices along a dimension; x.max(): the value over all elements. The same
  // for x.argmax(1) and x.argmax(), which give only indices.
#define DL_EXTREME(enumerator, name, arg_name, ...)                                   \
  std::pair<Tensor, Tensor> name(std::int64_t dim, ReduceOptions options = {}) const; \
  Tensor name() const;                                                                \
  Tensor arg_name(std::int64_t dim, ReduceOptions options = {}) const;                \
  Tensor arg_name() const;
#include "core/reductions/list.def"
  Tensor var(const DimList& dims = {}, VarOptions options = {}) const;
  Tensor std(const DimList& dims = {}, VarOptions options = {}) const;
  Tensor norm(double p = 2, const DimList& dims = {}, ReduceOptions options = {}) const;
  // core/ops/order/order.h
  Tensor cumsum(std::int64_t dim) const;
  std::pair<Tensor, Tensor> sort(std::int64_t dim = -1, SortOptions options = {}) const;
  Tensor argsort(std::int64_t dim = -1, SortOptions options = {}) const;
  std::pair<Tensor, Tensor> topk(std::int64_t k, std::int64_t dim = -1,
                                 TopkOptions options = {}) const;

  // core/ops: x.add(y), x.eq(2), x.matmul(y) and the like.
#define DL_DEFAULT(value) = value
#define DL_METHOD(Result, name, parameters, arguments) Result name parameters const;
#define DL_METHOD_IN_PLACE(name, parameters, arguments) Tensor& name parameters;
#define DL_METHOD_INTO(name, parameters, arguments, tensors) Tensor& name##_ parameters;
#include "core/tensor/methods.def"
#undef DL_DEFAULT
  Tensor repeat(SizeNumber auto times, SizeNumber auto... rest) const {
    return repeat(detail::listed(times, rest...));
  }
  Tensor tile(SizeNumber auto times, SizeNumber auto... rest) const {
    return tile(detail::listed(times, rest...));
  }
  std::vector<Tensor> split(SizeNumber auto size, std::int64_t dim = 0) const {
    return detail::split_evenly(*this, static_cast<std::int64_t>(size), dim);
  }
  Tensor flip(SizeNumber auto dim, SizeNumber auto... rest) const {
    return flip(detail::listed(dim, rest...));
  }

  // core/ops/index/indexing.h: x.index({0, Slice(1, None), mask}); assigning to the result writes
  // into x.
  IndexedTensor index(std::initializer_list<TensorIndex> indices) const;
  Tensor& index_put_(std::initializer_list<TensorIndex> indices, const Tensor& value);
  Tensor& index_put_(std::initializer_list<TensorIndex> indices, Scalar value);

  // Operators in place: x += y is x.add_(y).
#define DL_ASSIGNMENT(sign, name)                                     \
  Tensor& operator sign(const Tensor & other) { return name(other); } \
  Tensor& operator sign(Scalar other) { return name(other); }
  DL_ASSIGNMENT(+=, add_)
  DL_ASSIGNMENT(-=, sub_)
  DL_ASSIGNMENT(*=, mul_)
  DL_ASSIGNMENT(/=, div_)
#undef DL_ASSIGNMENT

  // core/autograd: a leaf is a tensor that no recorded operation made; gradients accumulate in
  // leaves.
  bool requires_grad() const {
    const TensorImpl& impl = get("requires_grad");
    return impl.requires_grad || impl.is_behind_base();
  }
  // Sets whether backward passes compute this leaf's gradient, also through operations that used it
  // before. For a result, `true` has no effect and `false` throws kInvalidArgument.
  Tensor& requires_grad_(bool requires_grad = true);
  bool is_leaf() const;
  // The gradient of a leaf, or of a result after retain_grad(). It has this tensor's shape and
  // dtype; it is undefined if there is no gradient.
  Tensor grad() const;
  // Makes backward passes add the gradient of this result to grad(). If the result is written in
  // place later, this is the gradient of the new values. Does nothing for a leaf. Throws
  // kInvalidArgument if the tensor requires no gradients.
  void retain_grad() const;
  bool retains_grad() const;
  // Sets grad() of any tensor; an undefined `grad` clears it.
  void set_grad(const Tensor& grad) const;
  // Clears the gradient; `set_to_none = false` fills it with zeros instead.
  void zero_grad(bool set_to_none = true) const;
  // Adds to the gradients of all leaves from which this tensor was computed. `gradient` may be
  // omitted for a tensor of one element.
  void backward(const Tensor& gradient = {}, BackwardOptions options = {}) const;
  // A tensor with the same elements, without history. In-place writes to one change both.
  Tensor detach() const;
  // Turns this tensor itself into a leaf without history. Results computed from it before keep
  // their history. Throws kInvalidArgument for a view.
  Tensor& detach_();
  // Calls `hook` with each gradient of this tensor before it is used. A defined result, of the same
  // shape and dtype, replaces the gradient. A hook belongs to the values that the tensor has when
  // the hook is registered: after an in-place write, the hook still sees the gradient of the old
  // values. The tensor owns its hooks, so a hook that captures the tensor keeps both alive: use the
  // hook's argument, or capture detach(). Throws kInvalidArgument if the tensor requires no
  // gradients.
  HookHandle register_hook(std::function<Tensor(const Tensor&)> hook) const;

  // The text that Python prints: "tensor([1., 2.])".
  std::string str() const;

 private:
  const TensorImpl& get(const char* member) const {
    if (!impl_) [[unlikely]]
      refuse_undefined(member);
    return *impl_;
  }
  std::size_t rank() const noexcept { return impl_->shape.size(); }
  [[noreturn]] void refuse_data(DType wanted) const;
  static void note_access(const TensorImpl& impl, const std::source_location* reader = nullptr) {
    if (detail::thread_watch != nullptr) [[unlikely]]
      detail::thread_watch->accessed(*impl.storage, reader);
  }
  std::int64_t offset_of(std::initializer_list<std::int64_t> index) const;

  Ref<TensorImpl> impl_;
};

static_assert(sizeof(Tensor) == 8);

// A view of base's storage with any shape, strides and offset (in elements). All views are built on
// it; autograd does not record it. Throws kShape if it would reach outside the storage.
Tensor as_strided(const Tensor& base, const Shape& shape, const Strides& strides,
                  std::int64_t offset);

}  // namespace dl
