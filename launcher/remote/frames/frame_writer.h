// FrameWriter: an agent's end of the connection to its frontend. It is a Channel that also takes
// the output of the agent's ranks, as long as the frontend gives credit for it.
//
// One thread; the io_context must outlive it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "launcher/output/frame.h"
#include "launcher/remote/frames/channel.h"

namespace dl::launcher::remote {

class FrameWriter : public FrameTaker {
 public:
  FrameWriter(boost::asio::io_context& io, UniqueFd in, UniqueFd out, Decoder decoder,
              Channel::Events events)
      : channel_(io, std::move(in), std::move(out), std::move(decoder), std::move(events)) {}

  bool has_room(Stream stream) const override { return of(stream).credit > 0; }
  void when_room(Stream stream, std::function<void()> ready) override {
    of(stream).waiting.push_back(std::move(ready));
  }
  void take(const Frame& frame) override;

  // To be called when the frontend has shown this many bytes.
  void give(Stream stream, std::uint32_t bytes);

  void send(const Value& value) { channel_.send(value); }
  std::size_t unsent() const { return channel_.unsent(); }

 private:
  struct Direction {
    std::int64_t credit = kFirstCredit;  // below zero: the last bytes of a dead rank need no credit
    std::vector<std::function<void()>> waiting;
  };
  Direction& of(Stream stream) { return streams_[static_cast<std::size_t>(stream)]; }
  const Direction& of(Stream stream) const { return streams_[static_cast<std::size_t>(stream)]; }

  Channel channel_;
  std::array<Direction, 2> streams_;
};

}  // namespace dl::launcher::remote
