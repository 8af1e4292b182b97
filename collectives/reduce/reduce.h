// The arithmetic of reductions on raw buffers, vectorised for the CPU at run time.
//
// Rules for every backend:
//   f16, bf16  sum, avg and prod are taken in f32 and rounded once, at the end (combine);
//   avg        is the sum divided by the number of ranks; integers are summed wide and truncated
//              toward zero;
//   min, max   propagate NaN, as PyTorch does; on a tie the later operand wins;
//   NaN        a sum or product that is NaN is always the same NaN; denormals count, whatever the
//              calling thread's floating-point mode is;
//   integers   wrap around (modulo 2^n) in sum and prod;
//   bool       sum, max and bor are "or", prod, min and band are "and"; any non-zero byte counts as
//              true.
// Buffers need no alignment beyond their element's. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/call/options.h"
#include "core/tensor/dtype.h"

namespace dl::collectives {

// True if partial results must not be sent in `dtype`, because each step would round or overflow.
// Then every rank sends its unreduced share to the rank that sums it (combine).
bool needs_raw_shares(DType dtype, ReduceOp op) noexcept;

// dst[i] = a[i] op b[i]. dst may be a or b; otherwise they must not overlap. kAvg only adds.
void reduce(DType dtype, ReduceOp op, void* dst, const void* a, const void* b, std::size_t count);

// x[i] /= ranks for kAvg, after the last reduce(). Does nothing for other operations.
void finish(DType dtype, ReduceOp op, void* x, std::size_t count, int ranks);

// dst[i] = shares[0][i] op shares[1][i] op ..., in the accumulator's type, finished (avg) and
// rounded once. dst may be one of the shares. Order of the operations:
//   kPlan  from left to right
//   kTree  neighbours first, then pairs of them and so on: ((0 1) (2 3)) ((4 5) 6). Every aligned
//          block of 2^k shares has the same shape for any number of shares.
void combine(DType dtype, ReduceOp op, void* dst, std::span<const void* const> shares,
             std::size_t count, Order order = Order::kPlan);

}  // namespace dl::collectives
