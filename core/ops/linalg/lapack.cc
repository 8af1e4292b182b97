#include "core/ops/linalg/lapack.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.h"

namespace dl::lapack {
namespace {

using Length = std::size_t;  // of a string; Fortran gets it behind all other arguments

// The routines that are used, by Fortran's calling convention.
template <typename T>
struct Routines {
  void (*getrf)(const int*, const int*, T*, const int*, int*, int*) = nullptr;
  void (*getrs)(const char*, const int*, const int*, const T*, const int*, const int*, T*,
                const int*, int*, Length) = nullptr;
  void (*potrf)(const char*, const int*, T*, const int*, int*, Length) = nullptr;
  void (*geqrf)(const int*, const int*, T*, const int*, T*, T*, const int*, int*) = nullptr;
  void (*orgqr)(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*,
                int*) = nullptr;
  void (*gesdd)(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*,
                const int*, T*, const int*, int*, int*, Length) = nullptr;
};

struct Library {
  Routines<float> floats;
  Routines<double> doubles;

  explicit Library(std::string_view user) {
    void* const library = detail::open_one_of(user, {"liblapack.so.3", "libopenblas.so.0"});
    fill(library, user, 's', floats);
    fill(library, user, 'd', doubles);
  }

 private:
  template <typename T>
  static void fill(void* library, std::string_view user, char prefix, Routines<T>& routines) {
    const auto find = [&](const char* name, auto& into) {
      const std::string symbol = std::string(1, prefix) + name + "_";
      into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(
          ::dlsym(library, symbol.c_str()));
      DL_CHECK(into != nullptr, kNotFound, "{}: the LAPACK library has no {}", user, symbol);
    };
    find("getrf", routines.getrf);
    find("getrs", routines.getrs);
    find("potrf", routines.potrf);
    find("geqrf", routines.geqrf);
    find("orgqr", routines.orgqr);
    find("gesdd", routines.gesdd);
  }
};

const Library& library(std::string_view user) {
  static const Library opened(user);
  return opened;
}

template <typename T>
const Routines<T>& routines() {
  const Library& opened = library("linalg");
  if constexpr (std::is_same_v<T, float>) {
    return opened.floats;
  } else {
    return opened.doubles;
  }
}

int as_int(std::int64_t size) {
  DL_CHECK(size <= std::numeric_limits<int>::max(), kShape,
           "linalg: a matrix has a dimension of size {}, LAPACK counts to {}", size,
           std::numeric_limits<int>::max());
  return static_cast<int>(size);
}

// Calls routine(work, length, info) twice: for the best length, and with memory of it.
template <typename T, typename Routine>
Info with_memory(const Routine& routine) {
  Info info = 0;
  T best = 0;
  int length = -1;
  routine(&best, &length, &info);
  if (info != 0) return info;
  // A float above 2^24 may have been rounded down.
  length = as_int(static_cast<std::int64_t>(static_cast<double>(best) * 1.0000002) + 1);
  std::vector<T> work(static_cast<std::size_t>(length));
  routine(work.data(), &length, &info);
  return info;
}

}  // namespace

void* detail::open_one_of(std::string_view user, std::initializer_list<const char*> names) {
  std::string reasons;
  for (const char* name : names) {
    // Never closed: OpenBLAS leaves threads behind.
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) return library;
    const char* const why = ::dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string(why == nullptr ? name : why);
  }
  throw_error(ErrorKind::kNotFound,
              "{} needs LAPACK (Debian's package liblapack3 or libopenblas0), which cannot be "
              "opened: {}",
              user, reasons);
}

void require(std::string_view user) {
  library(user);
}

template <typename T>
Info lu_factor(std::int64_t m, std::int64_t n, T* a, int* pivots) {
  const int rows = as_int(m);
  const int columns = as_int(n);
  Info info = 0;
  if (rows > 0 && columns > 0) routines<T>().getrf(&rows, &columns, a, &rows, pivots, &info);
  return info;
}

template <typename T>
Info lu_solve(bool transposed, std::int64_t n, std::int64_t columns, const T* lu, const int* pivots,
              T* b) {
  const int rows = as_int(n);
  const int count = as_int(columns);
  Info info = 0;
  if (rows > 0 && count > 0) {
    routines<T>().getrs(transposed ? "T" : "N", &rows, &count, lu, &rows, pivots, b, &rows, &info,
                        1);
  }
  return info;
}

template <typename T>
Info cholesky(bool upper, std::int64_t n, T* a) {
  const int rows = as_int(n);
  Info info = 0;
  if (rows > 0) routines<T>().potrf(upper ? "U" : "L", &rows, a, &rows, &info, 1);
  return info;
}

template <typename T>
Info qr_factor(std::int64_t m, std::int64_t n, T* a, T* tau) {
  const int rows = as_int(m);
  const int columns = as_int(n);
  if (rows == 0 || columns == 0) return 0;
  return with_memory<T>([&](T* work, const int* length, Info* info) {
    routines<T>().geqrf(&rows, &columns, a, &rows, tau, work, length, info);
  });
}

template <typename T>
Info qr_vectors(std::int64_t m, std::int64_t columns, std::int64_t reflectors, T* a, const T* tau) {
  const int rows = as_int(m);
  const int count = as_int(columns);
  const int known = as_int(reflectors);
  if (rows == 0 || count == 0) return 0;
  return with_memory<T>([&](T* work, const int* length, Info* info) {
    routines<T>().orgqr(&rows, &count, &known, a, &rows, tau, work, length, info);
  });
}

template <typename T>
Info svd(bool full, std::int64_t m, std::int64_t n, T* a, T* s, T* u, T* vt) {
  const int rows = as_int(m);
  const int columns = as_int(n);
  const int smaller = std::min(rows, columns);
  if (smaller == 0) return 0;
  const char* const job = u == nullptr ? "N" : full ? "A" : "S";
  const int vt_rows = u == nullptr ? 1 : full ? columns : smaller;
  std::vector<int> numbers(8 * static_cast<std::size_t>(smaller));
  return with_memory<T>([&](T* work, const int* length, Info* info) {
    routines<T>().gesdd(job, &rows, &columns, a, &rows, s, u, &rows, vt, &vt_rows, work, length,
                        numbers.data(), info, 1);
  });
}

#define DL_BOTH(T)                                                                    \
  template Info lu_factor(std::int64_t, std::int64_t, T*, int*);                      \
  template Info lu_solve(bool, std::int64_t, std::int64_t, const T*, const int*, T*); \
  template Info cholesky(bool, std::int64_t, T*);                                     \
  template Info qr_factor(std::int64_t, std::int64_t, T*, T*);                        \
  template Info qr_vectors(std::int64_t, std::int64_t, std::int64_t, T*, const T*);   \
  template Info svd(bool, std::int64_t, std::int64_t, T*, T*, T*, T*);
DL_BOTH(float)
DL_BOTH(double)
#undef DL_BOTH

}  // namespace dl::lapack
