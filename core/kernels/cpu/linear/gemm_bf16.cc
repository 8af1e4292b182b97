#include <oneapi/dnnl/dnnl.hpp>

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/device/cpu_bfloat16.h"
#include "core/device/parallel.h"
#include "core/kernels/cpu/dnnl/call.h"
#include "core/kernels/cpu/dnnl/primitive.h"
#include "core/kernels/cpu/linear/gemm.h"
#include "core/kernels/lru_cache.h"

namespace dl::kernels {
namespace {

using dnnl::memory;

struct Key {
  std::int64_t m, n, k, lda, ldb, ldc, count, a_step, b_step, c_step;
  std::int64_t transpose_a, transpose_b, accumulate, bias;
  std::int64_t threads;  // a primitive is created for the current number of threads
  friend bool operator==(const Key&, const Key&) noexcept = default;
};

// A batch of `rows` x `columns` matrices; a single matrix for all has a batch of one.
memory::desc batch_of(std::int64_t count, std::int64_t step, std::int64_t rows,
                      std::int64_t columns, std::int64_t stride, bool transposed) {
  const std::int64_t matrices = step == 0 ? 1 : count;
  const std::int64_t by_row = transposed ? 1 : stride;
  const std::int64_t by_column = transposed ? stride : 1;
  if (count == 1) return {{rows, columns}, memory::data_type::bf16, {by_row, by_column}};
  const std::int64_t by_matrix = step == 0 ? stride * (transposed ? columns : rows) : step;
  return {{matrices, rows, columns}, memory::data_type::bf16, {by_matrix, by_row, by_column}};
}

std::unique_ptr<DnnlPrimitive> make_product(const Key& key) {
  const memory::desc a =
      batch_of(key.count, key.a_step, key.m, key.k, key.lda, key.transpose_a != 0);
  const memory::desc b =
      batch_of(key.count, key.b_step, key.k, key.n, key.ldb, key.transpose_b != 0);
  const memory::desc c = batch_of(key.count, key.c_step, key.m, key.n, key.ldc, false);
  dnnl::primitive_attr attr = dnnl_attributes();
  if (key.accumulate != 0) {
    dnnl::post_ops add_to_c;
    add_to_c.append_sum();
    attr.set_post_ops(add_to_c);
  }
  memory::desc bias;
  if (key.bias != 0) {
    const memory::dims row = key.count == 1 ? memory::dims{1, key.n} : memory::dims{1, 1, key.n};
    const memory::dims steps =
        key.count == 1 ? memory::dims{key.n, 1} : memory::dims{key.n, key.n, 1};
    bias = {row, memory::data_type::bf16, steps};
  }
  const dnnl::matmul::primitive_desc desc(
      key.bias != 0 ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c), attr,
      dnnl_engine());
  std::vector<DnnlPort> ports;
  ports.emplace_back(DNNL_ARG_SRC, DnnlPort::Direction::kInput, a, a);
  ports.emplace_back(DNNL_ARG_WEIGHTS, DnnlPort::Direction::kInput, b, b);
  ports.emplace_back(DNNL_ARG_DST, DnnlPort::Direction::kOutput, c, c);
  if (key.bias != 0) {
    ports.emplace_back(DNNL_ARG_BIAS, DnnlPort::Direction::kInput, bias, bias);
  }
  return std::make_unique<DnnlPrimitive>(dnnl::matmul(desc), desc.scratchpad_desc(),
                                         std::move(ports));
}

}  // namespace

bool gemm(const Bf16Gemm& g) {
  const Gemm<BFloat16>& p = g.first;
  if (p.m == 0 || p.n == 0 || g.count == 0) return true;
  if (p.k == 0 || !cpu_has_bfloat16()) return false;
  const Key key{.m = p.m,
                .n = p.n,
                .k = p.k,
                .lda = p.lda,
                .ldb = p.ldb,
                .ldc = p.ldc,
                .count = g.count,
                .a_step = g.a_step,
                .b_step = g.b_step,
                .c_step = g.c_step,
                .transpose_a = p.transpose_a ? 1 : 0,
                .transpose_b = p.transpose_b ? 1 : 0,
                .accumulate = p.accumulate ? 1 : 0,
                .bias = g.bias != nullptr ? 1 : 0,
                .threads = num_threads()};
  // Thread-local, so that it needs no lock and ranks may run as threads.
  thread_local LruCache<Key, DnnlPrimitive> cache(256);
  const DnnlCall call;
  try {
    DnnlPrimitive& product = cache.get(key, [&] { return make_product(key); });
    if (g.bias == nullptr) {
      product.run({p.a, p.b, p.c});
    } else {
      product.run({p.a, p.b, p.c, g.bias});
    }
  } catch (const dnnl::error& e) {
    throw_error(ErrorKind::kInternal,
                "matmul: oneDNN refused bf16 [{}, {}] x [{}, {}], {} at once: {}", p.m, p.k, p.k,
                p.n, g.count, e.what());
  }
  DnnlCall::guard_code_of({.operations = p.m * p.n * p.k * g.count,
                           .transpose_a = p.transpose_a,
                           .transpose_b = p.transpose_b,
                           .accumulate = p.accumulate});
  return true;
}

}  // namespace dl::kernels
