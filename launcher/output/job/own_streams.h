// OwnStreams: dlrun's stdout and stderr. If both are one file, they are one Sink, so that lines
// keep their order.
//
// One thread; DiskThread and io_context must outlive it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/output/frame.h"
#include "launcher/output/logs/disk_thread.h"
#include "launcher/output/sink.h"

namespace dl::launcher {

// One of dlrun's own streams that cannot be written any more.
struct LostStream {
  Stream stream = Stream::kOut;
  int error = 0;  // an errno value
};

class OwnStreams {
 public:
  // `on_broken` is called once for each Sink that cannot be written any more.
  OwnStreams(boost::asio::io_context& io, DiskThread& disk,
             const std::function<void(LostStream)>& on_broken);

  Sink& out() { return out_; }
  Sink& err() { return own_err_ ? *own_err_ : out_; }
  Sink& of(Stream stream) { return stream == Stream::kOut ? out_ : err(); }
  const Sink& out() const { return out_; }
  const Sink& of(Stream stream) const {
    return stream == Stream::kOut || !own_err_ ? out_ : *own_err_;
  }
  bool are_one() const { return !own_err_; }
  // One or two.
  std::vector<Sink*> sinks();
  std::vector<const Sink*> sinks() const;

  // The streams that this Sink writes, and a name for them in a sentence.
  std::vector<Stream> streams_of(const Sink& sink) const;
  std::string name_of(const Sink& sink) const;

 private:
  Sink out_;
  std::unique_ptr<Sink> own_err_;  // null: stdout and stderr are one file
};

}  // namespace dl::launcher
