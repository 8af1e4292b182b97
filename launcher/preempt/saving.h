// Saving: the requests to save and end, over all generations of one node. A request that comes
// between two generations, or that a failure has overtaken, is made in the next one.
//
// One thread: the event loop's. All constructor arguments must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/preempt/checkpointing.h"

namespace dl::launcher {

class Saving {
 public:
  // `patience`: the time for the ranks to call dl::should_checkpoint(); nullopt: the job cannot be
  // preempted.
  Saving(boost::asio::io_context& io, std::optional<std::chrono::milliseconds> patience)
      : io_(io), patience_(patience) {}

  // To be called before the ranks of a generation start.
  void begin_generation(std::vector<int> ranks, CheckpointEvents events);
  void end_generation();

  // To be called for the user's request; `why` is a clause, "SIGTERM".
  void ask(const std::string& why);
  // From now on requests in this generation do nothing.
  void announce_end();

  bool is_possible() const { return patience_.has_value(); }
  // True if all ranks of this node have saved in this generation.
  bool has_saved() const;
  // The request of the running generation; null: none runs, or the job cannot be preempted.
  Checkpointing* current() const { return current_.get(); }

 private:
  boost::asio::io_context& io_;
  std::optional<std::chrono::milliseconds> patience_;
  std::unique_ptr<Checkpointing> current_;
  std::optional<std::string> early_request_;  // for the generation that begins next, if one does
};

}  // namespace dl::launcher
