#include "collectives/join/roster.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "collectives/call/descriptor.h"
#include "collectives/join/making_wait.h"
#include "collectives/process/peer_process.h"
#include "collectives/waiting/group_error.h"
#include "core/base/error.h"
#include "core/base/log/log.h"
#include "rendezvous/net/patience.h"
#include "rendezvous/net/rank_list.h"

namespace dl::collectives {
namespace {

template <typename Number>
void read_number(std::string_view value, Number& number) {
  std::from_chars(value.data(), value.data() + value.size(), number);
}

std::string key_of(const RosterOptions& options, int rank) {
  return fmt::format("{}/{}", options.place, rank);
}

std::string here_key(int rank) {
  return fmt::format("here/{}", rank);
}

void check_record(const RosterOptions& options, const Record& own, const Record& theirs) {
  const std::string them = theirs.who.text();
  const std::string self = own.who.text();
  const auto require = [&](bool agrees, const auto& why) {
    if (agrees) return;
    throw_mismatch(theirs.who.in_job(), "group '{}': {}", options.group, why());
  };
  require(theirs.version == own.version, [&] {
    return fmt::format(
        "{} speaks protocol version {}, {} speaks {}; install the same dlrun everywhere", them,
        theirs.version, self, own.version);
  });
  require(theirs.size == own.size, [&] {
    return fmt::format("{} has a world size of {}, {} has {}; start all ranks with the same number",
                       them, theirs.size, self, own.size);
  });
  require(theirs.generation == own.generation, [&] {
    return fmt::format("{} belongs to generation {}, {} to {}", them, theirs.generation, self,
                       own.generation);
  });
  require(theirs.lanes == own.lanes, [&] {
    return fmt::format("{} wants {} sockets a peer for data, {} wants {}", them, theirs.lanes, self,
                       own.lanes);
  });
}

// A rank of the group as a rank in the job; -1: not known.
int job_rank_of(const RosterOptions& options, const Identity& self, int rank) {
  if (!options.job_ranks) return self.in_job() == self.rank ? rank : -1;
  return rendezvous::rank_in_job(*options.job_ranks, rank);
}

// For a rank that has not come, so that no record tells who it is.
std::string text_of(const RosterOptions& options, int rank) {
  return rendezvous::ranks_of({rank}, options.size, options.job_ranks);
}

// When to ask why a rank does not come: after half a second, and then ever more rarely. Often at
// first, so that ranks that cannot come to each other find it at about the same time.
class Looks {
 public:
  Deadline next() const noexcept { return next_; }
  bool is_due() const noexcept { return next_.has_passed(); }
  void looked() noexcept {
    if (++looks_ > kOften) pause_ = std::min(2 * pause_, kLongest);
    next_ = Deadline::after(pause_);
  }

 private:
  static constexpr int kOften = 20;
  static constexpr std::chrono::milliseconds kLongest{10'000};
  int looks_ = 0;
  std::chrono::milliseconds pause_{250};
  Deadline next_ = Deadline::after(2 * pause_);
};

}  // namespace

std::string Record::text() const {
  return fmt::format(
      "version={}\nsize={}\ngeneration={}\nlanes={}\naddress={}\nhost={}\npid={}\nnode={}\n"
      "known_as={}\njob_rank={}\nprocess={}\noffer={}\nplan={}\n",
      version, size, generation, lanes, address, who.host, who.pid, who.node, who.known_as,
      who.job_rank, who.process, offer, plan);
}

Record Record::parse(std::string_view text, int rank) {
  Record record;
  record.who.rank = rank;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, equals);
    const std::string_view value = line.substr(equals + 1);
    if (name == "version") read_number(value, record.version);
    if (name == "size") read_number(value, record.size);
    if (name == "generation") read_number(value, record.generation);
    if (name == "lanes") read_number(value, record.lanes);
    if (name == "address") record.address = value;
    if (name == "host") record.who.host = value;
    if (name == "pid") read_number(value, record.who.pid);
    if (name == "node") record.who.node = value;
    if (name == "known_as") read_number(value, record.who.known_as);
    if (name == "process") record.who.process = value;
    if (name == "job_rank") read_number(value, record.who.job_rank);
    if (name == "offer") record.offer = value;
    if (name == "plan") record.plan = value;
  }
  return record;
}

Identity this_process(int rank, const std::string& node) {
  std::array<char, 256> name{};
  const bool named = ::gethostname(name.data(), name.size() - 1) == 0;
  Identity self{
      .rank = rank, .host = named ? name.data() : "localhost", .pid = static_cast<int>(::getpid())};
  self.node = node.empty() ? boot_id() : node;
  if (self.node.empty()) self.node = self.host;
  self.process = process_mark();
  return self;
}

RosterOptions roster_of(const GroupOptions& options, std::string place) {
  return {.store = options.store,
          .place = std::move(place),
          .group = options.name,
          .rank = options.rank,
          .size = options.size,
          .timeout = options.connect_timeout,
          .all_announced = options.all_announced,
          .check_absent = options.check_absent};
}

Identity this_process(const GroupOptions& options) {
  Identity self = this_process(options.rank, options.node);
  self.known_as = options.known_as;
  self.job_rank = options.job_rank;
  return self;
}

rendezvous::JobKey open_key() {
  return rendezvous::JobKey::from_hex(std::string(2 * rendezvous::JobKey::kBytes, '0'));
}

void publish(const RosterOptions& options, const Record& own, Deadline deadline) {
  options.store->set(key_of(options, options.rank), own.text(), deadline);
}

void announce(const RosterOptions& options, Deadline deadline) {
  const Record own{.size = options.size, .who = this_process(options.rank, {})};
  options.store->set(here_key(options.rank), own.text(), deadline);
}

void check_alive(const std::string& group, const Identity& who) {
  if (!has_ended(who)) return;
  throw_blaming(who.in_job(), Blame::kGone, ErrorKind::kPeerFailed,
                "group '{}': {} is gone before the group was made; its own output may say why",
                group, who.text());
}

namespace {

// The ranks that have come so far, for stores in which all ranks call announce().
class Present {
 public:
  explicit Present(const RosterOptions& options)
      : options_(options), who_(static_cast<std::size_t>(options.size)) {}

  // Throws kPeerFailed if a rank has ended: the group cannot be made without it.
  void check_all_alive() {
    for (int r = 0; r < options_.size; ++r) {
      std::optional<Identity>& who = who_[static_cast<std::size_t>(r)];
      if (r == options_.rank) continue;
      if (!who) {
        const auto here = options_.store->try_get(here_key(r), Deadline::after(kAliveLook));
        if (here) who = Record::parse(*here, r).who;
      }
      if (who) check_alive(options_.group, *who);
    }
  }
  const std::optional<Identity>& of(int rank) const { return who_[static_cast<std::size_t>(rank)]; }

 private:
  const RosterOptions& options_;
  std::vector<std::optional<Identity>> who_;
};

}  // namespace

std::string await_value(const RosterOptions& options, const Identity& self, const std::string& key,
                        int rank, Deadline deadline) {
  rendezvous::Patience patience;
  Present present(options);
  // If the rank in the job is not known, as in an inner group, nothing is reported. Nothing is
  // lost: the outer group exists, so all ranks have come already.
  const int in_job = job_rank_of(options, self, rank);
  ToldWait told(options.group);
  // Ranks of an inner group have other numbers, and have all come.
  const bool looks = options.check_absent && self.known_as < 0;
  Looks look;
  for (;;) {
    Deadline until = patience.until(deadline);
    if (looks) until = Deadline::earlier(until, look.next());
    if (in_job >= 0) until = Deadline::earlier(until, told.at());
    if (options.all_announced) until = Deadline::earlier(until, Deadline::after(kAliveLook));
    try {
      return options.store->get(key, until);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
    }
    try {
      if (options.all_announced) present.check_all_alive();
    } catch (const Error&) {
      if (looks) options.check_absent(rank);  // it may say why the rank has ended
      throw;
    }
    if (looks && (look.is_due() || deadline.has_passed())) {
      options.check_absent(rank);
      look.looked();
    }
    if (deadline.has_passed()) {
      const std::string seconds = seconds_text(options.timeout);
      const std::optional<Identity>& who = present.of(rank);
      if (who) {
        throw_blaming(in_job, Blame::kMissing, ErrorKind::kTimeout,
                      "group '{}': {} has come, but did not continue within {} s; is it stopped?",
                      options.group, who->text(), seconds);
      }
      throw_blaming(
          in_job, Blame::kMissing, ErrorKind::kTimeout,
          "group '{}': {} has not come within {} s; is it started, with the same world size, group "
          "name and store?",
          options.group, text_of(options, rank), seconds);
    }
    told.tell(in_job);
    if (patience.should_warn()) {
      log::warning("group '{}': {} s waiting for {} to come", options.group,
                   patience.waited().count(), text_of(options, rank));
    }
  }
}

Record await_record(const RosterOptions& options, const Record& own, int rank, Deadline deadline) {
  Record theirs =
      Record::parse(await_value(options, own.who, key_of(options, rank), rank, deadline), rank);
  check_record(options, own, theirs);
  return theirs;
}

}  // namespace dl::collectives
