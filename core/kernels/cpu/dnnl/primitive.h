// A oneDNN primitive with everything that a call needs, created once: memory objects, reorders
// between the caller's layout and the primitive's, and scratch memory.
//
// A call only sets pointers. One thread uses an object; each thread has its own engine, stream and
// scratchpad.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace dl::kernels {

// The calling thread's engine and stream.
dnnl::engine& dnnl_engine();
dnnl::stream& dnnl_stream();

// The attributes of every primitive: the caller gives it its scratch memory.
dnnl::primitive_attr dnnl_attributes();

// One argument of a primitive.
class DnnlPort {
 public:
  enum class Direction : std::uint8_t { kInput, kOutput };

  // `user` is the layout of the caller's memory, `inner` that of the primitive.
  DnnlPort(int arg, Direction direction, const dnnl::memory::desc& user,
           const dnnl::memory::desc& inner);

  void bind(const void* data) { user_.set_data_handle(const_cast<void*>(data)); }
  int arg() const noexcept { return arg_; }
  const dnnl::memory& inner() const noexcept { return reorder_ ? inner_ : user_; }
  // Inputs are reordered into the inner layout before the call, outputs out of it afterwards.
  void before() {
    if (reorder_ && direction_ == Direction::kInput)
      reorder_->execute(dnnl_stream(), user_, inner_);
  }
  void after() {
    if (reorder_ && direction_ == Direction::kOutput)
      reorder_->execute(dnnl_stream(), inner_, user_);
  }

 private:
  int arg_;
  Direction direction_;
  dnnl::memory user_;
  dnnl::memory inner_;  // owns memory if the layouts differ
  std::optional<dnnl::reorder> reorder_;
};

class DnnlPrimitive {
 public:
  DnnlPrimitive(const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
                std::vector<DnnlPort> ports);

  // `data` in the order of the ports.
  void run(std::initializer_list<const void*> data);

 private:
  dnnl::primitive primitive_;
  std::vector<DnnlPort> ports_;
  dnnl::memory scratchpad_;
  std::vector<dnnl_exec_arg_t> args_;
};

}  // namespace dl::kernels
