// The formulas of the reductions of core/reductions/list.def. Written once for all number types N,
// and included like core/kernels/formulas/formulas-inl.h.
//
// A result is finish(merge of term(x) over its elements). merge(identity, a) is a, and merges may
// be done in any order. Terms and their merges within a block are computed in the element's type
// (float16 and bfloat16 as float); totals of blocks in double or int64. finish() is for floating
// results.
//
// The loops over elements use identity, term and merge only. Rows that differ only in finish() name
// their common formula as Loop, so that the loops are compiled once.

namespace DL_FORMULAS_NAMESPACE {

// Arguments of term() other than the element: the pivot of its result, and the reduction's p.
template <typename N>
struct TermArgs {
  N pivot;
  N p;
};

// Arguments of finish() other than the total.
struct FinishArgs {
  double count;  // elements of the result
  double pivot;
  double p;
};

template <typename N>
DL_INLINE N least_number() {
  if constexpr (kIsWhole<N>) {
    return N(INT64_MIN);
  } else {
    return N(-std::numeric_limits<double>::infinity());
  }
}
template <typename N>
DL_INLINE N largest_number() {
  if constexpr (kIsWhole<N>) {
    return N(INT64_MAX);
  } else {
    return N(std::numeric_limits<double>::infinity());
  }
}

struct AddTerms {
  template <typename N>
  static DL_INLINE N identity() {
    return N(0);
  }
  template <typename N>
  static DL_INLINE N merge(N a, N b) {
    return a + b;
  }
};
// The result is NaN if a term is.
struct KeepLarger {
  template <typename N>
  static DL_INLINE N identity() {
    return least_number<N>();
  }
  template <typename N>
  static DL_INLINE N merge(N a, N b) {
    return select(b != b, b, larger_of(b, a));
  }
};
struct KeepSmaller {
  template <typename N>
  static DL_INLINE N identity() {
    return largest_number<N>();
  }
  template <typename N>
  static DL_INLINE N merge(N a, N b) {
    return select(b != b, b, smaller_of(b, a));
  }
};

struct TakeElement {
  template <typename N>
  static DL_INLINE N term(N x, const TermArgs<N>&) {
    return x;
  }
};
struct TakeTruth {
  template <typename N>
  static DL_INLINE N term(N x, const TermArgs<N>&) {
    return select(x != N(0), N(1), N(0));
  }
};
struct TakeMagnitude {
  template <typename N>
  static DL_INLINE N term(N x, const TermArgs<N>&) {
    return abs_of(x);
  }
};
struct TakeSquareOfDistance {
  template <typename N>
  static DL_INLINE N term(N x, const TermArgs<N>& args) {
    const N distance = x - args.pivot;
    return distance * distance;
  }
};

struct GiveTotal {
  static DL_INLINE double finish(double total, const FinishArgs&) { return total; }
};

struct Sum : AddTerms, TakeElement {
  using Loop = Sum;
};
struct Total : Sum, GiveTotal {};
struct TotalOfNumbers : AddTerms, GiveTotal {
  template <typename N>
  static DL_INLINE N term(N x, const TermArgs<N>&) {
    return select(x != x, N(0), x);
  }
};
struct Average : Sum {
  static DL_INLINE double finish(double total, const FinishArgs& e) { return total / e.count; }
};
struct Product : TakeElement, GiveTotal {
  template <typename N>
  static DL_INLINE N identity() {
    return N(1);
  }
  template <typename N>
  static DL_INLINE N merge(N a, N b) {
    return a * b;
  }
};
struct Largest : KeepLarger, TakeElement, GiveTotal {};
struct Smallest : KeepSmaller, TakeElement, GiveTotal {};
struct AnyOf : TakeTruth, GiveTotal, KeepLarger {
  template <typename N>
  static DL_INLINE N identity() {
    return N(0);
  }
};
struct AllOf : TakeTruth, GiveTotal, KeepSmaller {
  template <typename N>
  static DL_INLINE N identity() {
    return N(1);
  }
};
struct Count : AddTerms, TakeTruth {
  using Loop = Count;
};
struct CountNonzero : Count, GiveTotal {};

// The pivot is the largest element, so that no power overflows, or 0 if that is infinite.
struct LogSumExp : AddTerms {
  template <typename N>
  static DL_INLINE N term(N x, const TermArgs<N>& args) {
    return exp_of(x - args.pivot);
  }
  static DL_INLINE double finish(double total, const FinishArgs& e) {
    return std::log(total) + e.pivot;
  }
};

struct SquaredDistances : AddTerms, TakeSquareOfDistance {
  using Loop = SquaredDistances;
};
struct Variance : SquaredDistances {
  static DL_INLINE double finish(double total, const FinishArgs& e) {
    const double divisor = e.count - e.p;
    return total / (divisor > 0 ? divisor : 0);
  }
};
struct Deviation : SquaredDistances {
  static DL_INLINE double finish(double total, const FinishArgs& e) {
    return std::sqrt(Variance::finish(total, e));
  }
};

struct Norm0 : Count, GiveTotal {};
struct Norm1 : AddTerms, TakeMagnitude, GiveTotal {};
struct Norm2 : AddTerms {
  template <typename N>
  static DL_INLINE N term(N x, const TermArgs<N>&) {
    return x * x;
  }
  static DL_INLINE double finish(double total, const FinishArgs&) { return std::sqrt(total); }
};
struct NormLargest : KeepLarger, TakeMagnitude, GiveTotal {
  template <typename N>
  static DL_INLINE N identity() {
    return N(0);
  }
};
struct NormSmallest : KeepSmaller, TakeMagnitude, GiveTotal {};
struct NormP : AddTerms {
  template <typename N>
  static DL_INLINE N term(N x, const TermArgs<N>& args) {
    return pow_of(abs_of(x), args.p);
  }
  static DL_INLINE double finish(double total, const FinishArgs& e) {
    return std::pow(total, 1.0 / e.p);
  }
};

// The formula for which the loops of F's row are compiled.
template <typename F>
struct LoopOfRow {
  using Type = F;
};
template <typename F>
  requires requires { typename F::Loop; }
struct LoopOfRow<F> {
  using Type = typename F::Loop;
};
template <typename F>
using LoopOf = typename LoopOfRow<F>::Type;

}  // namespace DL_FORMULAS_NAMESPACE
#undef DL_INLINE
#undef DL_FORMULAS_NAMESPACE
