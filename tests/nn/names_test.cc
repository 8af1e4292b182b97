// A program that says `using namespace dl;` defines names of its own. Those below were dlrun's
// once, or are what programs call their own things; each is used here without its namespace.
#include <dlrun.h>
#include <gtest/gtest.h>

using namespace dl;

// clang-format off
#define NAMES_OF_TYPES(row)                                                                     \
  row(Activation) row(AutocastPolicy) row(BackwardContext) row(BinaryFacts) row(BinaryFn)       \
  row(Context) row(CudaKernel) row(Deadline) row(Edge) row(Engine) row(Entry) row(ExtremeFn)    \
  row(Facts) row(Field) row(Gives) row(GradFailed) row(GradReady) row(GradTarget)               \
  row(Gradient) row(Graph) row(Index) row(Item) row(Kind) row(Layer) row(LeafNode) row(Loop)    \
  row(Model) row(Node) row(NodeIndex) row(Op) row(Options) row(Parameters) row(EmptyInput)      \
  row(Pivot) row(Point) row(ReduceFn) row(Reduced) row(ReductionFacts) row(Result) row(Row)     \
  row(Sample) row(Saves) row(State) row(Step) row(Takes) row(Task) row(TernaryFn) row(Token)    \
  row(UnaryFacts) row(UnaryFn) row(Unique) row(Value) row(View) row(Worker)
// clang-format on

#define DEFINE_TYPE(Name) \
  struct Name {           \
    int mine = 1;         \
  };
NAMES_OF_TYPES(DEFINE_TYPE)
#undef DEFINE_TYPE

constexpr int kInfinity = 1;
constexpr int kUnaryFacts = 1;

template <typename To, typename From>
To convert(From value) {
  return static_cast<To>(value);
}
template <typename To, typename From>
To truncated(From value) {
  return static_cast<To>(value);
}
template <typename... Values>
int listed(Values... values) {
  return static_cast<int>(sizeof...(values));
}
int facts(int value) {
  return value;
}
template <typename Condition, typename Lock, typename End, typename Done>
bool wait_until(Condition&, Lock&, End, const Done& done) {
  return done();
}

TEST(Names, OfAUsersOwnTypesStayTheUsers) {
  int defined = 0;
  int used = 0;
#define USE_TYPE(Name)  \
  {                     \
    const Name value;   \
    used += value.mine; \
    ++defined;          \
  }
  NAMES_OF_TYPES(USE_TYPE)
#undef USE_TYPE
  EXPECT_EQ(used, defined);
}

TEST(Names, OfAUsersOwnFunctionsStayTheUsers) {
  EXPECT_EQ(dl::detail::convert<int>(1.5), 1);
  EXPECT_EQ(truncated<int>(2.5F), 2);
  EXPECT_EQ(listed(1, 2, 3), 3);
  EXPECT_EQ(facts(kInfinity + kUnaryFacts), 2);
  int any = 0;
  EXPECT_TRUE(wait_until(any, any, any, [] { return true; }));
}

TEST(Names, OfDlrunStandBesideThem) {
  const Tensor x = ones(2, 3);
  nn::Linear layer(3, 1);
  EXPECT_EQ(layer(x).sizes(), (Shape{2, 1}));
  EXPECT_EQ(unique(tensor({2, 1, 2})).values.numel(), 2);
  EXPECT_EQ(x.softmax(-1).sum().item<float>(), 2);
}
