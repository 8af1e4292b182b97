// The outer loops of reductions. Results are divided into tiles and, if there are few results,
// their elements into chunks; a task is a chunk of a tile. Sizes depend on shapes only, and chunks
// are merged in order, so that the number of threads does not change the result.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/device/parallel.h"
#include "core/kernels/cpu/reduce/moments.h"
#include "core/kernels/cpu/reduce/rows.h"
#include "core/kernels/cpu/reduce/source.h"
#include "core/kernels/declared/reduce.h"
#include "core/kernels/strided_loop.h"
#include "core/tensor/factories.h"

namespace dl::kernels::cpu {
namespace {

constexpr std::int64_t kTaskElements = 16 * 1024;  // the fewest elements that a tile or chunk reads
constexpr std::int64_t kThreadElements = 48 * 1024;  // elements read, worth a thread
constexpr std::int64_t kMostChunks = 64;
constexpr std::int64_t kWideRow = 128;  // results, at most kResults
constexpr std::int64_t kVector = 16;    // floats in the widest vector

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// How many rows of `results` elements are read as one wide row: so many that it consists of whole
// vectors, if possible.
constexpr std::int64_t rows_at_once(std::int64_t results) {
  const std::int64_t most = kWideRow / results;
  const std::int64_t whole = kVector / std::gcd(kVector, results);
  return most < whole ? most : most / whole * whole;
}

using Totals = std::array<std::uint64_t, kResults>;  // as double or int64
using Pivots = std::array<double, kResults>;
using Distances = std::array<double, kResults>;

constexpr std::int64_t kMostSamples = 16;

class Reducing {
 public:
  Reducing(ReduceFn fn, const Tensor& input, DType compute_dtype, double p, const Tensor& pivots,
           const Tensor& out)
      : reduction_(reduction_of(fn)),
        source_(input, compute_dtype),
        dtype_(input.dtype()),
        floating_(source_.compute_dtype != DType::kI64),
        centered_(facts(fn).pivot == Pivot::kMean && compute_dtype == DType::kF32),
        rows_(source_.compute_dtype == DType::kF32   ? vector_rows_of(fn)
              : source_.compute_dtype == DType::kF64 ? reduction_.f64
                                                     : reduction_.i64),
        pivots_(pivots.defined() ? pivots.data<double>() : nullptr),
        p_(p),
        out_(static_cast<char*>(out.data_ptr())),
        out_width_(static_cast<std::int64_t>(size_of(out.dtype()))),
        store_(store_from(floating_ ? DType::kF64 : DType::kI64, out.dtype())) {
    part(input, pivots, out);
    cut();
    if (!centered_) return;
    doubtful_.resize(static_cast<std::size_t>(kept_.count));
    choose_samples();
  }

  void run() {
    const std::int64_t tasks = tiles_ * chunks_;
    const std::int64_t elements = tile_ * chunk_;
    const std::int64_t grain =
        std::max<std::int64_t>(1, kThreadElements / std::max<std::int64_t>(1, elements));
    const auto room = chunks_ > 1 ? static_cast<std::size_t>(chunks_ * kept_.count) : 0;
    std::vector<std::uint64_t> partial(centered_ ? 2 * room : room);
    auto* const distances = reinterpret_cast<double*>(partial.data() + room);
    if (centered_ && chunks_ > 1) {  // once for all chunks of a result
      sampled_.resize(static_cast<std::size_t>(kept_.count));
      sample_pivots(0, kept_.count, sampled_.data());
    }
    parallel_for(tasks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        one(t / chunks_, t % chunks_, partial.data(), distances);
      }
    });
    if (chunks_ == 1) return;
    for (std::int64_t tile = 0; tile < tiles_; ++tile) {
      const std::int64_t first = tile * tile_;
      const std::int64_t results = std::min(tile_, kept_.count - first);
      std::uint64_t* const totals = partial.data() + first;
      double* const sums = centered_ ? distances + first : nullptr;
      for (std::int64_t c = 1; c < chunks_; ++c) {
        merge(totals, totals + c * kept_.count, results);
        if (centered_) add(sums, sums + c * kept_.count, results);
      }
      Pivots pivots;
      if (!centered_) read_pivots(first, results, pivots);
      finish(first, results, totals, sums, pivots);
    }
  }

  // After run(): the number of results for which float32 was too narrow.
  std::int64_t doubtful() const { return std::ranges::count(doubtful_, std::uint8_t{1}); }
  // visit(offset in the input, offset in the output) for each of them.
  template <typename Visit>
  void for_each_doubtful(const Visit& visit) const {
    for (std::int64_t r = 0; r < kept_.count; ++r) {
      if (doubtful_[static_cast<std::size_t>(r)] == 0) continue;
      walk(kept_, r, r + 1, [&](const std::int64_t* at, std::int64_t) { visit(at[1], at[0]); });
    }
  }
  // The elements of one result.
  const StridedLoop<1>& elements() const noexcept { return reduced_; }

 private:
  void part(const Tensor& input, const Tensor& pivots, const Tensor& out) {
    const auto [kept, reduced] = make_reduction_loops<3>(
        input.sizes(), input.strides(), out.sizes(),
        {out.strides(), input.strides(), pivots.defined() ? pivots.strides() : out.strides()});
    kept_ = kept;
    reduced_ = reduced;
    down_ = kept_.inner_stride(1) == 1 && kept_.inner_size() > 1 &&
            (reduced_.inner_stride(0) != 1 || reduced_.count == 1);
  }

  void cut() {
    const std::int64_t length = std::max<std::int64_t>(1, reduced_.count);
    tile_ = down_ ? kResults : std::clamp<std::int64_t>(kTaskElements / length, 1, kResults);
    tile_ = std::min(tile_, kept_.count);
    tiles_ = ceil_div(kept_.count, tile_);
    chunks_ =
        std::clamp<std::int64_t>(tile_ * length / kTaskElements, 1, ceil_div(kMostChunks, tiles_));
    // A chunk consists of whole vectors, or of whole blocks of rows if results are adjacent.
    chunk_ = (ceil_div(length, chunks_) + 63) / 64 * 64;
    chunks_ = ceil_div(length, chunk_);
  }

  void one(std::int64_t tile, std::int64_t chunk, std::uint64_t* partial, double* partial_sums) {
    const std::int64_t first = tile * tile_;
    const std::int64_t results = std::min(tile_, kept_.count - first);
    const std::int64_t begin = chunk * chunk_;
    const std::int64_t end = std::min(reduced_.count, begin + chunk_);
    Totals own;
    std::uint64_t* const totals = chunks_ == 1 ? own.data() : partial + chunk * kept_.count + first;
    Distances own_sums;
    double* const sums = !centered_     ? nullptr
                         : chunks_ == 1 ? own_sums.data()
                                        : partial_sums + chunk * kept_.count + first;
    Pivots pivots;
    read_pivots(first, results, pivots);
    begin_totals(totals, results);
    if (centered_) std::fill_n(sums, results, 0.0);
    std::int64_t done = 0;
    walk(kept_, first, first + results, [&](const std::int64_t* at, std::int64_t length) {
      const ReduceRun run{.in = nullptr,
                          .count = 0,
                          .step = 0,
                          .results = length,
                          .totals = totals + done,
                          .pivots = pivots.data() + done,
                          .p = p_,
                          .distances = centered_ ? sums + done : nullptr};
      down_ ? go_down(run, at[1], begin, end) : go_across(run, at[1], begin, end);
      done += length;
    });
    if (chunks_ == 1) finish(first, results, totals, sums, pivots);
  }

  void go_down(ReduceRun run, std::int64_t from, std::int64_t begin, std::int64_t end) const {
    Source::Pack pack;
    walk(reduced_, begin, end, [&](const std::int64_t* at, std::int64_t rows) {
      source_.for_rows(from + at[0], reduced_.inner_stride(0), rows, run.results, pack,
                       [&](const void* in, std::int64_t count, std::int64_t step, std::int64_t) {
                         run.in = in;
                         run.count = count;
                         run.step = step;
                         down(run);
                       });
    });
  }

  // Contiguous rows of few results are read as wide rows.
  void down(ReduceRun run) const {
    const std::int64_t at_once = rows_at_once(run.results);
    const std::int64_t wide_rows = at_once < 2 ? 0 : run.count / at_once;
    if (run.step != run.results || wide_rows < 4) return rows_.down(run);
    const std::int64_t results = run.results;
    Totals totals;
    Distances sums;
    Pivots pivots;
    begin_totals(totals.data(), at_once * results);
    if (centered_) std::fill_n(sums.data(), at_once * results, 0.0);
    if (centered_ || pivots_ != nullptr) {
      for (std::int64_t i = 0; i < at_once * results; ++i) {
        pivots[static_cast<std::size_t>(i)] = run.pivots[i % results];
      }
    }
    rows_.down({.in = run.in,
                .count = wide_rows,
                .step = at_once * results,
                .results = at_once * results,
                .totals = totals.data(),
                .pivots = pivots.data(),
                .p = p_,
                .distances = centered_ ? sums.data() : nullptr});
    for (std::int64_t k = 0; k < at_once; ++k) {
      merge(static_cast<std::uint64_t*>(run.totals), totals.data() + k * results, results);
      if (centered_) add(run.distances, sums.data() + k * results, results);
    }
    const std::int64_t done = wide_rows * at_once;
    run.in = static_cast<const char*>(run.in) + done * results * source_.compute_width();
    run.count -= done;
    if (run.count > 0) rows_.down(run);
  }

  void go_across(ReduceRun run, std::int64_t from, std::int64_t begin, std::int64_t end) const {
    const bool one_run = reduced_.shape.size() == 1;
    if (one_run && !source_.is_converted && (reduced_.inner_stride(0) == 1 || end - begin == 1)) {
      run.in = source_.at(from + begin * reduced_.inner_stride(0));
      run.count = end - begin;
      run.step = kept_.inner_stride(1);
      return rows_.across(run);
    }
    Source::Pack pack;
    const std::int64_t results = run.results;
    auto* const totals = static_cast<std::uint64_t*>(run.totals);
    const double* const pivots = run.pivots;
    double* const sums = run.distances;
    run.results = 1;
    for (std::int64_t r = 0; r < results; ++r) {
      run.totals = totals + r;
      run.pivots = pivots + r;
      if (centered_) run.distances = sums + r;
      const std::int64_t start = from + r * kept_.inner_stride(1);
      walk(reduced_, begin, end, [&](const std::int64_t* at, std::int64_t length) {
        source_.for_blocks(start + at[0], reduced_.inner_stride(0), length, pack,
                           [&](const void* in, std::int64_t count, std::int64_t) {
                             run.in = in;
                             run.count = count;
                             rows_.across(run);
                           });
      });
    }
  }

  void begin_totals(std::uint64_t* totals, std::int64_t results) const {
    if (floating_) {
      reduction_.begin(reinterpret_cast<double*>(totals), results);
    } else {
      reduction_.begin_whole(reinterpret_cast<std::int64_t*>(totals), results);
    }
  }

  void merge(std::uint64_t* a, const std::uint64_t* b, std::int64_t results) const {
    if (floating_) {
      reduction_.merge(reinterpret_cast<double*>(a), reinterpret_cast<const double*>(b), results);
    } else {
      reduction_.merge_whole(reinterpret_cast<std::int64_t*>(a),
                             reinterpret_cast<const std::int64_t*>(b), results);
    }
  }

  static void add(double* a, const double* b, std::int64_t results) {
    for (std::int64_t i = 0; i < results; ++i) a[i] += b[i];
  }

  // Chooses some elements of each result, spread over all elements without a period.
  void choose_samples() {
    const std::int64_t count = reduced_.count;
    sample_count_ = std::min(count, std::clamp<std::int64_t>(count / 16, 4, kMostSamples));
    for (std::int64_t k = 0; k < sample_count_; ++k) {
      const double turns = (static_cast<double>(k) + 0.5) * 0.6180339887498949;
      auto place =
          static_cast<std::int64_t>((turns - std::floor(turns)) * static_cast<double>(count));
      if (sample_count_ == count) place = k;
      std::int64_t offset = 0;
      for (std::size_t d = reduced_.shape.size(); d-- > 0;) {
        offset += place % reduced_.shape[d] * reduced_.strides[0][d];
        place /= reduced_.shape[d];
      }
      samples_[static_cast<std::size_t>(k)] = offset;
    }
  }

  // The means of the sampled elements, which are close enough to the means to keep distances small.
  void sample_pivots(std::int64_t first, std::int64_t results, double* pivots) const {
    visit_floating(dtype_, "var", [&]<typename T>() {
      walk(kept_, first, first + results, [&](const std::int64_t* at, std::int64_t length) {
        add_samples(reinterpret_cast<const T*>(source_.data) + at[1], length, pivots);
        pivots += length;
      });
    });
  }
  template <typename T>
  void add_samples(const T* x, std::int64_t results, double* pivots) const {
    const auto number = [](T element) { return static_cast<double>(static_cast<float>(element)); };
    const double share = 1 / static_cast<double>(sample_count_);
    const std::int64_t step = kept_.inner_stride(1);
    if (step != 1) {
      for (std::int64_t i = 0; i < results; ++i) {
        double sum = 0;
        for (std::int64_t k = 0; k < sample_count_; ++k) {
          sum += number(x[samples_[static_cast<std::size_t>(k)] + i * step]);
        }
        pivots[i] = sum * share;
      }
      return;
    }
    std::fill_n(pivots, results, 0.0);
    for (std::int64_t k = 0; k < sample_count_; ++k) {
      const T* const sample = x + samples_[static_cast<std::size_t>(k)];
      for (std::int64_t i = 0; i < results; ++i) pivots[i] += number(sample[i]);
    }
    for (std::int64_t i = 0; i < results; ++i) pivots[i] *= share;
  }

  void read_pivots(std::int64_t first, std::int64_t results, Pivots& pivots) const {
    if (centered_ && chunks_ > 1) {
      std::copy_n(sampled_.data() + first, results, pivots.data());
      return;
    }
    if (centered_) return sample_pivots(first, results, pivots.data());
    if (pivots_ == nullptr) return;
    std::int64_t done = 0;
    walk(kept_, first, first + results, [&](const std::int64_t* at, std::int64_t length) {
      for (std::int64_t i = 0; i < length; ++i) {
        pivots[static_cast<std::size_t>(done + i)] = pivots_[at[2] + i * kept_.inner_stride(2)];
      }
      done += length;
    });
  }

  // Turns squared distances from the pivots into those from the means. Float32 was too narrow if
  // they overflow, if some may have underflowed, or if most of a result comes from its pivot.
  void center(std::int64_t first, std::int64_t results, double* totals, const double* sums) {
    const auto n = static_cast<double>(reduced_.count);
    constexpr double kMostFromPivot = 4;
    for (std::int64_t i = 0; i < results; ++i) {
      const double from_pivot = sums[i] * sums[i] / n;
      totals[i] -= from_pivot;
      const bool is_off = from_pivot > kMostFromPivot * totals[i];
      doubtful_[static_cast<std::size_t>(first + i)] =
          n > 1 && (is_off || is_too_narrow(totals[i], n, 0));
    }
  }

  void finish(std::int64_t first, std::int64_t results, std::uint64_t* totals, const double* sums,
              const Pivots& pivots) {
    if (centered_) center(first, results, reinterpret_cast<double*>(totals), sums);
    if (floating_) {
      reduction_.finish(reinterpret_cast<double*>(totals),
                        pivots_ == nullptr ? nullptr : pivots.data(), results,
                        static_cast<double>(reduced_.count), p_);
    }
    std::int64_t done = 0;
    walk(kept_, first, first + results, [&](const std::int64_t* at, std::int64_t length) {
      store_(totals + done, out_ + at[0] * out_width_, kept_.inner_stride(0), length);
      done += length;
    });
  }

  const Reduction& reduction_;
  Source source_;
  DType dtype_;
  bool floating_;
  bool centered_;  // the squared distances of float32 elements from their mean
  ReduceRows rows_;
  const double* pivots_;
  double p_;
  char* out_;
  std::int64_t out_width_;
  Store store_;
  StridedLoop<3> kept_;     // out, in, pivots
  StridedLoop<1> reduced_;  // in
  bool down_ = false;       // results are adjacent, their elements are not
  std::int64_t tile_ = 1;   // results
  std::int64_t tiles_ = 1;
  std::int64_t chunk_ = 1;  // elements of a result
  std::int64_t chunks_ = 1;
  std::array<std::int64_t, kMostSamples> samples_;  // offsets of elements of a result
  std::int64_t sample_count_ = 0;
  std::vector<double> sampled_;         // the pivots, if there are chunks
  std::vector<std::uint8_t> doubtful_;  // results
};

// The pivots that the reduction subtracts from elements, in float64.
Tensor pivots_for(Pivot pivot, const Tensor& input, DType compute_dtype, const Tensor& out) {
  if (pivot == Pivot::kNone || (pivot == Pivot::kMean && compute_dtype == DType::kF32)) return {};
  const Tensor pivots = empty(out.sizes(), {.dtype = DType::kF64});
  const ReduceFn fn = pivot == Pivot::kMean ? ReduceFn::kMean : ReduceFn::kAmax;
  Reducing(fn, input, compute_dtype, 0, {}, pivots).run();
  if (pivot == Pivot::kLargest) {
    double* const each = pivots.data<double>();
    for (std::int64_t i = 0; i < pivots.numel(); ++i) {
      if (std::isinf(each[i])) each[i] = 0;
    }
  }
  return pivots;
}

Reducing run_in(DType compute_dtype, ReduceFn fn, const Tensor& input, double p,
                const Tensor& out) {
  const Tensor pivots =
      pivots_for(facts(fn).pivot, input, compute_dtype, out);  // read until the end of run()
  Reducing reducing(fn, input, compute_dtype, p, pivots, out);
  reducing.run();
  return reducing;
}

}  // namespace

void reduce(ReduceFn fn, const Tensor& input, double p, const Tensor& out) {
  if (out.numel() == 0) return;
  const Reducing done = run_in(compute_dtype_of(input.dtype()), fn, input, p, out);
  const std::int64_t doubtful = done.doubtful();
  if (doubtful == 0) return;
  // Repeat in float64.
  if (doubtful > out.numel() / 8) {
    run_in(DType::kF64, fn, input, p, out);
    return;
  }
  const StridedLoop<1>& elements = done.elements();
  Shape one;
  for (std::size_t d = 0; d < elements.shape.size(); ++d) one.push_back(1);
  done.for_each_doubtful([&](std::int64_t from, std::int64_t to) {
    run_in(DType::kF64, fn,
           as_strided(input, elements.shape, elements.strides[0], input.storage_offset() + from), p,
           as_strided(out, one, one, out.storage_offset() + to));
  });
}

}  // namespace dl::kernels::cpu
