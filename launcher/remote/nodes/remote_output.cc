#include "launcher/remote/nodes/remote_output.h"

#include <chrono>
#include <utility>

#include "collectives/record/snapshot.h"

namespace dl::launcher::remote {
namespace {

// Bytes of output that are acknowledged in one message.
constexpr std::uint32_t kCreditPart = kFirstCredit / 8;

}  // namespace

void RemoteOutput::take(RemoteHost& from, const Output& output) {
  OfHost& host = of(from);
  if (output.is_last) {
    host.open.erase(output.id);
  } else {
    host.open.insert(output.id);
  }
  logs_.take(
      {.id = output.id,
       .time = std::chrono::system_clock::time_point(std::chrono::microseconds(output.time_us)),
       .bytes = output.bytes,
       .is_last = output.is_last});
  std::uint32_t& owed = host.flows[static_cast<std::size_t>(output.id.stream)].owed;
  owed += static_cast<std::uint32_t>(output.bytes.size());
  if (owed >= kCreditPart) give_credit(from, output.id.stream);
}

void RemoteOutput::give_credit(RemoteHost& host, Stream stream) {
  Flow& flow = of(host).flows[static_cast<std::size_t>(stream)];
  if (flow.waits_for_room) return;
  if (!logs_.has_room(stream)) {
    flow.waits_for_room = true;
    logs_.when_room(stream, [this, &host, &flow, stream] {
      flow.waits_for_room = false;
      give_credit(host, stream);
    });
    return;
  }
  if (flow.owed == 0) return;
  host.send(Credit{stream, std::exchange(flow.owed, 0)});
}

void RemoteOutput::end_streams_of(const RemoteHost& host) {
  for (const StreamId& id : std::exchange(of(host).open, {})) {
    logs_.take({.id = id, .time = std::chrono::system_clock::now(), .bytes = {}, .is_last = true});
  }
}

void RemoteOutput::keep(const RankFile& file) {
  if (!logs_.keep(file.attempt, file.rank, file.name, file.bytes)) return;
  has_recorders_ = has_recorders_ || file.name == collectives::record::kFileName;
}

}  // namespace dl::launcher::remote
