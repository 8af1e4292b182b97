// Workload: buffers of one size, and the operation on them that is timed.
//
// A workload owns only its expected result. The run owns the memory, and uses it for all sizes, so
// that no size pays for new pages. One thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "collectives/bench/machine/gpu.h"
#include "collectives/bench/measure/options.h"
#include "collectives/bench/operation/operation.h"

namespace dl::collectives::bench {

class Workload {
 public:
  virtual ~Workload() = default;
  // Rewrites all inputs. Otherwise shared memory would profit from cache lines that no rank has
  // written since the last iteration. If results are checked, it also overwrites the outputs, so
  // that an old result does not pass for a new one.
  virtual void rewrite() = 0;
  // Starts the device's clock, if there is one.
  virtual void begin() {}
  // Starts the operation of slot `index`; slots may be under way at once.
  virtual Ref<Work> start(std::size_t index) = 0;
  // Waits for the operations of all slots.
  virtual void finish(std::span<const Ref<Work>> works) {
    for (const Ref<Work>& work : works) work->wait();
  }
  // Microseconds by the device's own clock, from begin() to the end of the operations of finish().
  // Nullopt: only the host's clock is there. Throws the error of a failed operation.
  virtual std::optional<double> device_us(std::span<const Ref<Work>>) { return std::nullopt; }
  // True if operations are queued in a stream, so that the host need not wait for each.
  virtual bool queues() const noexcept { return false; }
  // Number of wrong elements in this rank's results.
  virtual std::size_t wrong() = 0;
};

// Memory for the inputs and outputs of the largest size, page-aligned and already touched.
class Arena {
 public:
  explicit Arena(std::size_t bytes);
  // Collective: symmetric memory of the group. Throws kInvalidArgument if the group shares none.
  Arena(std::size_t bytes, ProcessGroup& group);
  // Memory of a GPU.
  Arena(std::size_t bytes, const Gpu& gpu);
  std::byte* data() noexcept { return aligned_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> memory_;
  Ref<SymmetricMemory> shared_;
  Gpu::Memory device_{nullptr, {}};
  std::byte* aligned_;
  std::size_t bytes_;
};

struct Shape {
  std::size_t count = 0;  // as in the operation's options
  std::size_t input = 0;  // elements
  std::size_t output = 0;
  std::size_t bytes = 0;  // nccl-tests' size: the larger of the two
};
Shape shape_of(const Operation& operation, DType dtype, std::size_t bytes, int ranks) noexcept;

struct Case {
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  bool in_place = false;
};

// One call for each slot (-m). The arenas must hold as many slots of the largest size.
std::vector<TimedCall> calls_of(const ProcessGroup& group, const Options& options,
                                const Operation& operation, const Case& what, const Shape& shape,
                                Arena& inputs, Arena& outputs);

class CollectiveWorkload final : public Workload {
 public:
  // The arenas hold -m slots each, at the largest size.
  CollectiveWorkload(ProcessGroup& group, const Options& options, const Operation& operation,
                     const Case& what, const Shape& shape, Arena& inputs, Arena& outputs,
                     BareRing* ring = nullptr);

  void rewrite() override;
  Ref<Work> start(std::size_t index) override;
  std::size_t wrong() override;

 private:
  void spoil(std::byte* output) const;

  ProcessGroup& group_;
  const Operation& operation_;
  DType dtype_;
  std::size_t input_count_;
  std::vector<TimedCall> calls_;
  std::vector<std::byte> wanted_;
  std::size_t wanted_count_ = 0;
};

}  // namespace dl::collectives::bench
