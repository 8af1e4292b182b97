// LAPACK's routines for float and double. The library (liblapack.so.3, or OpenBLAS) is opened at
// the first use, so that programs that need none of them do not need it either.
//
// Matrices are column-major without gaps. Sizes of 0 compute nothing. Thread-safety: all functions
// may be called from any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace dl::lapack {

// A routine's result: 0, or what LAPACK calls `info`, which is positive if a matrix has no
// decomposition.
using Info = int;

// Opens the library; call it before the functions below. `user` names the operation in error texts.
// Throws kNotFound, with the name of the package, if there is no library or it lacks a routine.
void require(std::string_view user);

// P A = L U, in the place of A [m, n]; `pivots` has min(m, n) row numbers, which count from 1.
template <typename T>
Info lu_factor(std::int64_t m, std::int64_t n, T* a, int* pivots);
// X with A X = B, or A^T X = B, in the place of B [n, columns]; A as lu_factor() left it.
template <typename T>
Info lu_solve(bool transposed, std::int64_t n, std::int64_t columns, const T* lu, const int* pivots,
              T* b);
// A = L L^T: L in the lower triangle of A [n, n], or L^T in the upper one.
template <typename T>
Info cholesky(bool upper, std::int64_t n, T* a);
// A = Q R of [m, n]: R in the upper triangle, reflectors below it and in `tau` [min(m, n)].
template <typename T>
Info qr_factor(std::int64_t m, std::int64_t n, T* a, T* tau);
// The first `columns` of Q [m, m], in the place of `reflectors` of qr_factor().
template <typename T>
Info qr_vectors(std::int64_t m, std::int64_t columns, std::int64_t reflectors, T* a, const T* tau);
// A = U diag(s) V^T of [m, n]; destroys A. `u` is [m, m] or [m, min(m, n)], `vt` [n, n] or
// [min(m, n), n]; both are null for the values alone.
template <typename T>
Info svd(bool full, std::int64_t m, std::int64_t n, T* a, T* s, T* u, T* vt);

namespace detail {
// dlopen() of the first of these files that is there. Throws kNotFound.
void* open_one_of(std::string_view user, std::initializer_list<const char*> names);
}  // namespace detail

}  // namespace dl::lapack
