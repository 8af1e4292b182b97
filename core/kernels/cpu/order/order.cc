// Sorting, the first elements of a sorted line, and medians.
#include "core/kernels/declared/order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/elementwise/compute_type.h"
#include "core/kernels/cpu/order/lines.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kSortGrain = 2 * 1024;  // elements worth a thread
constexpr std::int64_t kFewRecords = 128;      // sorted by comparisons

// A sort key that orders like the element, and the element's index. Records are compared by both,
// so that equal elements keep their order.
struct WideRecord {
  std::uint64_t key;
  std::int64_t place;
  static WideRecord of(std::uint64_t key, std::int64_t place) { return {key, place}; }
  std::int64_t where() const { return place; }
  std::uint64_t byte(std::size_t i) const { return key >> (8 * i) & 0xff; }
  bool operator<(const WideRecord& b) const { return key != b.key ? key < b.key : place < b.place; }
};
// A record for elements of at most four bytes, in lines of at most 2^32 elements.
struct NarrowRecord {
  std::uint64_t both;
  static NarrowRecord of(std::uint64_t key, std::int64_t place) {
    return {key << 32 | static_cast<std::uint64_t>(place)};
  }
  std::int64_t where() const { return static_cast<std::int64_t>(both & 0xffffffff); }
  std::uint64_t byte(std::size_t i) const { return both >> (32 + 8 * i) & 0xff; }
  bool operator<(const NarrowRecord& b) const { return both < b.both; }
};
template <typename R>
constexpr std::size_t kKeyBytes = std::is_same_v<R, NarrowRecord> ? 4 : 8;

template <typename R>
using KeyOf = std::conditional_t<std::is_same_v<R, NarrowRecord>, std::uint32_t, std::uint64_t>;

// Maps floats to integers in the same order: inverts negative numbers and puts positive ones above
// them. Both zeros have one key, and NaN has the largest. Integer operations, which the compiler
// vectorises.
template <typename Bits, typename T>
Bits key_of_float(T x) {
  constexpr int kWidth = 8 * sizeof(Bits);
  constexpr auto kHighest = static_cast<Bits>(Bits{1} << (kWidth - 1));
  constexpr auto kInfinity = std::bit_cast<Bits>(std::numeric_limits<T>::infinity());
  const auto bits = std::bit_cast<Bits>(x);
  const auto magnitude = static_cast<Bits>(bits & ~kHighest);
  const auto sign = static_cast<Bits>(-static_cast<Bits>(bits >> (kWidth - 1)));  // all bits, or 0
  const Bits key = magnitude == 0 ? kHighest : static_cast<Bits>(bits ^ (sign | kHighest));
  return magnitude > kInfinity ? static_cast<Bits>(~Bits{0}) : key;
}

template <typename Key, typename T>
Key key_of(T x) {
  if constexpr (std::is_same_v<T, float>) {
    return key_of_float<std::uint32_t>(x);
  } else if constexpr (std::is_same_v<T, double>) {
    return static_cast<Key>(key_of_float<std::uint64_t>(x));
  } else {
    return static_cast<Key>(x);
  }
}

// Reads the keys of lines of one dtype, for ascending or descending order.
template <typename R>
class Reader {
 public:
  using Key = KeyOf<R>;

  Reader(DType dtype, bool descending)
      : load_(load_as(dtype, compute_dtype_of(dtype))),
        compute_dtype_(compute_dtype_of(dtype)),
        width_(static_cast<std::int64_t>(size_of(dtype))) {
    const bool is_signed = compute_dtype_ == DType::kI64 && dtype != DType::kU64;
    // Four bytes are enough for all narrow dtypes if negative numbers are shifted above 0.
    if (is_signed) shift_ = Key{1} << (8 * sizeof(Key) - 1);
    if (dtype == DType::kU32) shift_ = 0;
    if (descending) flip_ = static_cast<Key>(~Key{0});
  }

  // The keys of a line's elements, in order.
  void read(const char* data, std::int64_t first, std::int64_t step, std::int64_t size,
            Key* keys) const {
    const char* const from = data + first * width_;
    if (compute_dtype_ == DType::kF32) return read_as<float>(from, step, size, keys);
    if (compute_dtype_ == DType::kF64) return read_as<double>(from, step, size, keys);
    read_as<std::int64_t>(from, step, size, keys);
  }

 private:
  template <typename T>
  void read_as(const char* from, std::int64_t step, std::int64_t size, Key* keys) const {
    std::array<T, kBlock> block;
    for (std::int64_t i = 0; i < size; i += kBlock) {
      const std::int64_t count = std::min(kBlock, size - i);
      load_(from + i * step * width_, step, block.data(), count);
      const Key shift = shift_;
      const Key flip = flip_;
      for (std::int64_t k = 0; k < count; ++k) {
        keys[i + k] =
            static_cast<Key>((key_of<Key>(block[static_cast<std::size_t>(k)]) + shift) ^ flip);
      }
    }
  }

  Load load_;
  DType compute_dtype_;
  std::int64_t width_;
  Key shift_ = 0;
  Key flip_ = 0;
};

// Radix sort, byte by byte from the lowest; skips a byte that is equal in all keys.
template <typename R>
void sort_records(std::vector<R>& records, std::vector<R>& spare) {
  if (static_cast<std::int64_t>(records.size()) <= kFewRecords) {
    std::sort(records.begin(), records.end());
    return;
  }
  constexpr std::size_t kBytes = kKeyBytes<R>;
  std::array<std::array<std::uint32_t, 256>, kBytes> counts{};
  std::array<std::array<std::uint32_t, 256>, kBytes> others{};  // so that equal bytes wait less
  for (std::size_t k = 0; k < records.size(); ++k) {
    auto& into = k % 2 == 0 ? counts : others;
    for (std::size_t i = 0; i < kBytes; ++i) ++into[i][records[k].byte(i)];
  }
  std::array<bool, kBytes> shared;
  for (std::size_t i = 0; i < kBytes; ++i) {
    const std::size_t first = records[0].byte(i);
    shared[i] = counts[i][first] + others[i][first] == records.size();
  }
  // The cumulative counts of all bytes at once, so that they do not wait for each other.
  std::array<std::uint32_t, kBytes> before{};
  for (std::size_t value = 0; value < 256; ++value) {
    for (std::size_t i = 0; i < kBytes; ++i) {
      before[i] += std::exchange(counts[i][value], before[i]) + others[i][value];
    }
  }
  spare.resize(records.size());
  for (std::size_t i = 0; i < kBytes; ++i) {
    if (shared[i]) continue;
    for (const R& record : records) spare[counts[i][record.byte(i)]++] = record;
    records.swap(spare);
  }
}

// A thread's memory for one line.
template <typename R>
struct Line {
  std::vector<KeyOf<R>> keys;
  std::vector<KeyOf<R>> least;
  std::vector<R> records;
  std::vector<R> spare;
};

// Candidates for the first `wanted` of a line's many records: keys are divided into groups, and no
// wanted key is above the wanted-th smallest of the groups' minima.
template <typename R>
void find_candidates(Line<R>& line, std::int64_t wanted) {
  constexpr std::size_t kAtOnce = 16;
  const auto& keys = line.keys;
  const std::size_t groups = std::max<std::size_t>(
      32, (4 * static_cast<std::size_t>(wanted) + kAtOnce - 1) / kAtOnce * kAtOnce);
  line.least.assign(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(groups));
  KeyOf<R>* const least = line.least.data();
  for (std::size_t i = groups; i + groups <= keys.size(); i += groups) {
    const KeyOf<R>* const next = keys.data() + i;
    for (std::size_t g = 0; g < groups; ++g) least[g] = std::min(least[g], next[g]);
  }
  const auto last = line.least.begin() + (wanted - 1);
  std::nth_element(line.least.begin(), last, line.least.end());
  const KeyOf<R> limit = *last;
  line.records.clear();
  const auto look_at = [&](std::size_t i) {
    if (keys[i] <= limit) line.records.push_back(R::of(keys[i], static_cast<std::int64_t>(i)));
  };
  std::size_t i = 0;
  for (; i + kAtOnce <= keys.size(); i += kAtOnce) {
    KeyOf<R> least_of_these = keys[i];
    for (std::size_t k = 1; k < kAtOnce; ++k)
      least_of_these = std::min(least_of_these, keys[i + k]);
    if (least_of_these > limit) continue;
    for (std::size_t k = 0; k < kAtOnce; ++k) look_at(i + k);
  }
  for (; i < keys.size(); ++i) look_at(i);
}

// The first `wanted` records of a line, sorted.
template <typename R>
void first_records(const Reader<R>& reader, const char* from, std::int64_t first, std::int64_t step,
                   std::int64_t size, std::int64_t wanted, Line<R>& line) {
  constexpr std::int64_t kLong = 128;
  line.keys.resize(static_cast<std::size_t>(size));
  reader.read(from, first, step, size, line.keys.data());
  if (size >= kLong && wanted * 8 <= size) {
    find_candidates(line, wanted);
  } else {
    line.records.resize(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      line.records[static_cast<std::size_t>(i)] = R::of(line.keys[static_cast<std::size_t>(i)], i);
    }
    if (wanted == size) return sort_records(line.records, line.spare);
  }
  const auto end = line.records.begin() + wanted;
  std::nth_element(line.records.begin(), end - 1, line.records.end());
  std::sort(line.records.begin(), end);
}

// Bits: an unsigned integer of an element's width.
template <typename R, typename Bits>
void order_lines(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
                 const Tensor& indices) {
  const std::int64_t size = input.size(dim);
  const std::int64_t wanted = values.size(dim);
  const std::int64_t step = input.stride(dim);
  const std::int64_t value_step = values.stride(dim);
  const std::int64_t index_step = indices.stride(dim);
  const auto* const from = static_cast<const Bits*>(input.data_ptr());
  auto* const to = static_cast<Bits*>(values.data_ptr());
  auto* const places = indices.data<std::int64_t>();
  const Reader<R> reader(input.dtype(), descending);
  const auto lines =
      lines_of<3>(values.sizes(), {values.strides(), indices.strides(), input.strides()}, dim);
  parallel_for(lines.count, std::max<std::int64_t>(1, kSortGrain / size),
               [&](std::int64_t begin, std::int64_t end) {
                 Line<R> memory;
                 walk(lines, begin, end, [&](const std::int64_t* at, std::int64_t length) {
                   for (std::int64_t line = 0; line < length; ++line) {
                     const std::int64_t first = at[2] + line * lines.inner_stride(2);
                     first_records(reader, reinterpret_cast<const char*>(from), first, step, size,
                                   wanted, memory);
                     const std::int64_t value = at[0] + line * lines.inner_stride(0);
                     const std::int64_t place = at[1] + line * lines.inner_stride(1);
                     for (std::int64_t i = 0; i < wanted; ++i) {
                       const std::int64_t source =
                           memory.records[static_cast<std::size_t>(i)].where();
                       to[value + i * value_step] = from[first + source * step];
                       places[place + i * index_step] = source;
                     }
                   }
                 });
               });
}

// Lines are at most 2^32 - 1 elements long for both kinds of record: counts are 32 bits wide.
void order(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
           const Tensor& indices, std::string_view op) {
  if (values.numel() == 0) return;
  DL_CHECK(input.size(dim) < std::int64_t{1} << 32, kNotImplemented,
           "{}: dimension {} of {} has 2^32 elements or more", op, dim, input.sizes().str());
  switch (size_of(input.dtype())) {
    case 1:
      return order_lines<NarrowRecord, std::uint8_t>(input, dim, descending, values, indices);
    case 2:
      return order_lines<NarrowRecord, std::uint16_t>(input, dim, descending, values, indices);
    case 4:
      return order_lines<NarrowRecord, std::uint32_t>(input, dim, descending, values, indices);
    default:
      return order_lines<WideRecord, std::uint64_t>(input, dim, descending, values, indices);
  }
}

}  // namespace

namespace {

template <typename T>
bool is_nan(T x) {
  return static_cast<OpMath<T>>(x) != static_cast<OpMath<T>>(x);
}

// The index of the lower median of `size` elements: any of the elements that equal it, as in
// PyTorch.
template <typename T>
std::int64_t median_place(const T* from, std::int64_t step, std::int64_t size, bool ignore_nan,
                          std::vector<std::int64_t>& order) {
  std::int64_t nans = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    if (!is_nan(from[i * step])) continue;
    if (!ignore_nan) return i;
    ++nans;
  }
  order.resize(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto middle = order.begin() + std::max<std::int64_t>(size - nans - 1, 0) / 2;
  std::nth_element(order.begin(), middle, order.end(), [=](std::int64_t i, std::int64_t j) {
    const T a = from[i * step];
    const T b = from[j * step];
    return static_cast<OpMath<T>>(a) < static_cast<OpMath<T>>(b) || (!is_nan(a) && is_nan(b));
  });
  return *middle;
}

}  // namespace

void median(const Tensor& input, std::int64_t dim, bool ignore_nan, const Tensor& values,
            const Tensor& indices) {
  if (values.numel() == 0) return;
  const std::int64_t size = input.size(dim);
  const std::int64_t step = input.stride(dim);
  const auto lines =
      lines_of<3>(values.sizes(), {values.strides(), indices.strides(), input.strides()}, dim);
  visit_numeric(input.dtype(), ignore_nan ? "nanmedian" : "median", [&]<typename T>() {
    const T* const from = input.data<T>();
    T* const to = values.data<T>();
    auto* const places = indices.data<std::int64_t>();
    parallel_for(lines.count, std::max<std::int64_t>(1, kSortGrain / size),
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<std::int64_t> order;
                   walk(lines, begin, end, [&](const std::int64_t* at, std::int64_t length) {
                     for (std::int64_t line = 0; line < length; ++line) {
                       const T* const first = from + at[2] + line * lines.inner_stride(2);
                       const std::int64_t place =
                           median_place(first, step, size, ignore_nan, order);
                       to[at[0] + line * lines.inner_stride(0)] = first[place * step];
                       places[at[1] + line * lines.inner_stride(1)] = place;
                     }
                   });
                 });
  });
}

void sort(const Tensor& input, std::int64_t dim, bool descending, const Tensor& values,
          const Tensor& indices) {
  order(input, dim, descending, values, indices, "sort");
}

void topk(const Tensor& input, std::int64_t dim, bool largest, const Tensor& values,
          const Tensor& indices) {
  order(input, dim, largest, values, indices, "topk");
}

}  // namespace dl::kernels::cpu
