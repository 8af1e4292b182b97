#include "core/kernels/cpu/order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/carrier.h"
#include "core/kernels/strided_loop.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kCumsumGrain = 16 * 1024;  // elements worth a thread
constexpr std::int64_t kSortGrain = 2 * 1024;
constexpr std::int64_t kFewRecords = 128;  // sorted by comparisons

// Walks over the lines along a dimension: the offsets of a line's first elements.
template <std::size_t N>
StridedLoop<N> lines_of(const Shape& shape, std::array<Strides, N> strides, std::int64_t dim) {
  Shape kept = shape;
  kept[static_cast<std::size_t>(dim)] = 1;
  for (Strides& each : strides) each[static_cast<std::size_t>(dim)] = 0;
  return make_loop<N>(kept, strides);
}

// Integers wrap around.
template <typename A>
A plus(A a, A b) {
  if constexpr (std::is_floating_point_v<A>) {
    return a + b;
  } else {
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

template <typename A>
void cumsum_in(DType carrier, const Tensor& input, std::int64_t dim, bool reverse,
               const Tensor& out) {
  const Load load = load_as(input.dtype(), carrier);
  const Store store = store_from(carrier, out.dtype());
  const auto width = static_cast<std::int64_t>(size_of(input.dtype()));
  const auto out_width = static_cast<std::int64_t>(size_of(out.dtype()));
  const auto* const from = static_cast<const char*>(input.data_ptr());
  auto* const to = static_cast<char*>(out.data_ptr());
  const std::int64_t size = input.size(dim);
  const std::int64_t step = input.stride(dim);
  const std::int64_t out_step = out.stride(dim);
  const auto lines = lines_of<2>(input.sizes(), {out.strides(), input.strides()}, dim);
  const std::int64_t grain = std::max<std::int64_t>(1, kCumsumGrain / size);
  parallel_for(lines.count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::array<A, kBlock> block;
    std::array<A, kBlock> totals;
    walk(lines, begin, end, [&](const std::int64_t* at, std::int64_t length) {
      if (lines.inner_stride(1) == 1 && length > 1) {
        // Lines side by side: row by row.
        for (std::int64_t first = 0; first < length; first += kBlock) {
          const std::int64_t columns = std::min(kBlock, length - first);
          totals.fill(A{});
          for (std::int64_t i = 0; i < size; ++i) {
            const std::int64_t row = reverse ? size - 1 - i : i;
            load(from + (at[1] + first + row * step) * width, 1, block.data(), columns);
            for (std::int64_t c = 0; c < columns; ++c) {
              const auto k = static_cast<std::size_t>(c);
              totals[k] = plus(totals[k], block[k]);
            }
            store(totals.data(),
                  to + (at[0] + first * lines.inner_stride(0) + row * out_step) * out_width,
                  lines.inner_stride(0), columns);
          }
        }
        return;
      }
      for (std::int64_t line = 0; line < length; ++line) {
        const std::int64_t in = at[1] + line * lines.inner_stride(1);
        const std::int64_t result = at[0] + line * lines.inner_stride(0);
        A total{};
        for (std::int64_t i = 0; i < size; i += kBlock) {
          const std::int64_t count = std::min(kBlock, size - i);
          const std::int64_t first = reverse ? size - i - count : i;
          load(from + (in + first * step) * width, step, block.data(), count);
          for (std::int64_t k = 0; k < count; ++k) {
            A& element = block[static_cast<std::size_t>(reverse ? count - 1 - k : k)];
            total = plus(total, element);
            element = total;
          }
          store(block.data(), to + (result + first * out_step) * out_width, out_step, count);
        }
      }
    });
  });
}

// An element's place in the order, as an unsigned number, and where it stands.
struct Record {
  std::uint64_t key;
  std::int64_t place;
};

bool goes_before(const Record& a, const Record& b) {
  return a.key != b.key ? a.key < b.key : a.place < b.place;
}

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;

// Negative numbers turned round, positive ones above them; one key for both zeros, and the largest
// for NaN.
template <typename Bits, typename T>
std::uint64_t key_of(T x) {
  constexpr auto kHighest = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  if (x != x) return static_cast<Bits>(~Bits{0});
  const auto bits = std::bit_cast<Bits>(x == 0 ? T{0} : x);
  return (bits & kHighest) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kHighest);
}

// The records of lines of one dtype, in the order asked for.
class Records {
 public:
  Records(DType dtype, bool descending)
      : load_(load_as(dtype, is_floating(dtype) ? DType::kF64 : DType::kI64)),
        width_(static_cast<std::int64_t>(size_of(dtype))),
        floating_(is_floating(dtype)),
        narrow_(size_of(dtype) <= 4),
        flip_((floating_ || dtype == DType::kU64 ? 0 : kSign) ^
              (descending ? ~std::uint64_t{0} : 0)) {}

  void read(const char* data, std::int64_t first, std::int64_t step, std::int64_t size,
            std::vector<Record>& records) const {
    records.resize(static_cast<std::size_t>(size));
    std::array<std::uint64_t, kBlock> block;
    for (std::int64_t i = 0; i < size; i += kBlock) {
      const std::int64_t count = std::min(kBlock, size - i);
      load_(data + (first + i * step) * width_, step, block.data(), count);
      for (std::int64_t k = 0; k < count; ++k) {
        const std::uint64_t bits = block[static_cast<std::size_t>(k)];
        std::uint64_t key = bits;
        if (floating_) {
          const auto x = std::bit_cast<double>(bits);
          key = narrow_ ? key_of<std::uint32_t>(static_cast<float>(x)) : key_of<std::uint64_t>(x);
        }
        records[static_cast<std::size_t>(i + k)] = {key ^ flip_, i + k};
      }
    }
  }

 private:
  Load load_;
  std::int64_t width_;
  bool floating_;
  bool narrow_;  // fewer bytes to sort by
  std::uint64_t flip_;
};

// Stable, byte by byte from the lowest; a byte that all keys share takes no pass.
void sort_records(std::vector<Record>& records, std::vector<Record>& spare) {
  if (static_cast<std::int64_t>(records.size()) <= kFewRecords) {
    std::sort(records.begin(), records.end(), goes_before);
    return;
  }
  std::array<std::array<std::size_t, 256>, 8> counts{};
  for (const Record& record : records) {
    for (std::size_t byte = 0; byte < 8; ++byte) ++counts[byte][record.key >> (8 * byte) & 0xff];
  }
  spare.resize(records.size());
  for (std::size_t byte = 0; byte < 8; ++byte) {
    std::array<std::size_t, 256>& count = counts[byte];
    if (count[records[0].key >> (8 * byte) & 0xff] == records.size()) continue;
    std::size_t before = 0;
    for (std::size_t& each : count) before += std::exchange(each, before);
    for (const Record& record : records) {
      spare[count[record.key >> (8 * byte) & 0xff]++] = record;
    }
    records.swap(spare);
  }
}

// order(records, spare) brings those that are wanted to the front, in their order.
template <typename Order>
void ordered(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
             const Tensor& indices, const Order& order) {
  if (values.numel() == 0) return;
  const std::int64_t size = input.size(dim);
  const std::int64_t wanted = values.size(dim);
  const std::int64_t step = input.stride(dim);
  const std::int64_t value_step = values.stride(dim);
  const std::int64_t index_step = indices.stride(dim);
  const auto width = size_of(input.dtype());
  const auto* const from = static_cast<const char*>(input.data_ptr());
  auto* const to = static_cast<char*>(values.data_ptr());
  auto* const places = indices.data<std::int64_t>();
  const Records reader(input.dtype(), descending);
  const auto lines =
      lines_of<3>(values.sizes(), {values.strides(), indices.strides(), input.strides()}, dim);
  parallel_for(
      lines.count, std::max<std::int64_t>(1, kSortGrain / size),
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<Record> records;
        std::vector<Record> spare;
        walk(lines, begin, end, [&](const std::int64_t* at, std::int64_t length) {
          for (std::int64_t line = 0; line < length; ++line) {
            const std::int64_t first = at[2] + line * lines.inner_stride(2);
            reader.read(from, first, step, size, records);
            order(records, spare);
            const std::int64_t value = at[0] + line * lines.inner_stride(0);
            const std::int64_t place = at[1] + line * lines.inner_stride(1);
            for (std::int64_t i = 0; i < wanted; ++i) {
              const std::int64_t source = records[static_cast<std::size_t>(i)].place;
              std::memcpy(to + (value + i * value_step) * static_cast<std::int64_t>(width),
                          from + (first + source * step) * static_cast<std::int64_t>(width), width);
              places[place + i * index_step] = source;
            }
          }
        });
      });
}

}  // namespace

void cumsum(const Tensor& input, std::int64_t dim, bool reverse, const Tensor& out) {
  if (out.numel() == 0) return;
  if (is_floating(input.dtype())) return cumsum_in<double>(DType::kF64, input, dim, reverse, out);
  cumsum_in<std::int64_t>(DType::kI64, input, dim, reverse, out);
}

void sort(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
          const Tensor& indices) {
  ordered(input, dim, descending, values, indices, &sort_records);
}

void topk(const Tensor& input, std::int64_t dim, bool largest, const Tensor& values,
          const Tensor& indices) {
  const auto k = static_cast<std::ptrdiff_t>(values.size(dim));
  ordered(input, dim, largest, values, indices,
          [k](std::vector<Record>& records, std::vector<Record>&) {
            if (k > 0 && k < static_cast<std::ptrdiff_t>(records.size())) {
              std::nth_element(records.begin(), records.begin() + (k - 1), records.end(),
                               goes_before);
            }
            std::sort(records.begin(), records.begin() + k, goes_before);
          });
}

}  // namespace dl::kernels::cpu
