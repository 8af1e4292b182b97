// Readers: convert an option's text to its value. A reader throws kInvalidArgument with a sentence
// that quotes the text and says what was wanted.
//
// Most stand in the option's row (option_table.cc). Those that need more than a line are here.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "launcher/cli/table/option_table.h"

namespace dl::launcher::read {

inline constexpr int kMost = 1'000'000;  // nodes, ranks or restarts

// For several readers.
int whole_number(std::string_view name, std::string_view text, int least, int most,
                 std::string_view else_wanted = "");
std::chrono::milliseconds seconds(std::string_view name, std::string_view text);
inline int number(const Typed& typed, int least, int most) {
  return whole_number(typed.name(), typed.value, least, most);
}
inline std::chrono::milliseconds seconds(const Typed& typed) {
  return seconds(typed.name(), typed.value);
}
// The words between the separators; empty ones too.
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trimmed(std::string_view text);
// Whether `word` is one of `words`, which blanks separate.
bool has_word(std::string_view words, std::string_view word);

// The words among N|gpu|cpu|auto: gpu, cpu and auto.
std::vector<std::string> words_among(std::string_view values);
// Whether the option takes one of some words, and nothing else: stop|keep.
bool takes_words_only(const OptionRow& row);

// A word that an option takes, and its meaning.
template <typename Value>
struct Word {
  std::string_view word;
  Value value;
};
// The value of the typed word. `words`: in the order in which the sentence names them.
template <typename Value, std::size_t N>
Value value_of(const Typed& typed, const Word<Value> (&words)[N]) {
  std::string wanted;
  for (const Word<Value>& one : words) {
    if (one.word == typed.value) return one.value;
    wanted += wanted.empty() ? "" : &one == &words[N - 1] ? " or " : ", ";
    wanted += one.word;
  }
  throw_error(ErrorKind::kInvalidArgument, "{} is `{}`, wanted {}", typed.name(), typed.value,
              wanted);
}
// The first word of this value.
template <typename Value, std::size_t N>
std::string word_of(Value value, const Word<Value> (&words)[N]) {
  for (const Word<Value>& one : words) {
    if (one.value == value) return std::string(one.word);
  }
  throw_error(ErrorKind::kInternal, "there is no word for a value of an option");
}

// Values as text, which the readers above read again.
std::string text_of(std::chrono::milliseconds time);
inline std::string text_of(int number) {
  return std::to_string(number);
}
inline std::string text_of(bool is_set) {
  return is_set ? "on" : "";
}
template <typename Value>
std::string text_of(const std::optional<Value>& value) {
  return value ? text_of(*value) : "";
}

// read_job.cc
void nproc_per_node(Options& options, const Typed& typed);
void export_variable(Options& options, const Typed& typed);
void timeout(Options& options, const Typed& typed);
void preempt_before(Options& options, const Typed& typed);
void preempt_wait(Options& options, const Typed& typed);
void signals_to_handle(Options& options, const Typed& typed);
void forward_signals(Options& options, const Typed& typed);
void start_method(Options& options, const Typed& typed);
void event_log_handler(Options& options, const Typed& typed);

// read_meeting.cc
void nnodes(Options& options, const Typed& typed);
void rdzv_backend(Options& options, const Typed& typed);
void rdzv_endpoint(Options& options, const Typed& typed);
void rdzv_conf(Options& options, const Typed& typed);
void master_addr(Options& options, const Typed& typed);

// read_hosts.cc
void hosts(Options& options, const Typed& typed);
void hostfile(Options& options, const Typed& typed);

// read_placement.cc
void rank_by(Options& options, const Typed& typed);
void map_by(Options& options, const Typed& typed);
std::string word_of_rank_by(rendezvous::RankBy rank_by);
std::string word_of_map_by(MapBy map_by);

// read_output.cc
void log_dir(Options& options, const Typed& typed);
void output_filename(Options& options, const Typed& typed);
void redirects(Options& options, const Typed& typed);
void tee(Options& options, const Typed& typed);
void local_ranks_filter(Options& options, const Typed& typed);
void line_prefix(Options& options, const Typed& typed);
void report_fd(Options& options, const Typed& typed);

// For an option without an effect, and for an option of which parse_options() only asks whether it
// was given.
void nothing(Options& options, const Typed& typed);

}  // namespace dl::launcher::read
