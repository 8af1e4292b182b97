#include "launcher/output/job/own_streams.h"

#include <sys/stat.h>
#include <unistd.h>

namespace dl::launcher {
namespace {

bool same_file(int a, int b) {
  struct stat first{}, second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

OwnStreams::OwnStreams(boost::asio::io_context& io, DiskThread& disk,
                       const std::function<void(LostStream)>& on_broken)
    : out_(io, disk, STDOUT_FILENO, [on_broken](int error) { on_broken({Stream::kOut, error}); }),
      own_err_(same_file(STDOUT_FILENO, STDERR_FILENO)
                   ? nullptr
                   : std::make_unique<Sink>(io, disk, STDERR_FILENO, [on_broken](int error) {
                       on_broken({Stream::kErr, error});
                     })) {}

std::vector<Sink*> OwnStreams::sinks() {
  if (!own_err_) return {&out_};
  return {&out_, own_err_.get()};
}

std::vector<const Sink*> OwnStreams::sinks() const {
  if (!own_err_) return {&out_};
  return {&out_, own_err_.get()};
}

std::vector<Stream> OwnStreams::streams_of(const Sink& sink) const {
  if (!own_err_) return {Stream::kOut, Stream::kErr};
  return {&sink == &out_ ? Stream::kOut : Stream::kErr};
}

std::string OwnStreams::name_of(const Sink& sink) const {
  if (!own_err_) return "dlrun's output";
  return &sink == &out_ ? "stdout" : "stderr";
}

}  // namespace dl::launcher
