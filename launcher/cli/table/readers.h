// Readers: convert an option's text to its value, one function for each option (option_table.h
// names them). Each throws kInvalidArgument with a sentence that quotes the text and says what was
// wanted.
#pragma once

#include <chrono>
#include <string_view>

#include "launcher/cli/table/option_table.h"

namespace dl::launcher::read {

// Shared by several readers.
int whole_number(std::string_view name, std::string_view text, int least, int most,
                 std::string_view else_wanted = "");
std::chrono::milliseconds seconds(std::string_view name, std::string_view text);
// The words between the separators; empty ones too.
std::vector<std::string> split(std::string_view text, char separator);
std::string_view trimmed(std::string_view text);
// Whether `word` is one of `words`, which blanks separate.
bool has_word(std::string_view words, std::string_view word);

// read_job.cc
void nproc_per_node(Options& options, const Typed& typed);
void np(Options& options, const Typed& typed);
void role(Options& options, const Typed& typed);
void wdir(Options& options, const Typed& typed);
void export_variable(Options& options, const Typed& typed);
void grace(Options& options, const Typed& typed);
void linger(Options& options, const Typed& typed);
void timeout(Options& options, const Typed& typed);
void preempt(Options& options, const Typed& typed);
void preempt_usr2(Options& options, const Typed& typed);
void preempt_before(Options& options, const Typed& typed);
void preempt_wait(Options& options, const Typed& typed);
void max_restarts(Options& options, const Typed& typed);
void mpi(Options& options, const Typed& typed);
void signals_to_handle(Options& options, const Typed& typed);
void forward_signals(Options& options, const Typed& typed);
void monitor_interval(Options& options, const Typed& typed);
void start_method(Options& options, const Typed& typed);
void event_log_handler(Options& options, const Typed& typed);

// read_placement.cc
void bind(Options& options, const Typed& typed);
void bind_to(Options& options, const Typed& typed);
void map_by(Options& options, const Typed& typed);
void report_bindings(Options& options, const Typed& typed);
void gpus_per_rank(Options& options, const Typed& typed);
void gpu_policy(Options& options, const Typed& typed);
void virtual_local_rank(Options& options, const Typed& typed);

// read_meeting.cc
void nnodes(Options& options, const Typed& typed);
void node_rank(Options& options, const Typed& typed);
void rdzv_backend(Options& options, const Typed& typed);
void rdzv_endpoint(Options& options, const Typed& typed);
void rdzv_id(Options& options, const Typed& typed);
void rdzv_conf(Options& options, const Typed& typed);
void join_timeout(Options& options, const Typed& typed);
void key_file(Options& options, const Typed& typed);
void iface(Options& options, const Typed& typed);
void local_addr(Options& options, const Typed& typed);
void master_addr(Options& options, const Typed& typed);
void master_port(Options& options, const Typed& typed);

// read_hosts.cc
void hosts(Options& options, const Typed& typed);
void hostfile(Options& options, const Typed& typed);
void ssh(Options& options, const Typed& typed);

// read_output.cc
void log_dir(Options& options, const Typed& typed);
void redirects(Options& options, const Typed& typed);
void tee(Options& options, const Typed& typed);
void local_ranks_filter(Options& options, const Typed& typed);
void line_prefix(Options& options, const Typed& typed);
void no_prefix(Options& options, const Typed& typed);
void report_fd(Options& options, const Typed& typed);
void timestamp_output(Options& options, const Typed& typed);
void verbose(Options& options, const Typed& typed);
void dry_run(Options& options, const Typed& typed);
void json(Options& options, const Typed& typed);

// For an option without an effect, and for an option of which parse_options() only asks whether it
// was given.
void nothing(Options& options, const Typed& typed);

}  // namespace dl::launcher::read
