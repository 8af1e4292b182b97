// Exchange: ranks that have no group yet give each other a line of bytes, round by round. One rank,
// the host, collects the lines of the others, its guests, and sends all of them the table.
//
// Every rank of an exchange calls all_gather() equally often. A rank that cannot go on destroys its
// Exchange, and the others' calls end with an error. One thread at a time.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/join/meet/frames.h"
#include "collectives/join/round_store.h"
#include "collectives/waiting/group_error.h"
#include "rendezvous/net/connect/acceptor.h"

namespace dl::collectives::meet {

struct ExchangeOptions {
  std::string group{};  // for texts
  int rank = 0;
  int size = 1;
  std::chrono::nanoseconds timeout{};  // for texts
  std::vector<std::string> names{};    // of the ranks, for texts; empty: "rank 3"
  // The ranks' numbers in the job, for errors. Empty: they are not known. If the group is the whole
  // job, an element is -1 until its rank has told its number.
  std::vector<int> job_ranks{};
  // Whether dlrun hears of a long wait, and ends the job if the awaited rank has ended. Needs
  // `job_ranks`.
  bool tells_dlrun = false;
  // Ends the text about ranks that have not come.
  std::string_view hint = "is it started, with the same world size and the same store or id?";
  rendezvous::JobKey key;
  // Both ends' texts and checks; its purpose tells apart what meets here.
  rendezvous::Hello hello{};
};

class Exchange {
 public:
  virtual ~Exchange() = default;
  // The lines of all ranks, by rank. Throws kTimeout naming the ranks that are missing, kPeerFailed
  // if a rank has left, and kMismatch if the ranks disagree about their number.
  virtual std::vector<std::string> all_gather(std::string_view line, Deadline deadline) = 0;
  // Between two calls, without waiting: throws if a rank has left.
  virtual void check() = 0;
};

class Host final : public Exchange {
 public:
  // Accepts guests as long as it lives.
  Host(ExchangeOptions options, std::vector<rendezvous::Listener> listeners);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  std::vector<std::string> all_gather(std::string_view line, Deadline deadline) override;
  void check() override;

  // The steps of all_gather(), for a host that does not wait for all ranks. ----------------------
  struct Lost {
    int rank;
    std::string why;
    std::optional<Cause> said;  // the guest's reason, if it gave one
  };
  // Waits until something happens, also to the descriptors of `others`, whose results it sets.
  // Returns the guests that have left; they may come again.
  std::vector<Lost> step(std::span<pollfd> others, Deadline until);
  const ExchangeOptions& options() const noexcept { return options_; }
  // A guest's line of this round.
  const std::optional<std::string>& line_of(int rank) const { return at(rank).line; }
  // Sends all guests the table, and begins the next round. A guest that does not take it is noticed
  // by the next step().
  void publish(const std::vector<std::string>& lines, Deadline deadline);
  // Ends the exchange for all guests, with this error.
  void fail(Cause cause) noexcept;
  // Goes on with these ranks only, numbered in this order.
  void narrow(const std::vector<int>& ranks);
  // The guests that have sent no line and are not excused. A guest that came and left again is
  // named only if no other is missing.
  std::vector<int> missing() const;
  // missing() as text: "ranks 2 and 5 of 8".
  std::string missing_text() const;
  // The rank is not waited for.
  void excuse(int rank) { guests_[static_cast<std::size_t>(rank)].is_excused = true; }

 private:
  struct Seat {
    std::unique_ptr<FrameSocket> socket;
    std::string from;
    std::optional<std::string> line;
    std::optional<Cause> said{};  // why it left
    bool is_excused = false;
    bool has_left = false;
    int in_job = -1;  // its rank in the job, as it says with its line
    // Another process that has come as this rank, while the first is there.
    std::unique_ptr<Seat> rival{};
  };
  const Seat& at(int rank) const { return guests_[static_cast<std::size_t>(rank)]; }
  void add(rendezvous::Connection connection);
  // Returns why the guest is lost; empty: it is not.
  std::string read(int rank, Seat& guest);
  // Throws kMismatch if two processes are this rank.
  void look_at_rival(int rank);
  void throw_if_lost(const std::vector<Lost>& lost) const;

  ExchangeOptions options_;
  std::vector<std::unique_ptr<rendezvous::Acceptor>> acceptors_;
  std::vector<Seat> guests_;  // by rank; the host's own is empty
  std::vector<Lost> lost_;
  std::uint32_t round_ = 0;
};

class Guest final : public Exchange {
 public:
  // `gone_fd`: readable once the host's process has ended; empty: the connection must tell.
  Guest(ExchangeOptions options, rendezvous::Connection host, UniqueFd gone_fd = {});

  std::vector<std::string> all_gather(std::string_view line, Deadline deadline) override;
  void check() override;
  // What the others are called in the host's error texts.
  const std::string& host() const noexcept { return host_; }
  // After all_gather() has thrown: true if that was because the host has gone.
  bool is_host_gone() const noexcept { return is_host_gone_; }
  void renumber(int rank, int size) {
    options_.rank = rank;
    options_.size = size;
  }

 private:
  void ask(Deadline deadline);
  // Throws the error, which the host is told, and so the other ranks.
  [[noreturn]] void give_up(const GroupError& error);
  [[noreturn]] void lose_host();

  ExchangeOptions options_;
  FrameSocket socket_;
  std::string host_;
  int host_in_job_;
  UniqueFd gone_fd_;
  std::uint32_t round_ = 0;
  bool is_host_gone_ = false;
};

// The store of a group that is made over an exchange.
class ExchangeStore final : public RoundStore {
 public:
  ExchangeStore(Exchange& exchange, const std::string& group)
      : RoundStore("group '" + group + "'"), exchange_(exchange) {}

 private:
  std::vector<std::string> gather(const std::string& line, Deadline deadline) override {
    return exchange_.all_gather(line, deadline);
  }
  Exchange& exchange_;
};

}  // namespace dl::collectives::meet
