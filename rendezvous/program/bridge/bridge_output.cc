#include "rendezvous/program/bridge/bridge_output.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/error.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

std::string to_json_line(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(message, &line, options);
  DL_CHECK(status.ok(), kInternal, "a message cannot be written as JSON: {}", status.ToString());
  return line + "\n";
}

}  // namespace

void BridgeOutput::put(const pb::ToNode& message) {
  const Lock lock(mutex_);
  if (told_) return;
  if (message.has_generation()) {
    joining_ = false;
    running_ = true;
  }
  if (message.has_failed() || message.has_all_done()) joining_ = running_ = false;
  told_ = message.has_refused() || message.has_error();
  if (message.has_waiting()) {
    last_waiting_ = fmt::format("waiting for {}", fmt::join(message.waiting().missing(), ", "));
    if (joining_ && asked_) return;  // the error contains it
  }
  std::string line = to_json_line(message);
  std::string_view rest = line;
  while (!rest.empty() && !reader_gone_) {
    const ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) reader_gone_ = true;
    if (n > 0) rest.remove_prefix(static_cast<std::size_t>(n));
  }
}

void BridgeOutput::put_error(std::string_view kind, const std::string& text) {
  pb::ToNode message;
  message.mutable_error()->set_kind(std::string(kind));
  message.mutable_error()->set_text(text);
  put(message);
}

void BridgeOutput::begin_join() {
  const Lock lock(mutex_);
  joining_ = true;
  asked_ = false;
  last_waiting_.clear();
}

bool BridgeOutput::is_joining() const {
  const Lock lock(mutex_);
  return joining_;
}

// Under mutex_.
std::string BridgeOutput::late_text() const {
  return fmt::format("the other nodes did not join within {} s{}{}", timeout_.count(),
                     last_waiting_.empty() ? "" : ": ", last_waiting_);
}

bool BridgeOutput::end_late_join() {
  std::string late;
  {
    const Lock lock(mutex_);
    if (!asked_) {
      asked_ = true;
      return false;
    }
    late = late_text();
  }
  put_error(name_of(ErrorKind::kTimeout), late);
  return true;
}

void BridgeOutput::on_missing_named() {
  std::string late;
  {
    const Lock lock(mutex_);
    if (joining_ && asked_) late = late_text();
  }
  if (!late.empty()) put_error(name_of(ErrorKind::kTimeout), late);
}

bool BridgeOutput::is_part_of_job() const {
  const Lock lock(mutex_);
  return (joining_ || running_) && !told_;
}

bool BridgeOutput::has_told() const {
  const Lock lock(mutex_);
  return told_;
}

bool BridgeOutput::is_over() const {
  const Lock lock(mutex_);
  return reader_gone_ || told_;
}

}  // namespace dl::rendezvous
