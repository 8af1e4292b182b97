#include "core/kernels/cpu/dnnl/primitive.h"

#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace dl::kernels {
namespace {

constexpr std::align_val_t kPage{4096};

struct PageDelete {
  void operator()(std::byte* p) const noexcept { ::operator delete(p, kPage); }
};

// The thread's scratch memory; its primitives share it, since they run one after another.
void* scratch(std::size_t bytes) {
  thread_local std::unique_ptr<std::byte, PageDelete> memory;
  thread_local std::size_t size = 0;
  if (bytes > size) {
    memory.reset();
    size = 0;  // if the next line throws
    memory.reset(static_cast<std::byte*>(::operator new(bytes, kPage)));
    size = bytes;
  }
  return memory.get();
}

}  // namespace

dnnl::engine& dnnl_engine() {
  thread_local dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& dnnl_stream() {
  thread_local dnnl::stream stream(dnnl_engine());
  return stream;
}

dnnl::primitive_attr dnnl_attributes() {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

DnnlPort::DnnlPort(int arg, Direction direction, const dnnl::memory::desc& user,
                   const dnnl::memory::desc& inner)
    : arg_(arg), direction_(direction), user_(user, dnnl_engine(), DNNL_MEMORY_NONE) {
  if (user == inner) return;
  inner_ = dnnl::memory(inner, dnnl_engine());
  reorder_ =
      direction == Direction::kInput ? dnnl::reorder(user_, inner_) : dnnl::reorder(inner_, user_);
}

DnnlPrimitive::DnnlPrimitive(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                             std::vector<DnnlPort> ports)
    : primitive_(primitive),
      ports_(std::move(ports)),
      scratchpad_(scratchpad, dnnl_engine(), DNNL_MEMORY_NONE) {
  for (const DnnlPort& port : ports_) args_.push_back({port.arg(), port.inner().get()});
  args_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
}

void DnnlPrimitive::run(std::initializer_list<const void*> data) {
  const auto* pointer = data.begin();
  for (DnnlPort& port : ports_) port.bind(*pointer++);
  scratchpad_.set_data_handle(scratch(scratchpad_.get_desc().get_size()));
  for (DnnlPort& port : ports_) port.before();
  // Uses the C API: the C++ one builds a hash map of the arguments at each call.
  dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), dnnl_stream().get(),
                                                 static_cast<int>(args_.size()), args_.data()),
                          "a primitive did not run");
  for (DnnlPort& port : ports_) port.after();
}

}  // namespace dl::kernels
