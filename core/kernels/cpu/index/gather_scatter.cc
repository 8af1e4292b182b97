#include "core/kernels/declared/index.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "core/device/parallel.h"
#include "core/kernels/cpu/common/dense_runs.h"
#include "core/kernels/element_width.h"
#include "core/kernels/strided_loop.h"
#include "core/tensor/factories.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kGatherGrain = 16 * 1024;  // elements worth a thread
constexpr std::int64_t kCheckGrain = 64 * 1024;   // indices worth a thread

// True if an index is outside [least, size).
bool is_stray(std::int64_t index, std::int64_t least, std::int64_t size) {
  return static_cast<std::uint64_t>(index) - static_cast<std::uint64_t>(least) >=
         static_cast<std::uint64_t>(size - least);
}

std::int64_t least_of(const Indexed& by) {
  return by.from_end ? -by.size : 0;
}

[[noreturn]] void refuse_first_stray(const Indexed& by, const Tensor& index) {
  const auto* const first = index.data<std::int64_t>();
  const auto loop = make_loop<1>(index.sizes(), {index.strides()});
  const std::int64_t step = loop.inner_stride(0);
  walk(loop, 0, loop.count, [&](const std::int64_t* at, std::int64_t length) {
    const std::int64_t* const run = first + at[0];
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t value = run[i * step];
      DL_CHECK(value >= least_of(by) && value < by.size, kIndex,
               "{}: index {} is out of range for dimension {} of size {}", by.op, value, by.dim,
               by.size);
    }
  });
  DL_CHECK(false, kInternal, "{}: an index was out of range and no longer is", by.op);
}

void check_index(const Indexed& by, const Tensor& index) {
  if (by.is_checked || index.numel() == 0) return;
  const auto* const first = index.data<std::int64_t>();
  const auto loop = make_loop<1>(index.sizes(), {index.strides()});
  const std::int64_t step = loop.inner_stride(0);
  std::atomic<bool> strays{false};
  parallel_for(loop.count, kCheckGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      const std::int64_t* const run = first + at[0];
      const std::int64_t least = least_of(by);
      if (step == 1) {
        if (has_stray(run, length, least, by.size)) strays = true;
        return;
      }
      bool any = false;
      for (std::int64_t i = 0; i < length; ++i) any |= is_stray(run[i * step], least, by.size);
      if (any) strays = true;
    });
  });
  if (strays) refuse_first_stray(by, index);
}

// out[i] = source[index[i]]; stops and returns false at an index outside [0, size).
template <typename Bits>
bool read_line(Bits* out, const std::int64_t* index, const Bits* source, std::int64_t size,
               std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (is_stray(index[i], 0, size)) return false;
    out[i] = source[index[i]];
  }
  return true;
}

template <typename Bits>
void read_bits(const Indexed& by, const Tensor& source, const Tensor& index, const Tensor& out) {
  const auto* const from = static_cast<const Bits*>(source.data_ptr());
  const auto* const where = index.data<std::int64_t>();
  auto* const to = static_cast<Bits*>(out.data_ptr());
  const auto loop = make_loop<3>(out.sizes(), {out.strides(), index.strides(), source.strides()});
  const std::int64_t out_step = loop.inner_stride(0);
  const std::int64_t index_step = loop.inner_stride(1);
  const std::int64_t step = loop.inner_stride(2);
  // The most common case checks indices while it uses them, so that they are read from memory once.
  const bool in_lines = !by.is_checked && !by.from_end && out_step == 1 && index_step == 1 &&
                        step == 0 && by.step == 1;
  if (!in_lines) check_index(by, index);
  std::atomic<bool> strays{false};
  parallel_for(loop.count, kGatherGrain, [&](std::int64_t begin, std::int64_t end) {
    walk(loop, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      Bits* const result = to + at[0];
      const std::int64_t* const place = where + at[1];
      const Bits* const run = from + at[2];
      if (in_lines) {
        if (!read_line(result, place, run, by.size, length)) strays = true;
        return;
      }
      if (index_step != 0) {
        for (std::int64_t i = 0; i < length; ++i) {
          result[i * out_step] = run[i * step + place[i * index_step] * by.step];
        }
        return;
      }
      const Bits* const same = run + *place * by.step;
      if (out_step == 1 && step == 1) {
        std::memcpy(result, same, static_cast<std::size_t>(length) * sizeof(Bits));
      } else {
        for (std::int64_t i = 0; i < length; ++i) result[i * out_step] = same[i * step];
      }
    });
  });
  if (strays) refuse_first_stray(by, index);
}

// Elements whose targets lie on one line: element i goes to
// line[i * step + index[i * index_step] * index_unit].
struct WrittenLine {
  void* line;
  const std::int64_t* index;
  const void* values;
  std::int64_t count;
  std::int64_t step;
  std::int64_t index_step;
  std::int64_t index_unit;
  std::int64_t value_step;
};
using WriteLine = void (*)(WrittenLine);

// Calls Write()(target, value) for each element. If all are dense, four at a time: indices and
// values are loaded before the writes, because the compiler must assume that a write changes them.
template <typename T, typename Write>
void write_line(const WrittenLine by) {
  const Write write;
  auto* const line = static_cast<T*>(by.line);
  const auto* const values = static_cast<const T*>(by.values);
  const std::int64_t* const index = by.index;
  if (by.index_step != 1 || by.value_step != 1 || by.step != 0 || by.index_unit != 1) {
    for (std::int64_t i = 0; i < by.count; ++i) {
      write(line[i * by.step + index[i * by.index_step] * by.index_unit],
            values[i * by.value_step]);
    }
    return;
  }
  std::int64_t i = 0;
  for (; i + 4 <= by.count; i += 4) {
    const std::int64_t a = index[i];
    const std::int64_t b = index[i + 1];
    const std::int64_t c = index[i + 2];
    const std::int64_t d = index[i + 3];
    const T w = values[i];
    const T x = values[i + 1];
    const T y = values[i + 2];
    const T z = values[i + 3];
    write(line[a], w);
    write(line[b], x);
    write(line[c], y);
    write(line[d], z);
  }
  for (; i < by.count; ++i) write(line[index[i]], values[i]);
}

// Calls `write` for each line, in an order that does not depend on the number of threads. It
// is compiled once: a copy for each dtype and way to write was a third of this folder's code.
void write_each(const Indexed& by, const Tensor& target, const Tensor& index, const Tensor& source,
                std::int64_t disjoint_dim, WriteLine write) {
  const Shape& shape = source.sizes();
  const auto size_of_element = static_cast<std::int64_t>(size_of(target.dtype()));
  const auto run_part = [&](std::int64_t begin, std::int64_t end) {
    Shape part = shape;
    std::int64_t target_offset = 0;
    std::int64_t index_offset = 0;
    std::int64_t source_offset = 0;
    if (disjoint_dim >= 0) {
      const auto d = static_cast<std::size_t>(disjoint_dim);
      part[d] = end - begin;
      target_offset = begin * target.strides()[d];
      index_offset = begin * index.strides()[d];
      source_offset = begin * source.strides()[d];
    }
    auto* const to = static_cast<char*>(target.data_ptr()) + target_offset * size_of_element;
    const std::int64_t* const where = index.data<std::int64_t>() + index_offset;
    const auto* const from =
        static_cast<const char*>(source.data_ptr()) + source_offset * size_of_element;
    const auto loop = make_loop<3>(part, {index.strides(), source.strides(), target.strides()});
    WrittenLine line{.line = nullptr,
                     .index = nullptr,
                     .values = nullptr,
                     .count = 0,
                     .step = loop.inner_stride(2),
                     .index_step = loop.inner_stride(0),
                     .index_unit = by.step,
                     .value_step = loop.inner_stride(1)};
    walk(loop, 0, loop.count, [&](const std::int64_t* at, std::int64_t length) {
      line.index = where + at[0];
      line.values = from + at[1] * size_of_element;
      line.line = to + at[2] * size_of_element;
      line.count = length;
      write(line);
    });
  };
  if (disjoint_dim < 0) return run_part(0, 1);
  const std::int64_t size = shape[static_cast<std::size_t>(disjoint_dim)];
  parallel_for(size, std::max<std::int64_t>(1, kGatherGrain * size / source.numel()), run_part);
}

template <typename T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return static_cast<T>(static_cast<OpMath<T>>(a) + static_cast<OpMath<T>>(b));
  }
}

template <typename T>
T product_of(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a && b;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return static_cast<T>(static_cast<OpMath<T>>(a) * static_cast<OpMath<T>>(b));
  }
}

// The value of the element after `b` is combined with it.
template <typename T>
T extreme_of(T a, T b, bool larger) {
  const auto x = static_cast<OpMath<T>>(a);
  const auto y = static_cast<OpMath<T>>(b);
  return y != y || (larger ? x < y : y < x) ? b : a;
}

}  // namespace

void add_offsets(const Indexed& by, const Tensor& index, const Tensor& offsets) {
  check_index(by, index);
  if (index.numel() == 0) return;
  auto* const to = offsets.data<std::int64_t>();
  const auto* const from = index.data<std::int64_t>();
  const auto loop = make_loop<2>(offsets.sizes(), {offsets.strides(), index.strides()});
  const std::int64_t to_step = loop.inner_stride(0);
  const std::int64_t from_step = loop.inner_stride(1);
  walk(loop, 0, loop.count, [&](const std::int64_t* at, std::int64_t length) {
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t value = from[at[1] + i * from_step];
      to[at[0] + i * to_step] += (value < 0 ? value + by.size : value) * by.step;
    }
  });
}

void gather_elements(const Indexed& by, const Tensor& source, const Tensor& index,
                     const Tensor& out) {
  if (out.numel() == 0) return check_index(by, index);
  visit_width(size_of(out.dtype()),
              [&]<typename Bits>() { read_bits<Bits>(by, source, index, out); });
}

void scatter_elements(const Indexed& by, const Tensor& target, const Tensor& index,
                      const Tensor& source, ScatterMode how, std::int64_t disjoint_dim) {
  check_index(by, index);
  if (source.numel() == 0) return;
  const auto write = [&]<typename T, typename Write>(Write) {
    write_each(by, target, index, source, disjoint_dim, write_line<T, Write>);
  };
  if (how == ScatterMode::kSet) {
    return visit_width(size_of(target.dtype()), [&]<typename Bits>() {
      write.template operator()<Bits>([](Bits& to, Bits from) { to = from; });
    });
  }
  visit_all(target.dtype(), [&]<typename T>() {
    switch (how) {
      case ScatterMode::kMultiply:
        return write.template operator()<T>([](T& to, T from) { to = product_of(to, from); });
      case ScatterMode::kKeepLarger:
        return write.template operator()<T>([](T& to, T from) { to = extreme_of(to, from, true); });
      case ScatterMode::kKeepSmaller:
        return write.template operator()<T>(
            [](T& to, T from) { to = extreme_of(to, from, false); });
      default:
        return write.template operator()<T>([](T& to, T from) { to = sum_of(to, from); });
    }
  });
}

void nonzero(const Tensor& mask, const Tensor& out) {
  const bool* const is_true = mask.data<bool>();
  const std::int64_t numel = mask.numel();
  const std::int64_t dims = mask.dim();
  std::int64_t* place = out.data<std::int64_t>();
  for (std::int64_t i = 0; i < numel; ++i) {
    if (!is_true[i]) continue;
    std::int64_t rest = i;
    for (std::int64_t d = dims; d-- > 0;) {
      const std::int64_t size = mask.sizes()[static_cast<std::size_t>(d)];
      place[d] = rest % size;
      rest /= size;
    }
    place += dims;
  }
}

}  // namespace dl::kernels::cpu
