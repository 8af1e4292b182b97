// Readers of the options for the CPUs and GPUs of a node's ranks.
#include <algorithm>

#include "core/base/error.h"
#include "launcher/cli/table/readers.h"

namespace dl::launcher::read {
namespace {

template <typename Value>
struct Word {
  std::string_view word;
  Value value;
};

// The value of the typed word. `words`: in the order in which the sentence names them.
template <typename Value, std::size_t N>
Value one_of(const Typed& typed, const Word<Value> (&words)[N]) {
  std::string wanted;
  for (const Word<Value>& one : words) {
    if (one.word == typed.value) return one.value;
    wanted += wanted.empty() ? "" : &one == &words[N - 1] ? " or " : ", ";
    wanted += one.word;
  }
  throw_error(ErrorKind::kInvalidArgument, "{} is `{}`, wanted {}", typed.name(), typed.value,
              wanted);
}

}  // namespace

void bind(Options& options, const Typed& typed) {
  constexpr Word<Bind> kWords[] = {{"none", Bind::kNone},
                                   {"core", Bind::kCore},
                                   {"even", Bind::kEven},
                                   {"numa", Bind::kNuma},
                                   {"socket", Bind::kSocket}};
  options.where.bind = one_of(typed, kWords);
}

void bind_to(Options& options, const Typed& typed) {
  constexpr Word<Bind> kWords[] = {{"none", Bind::kNone},
                                   {"core", Bind::kCore},
                                   {"numa", Bind::kNuma},
                                   {"socket", Bind::kSocket}};
  options.where.bind = one_of(typed, kWords);
}

void map_by(Options& options, const Typed& typed) {
  constexpr Word<MapBy> kWords[] = {{"slot", MapBy::kCore},
                                    {"core", MapBy::kCore},
                                    {"numa", MapBy::kNuma},
                                    {"socket", MapBy::kSocket}};
  options.where.map_by = one_of(typed, kWords);
}

void report_bindings(Options& options, const Typed&) {
  options.where.report_bindings = true;
}

void gpus_per_rank(Options& options, const Typed& typed) {
  options.where.gpus_per_rank = whole_number(typed.name(), typed.value, 1, 1024);
}

void gpu_policy(Options& options, const Typed& typed) {
  const std::string& policy = typed.value;
  DL_CHECK(policy == "keep" || policy == "scope" || policy == "leave", kInvalidArgument,
           "{} is `{}`, wanted keep, scope or leave", typed.name(), policy);
  options.where.gpu_policy = policy == "keep"    ? GpuPolicy::kKeep
                             : policy == "scope" ? GpuPolicy::kScope
                                                 : GpuPolicy::kLeave;
}

void virtual_local_rank(Options& options, const Typed&) {
  options.where.virtual_local_rank = true;
}

}  // namespace dl::launcher::read
