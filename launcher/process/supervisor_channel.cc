#include "launcher/process/supervisor_channel.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>

#include "core/base/error.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kMostFds = 8;
constexpr std::size_t kMostBytes = 128 * 1024;

class Writer {
 public:
  void number(std::uint32_t value) { bytes_.append(reinterpret_cast<const char*>(&value), 4); }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
  }
  void texts(const std::vector<std::string>& values) {
    number(static_cast<std::uint32_t>(values.size()));
    for (const std::string& value : values) text(value);
  }
  void numbers(const std::vector<std::int32_t>& values) {
    number(static_cast<std::uint32_t>(values.size()));
    for (const std::int32_t value : values) number(static_cast<std::uint32_t>(value));
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::uint32_t number() {
    std::uint32_t value;
    std::memcpy(&value, take(4).data(), 4);
    return value;
  }
  std::string text() { return std::string(take(number())); }
  std::vector<std::string> texts() {
    std::vector<std::string> values(count(4));
    for (std::string& value : values) value = text();
    return values;
  }
  std::vector<std::int32_t> numbers() {
    std::vector<std::int32_t> values(count(4));
    for (std::int32_t& value : values) value = static_cast<std::int32_t>(number());
    return values;
  }
  bool at_end() const { return rest_.empty(); }

 private:
  std::string_view take(std::size_t bytes) {
    DL_CHECK(bytes <= rest_.size(), kParse, "a message of the supervisor ends {} bytes too early",
             bytes - rest_.size());
    const std::string_view taken = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return taken;
  }
  // A number of entries for which the rest of the packet has room.
  std::size_t count(std::size_t least_bytes_each) {
    const std::size_t entries = number();
    DL_CHECK(entries <= rest_.size() / least_bytes_each, kParse,
             "a message of the supervisor says {} entries and has {} bytes", entries, rest_.size());
    return entries;
  }
  std::string_view rest_;
};

}  // namespace

Message signal_message(std::uint32_t slot, int signal) {
  Message message;
  message.kind = MessageKind::kSignal;
  message.slot = slot;
  message.number = signal;
  return message;
}

std::pair<UniqueFd, UniqueFd> make_channel() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw_errno(errno, "socketpair");
  }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

bool send_message(int channel, const Message& message) {
  DL_CHECK(message.fds.size() <= kMostFds, kInternal, "a message with {} descriptors",
           message.fds.size());
  Writer writer;
  writer.number(static_cast<std::uint32_t>(message.kind));
  writer.number(message.slot);
  writer.number(static_cast<std::uint32_t>(message.number));
  writer.text(message.text);
  writer.texts(message.argv);
  writer.texts(message.environment);
  writer.numbers(message.cpus);
  writer.numbers(message.fd_numbers);

  iovec data{const_cast<char*>(writer.bytes().data()), writer.bytes().size()};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))] = {};
  if (!message.fds.empty()) {
    const std::size_t bytes = message.fds.size() * sizeof(int);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(bytes);
    for (std::size_t i = 0; i < message.fds.size(); ++i) {
      const int fd = message.fds[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof fd);
    }
  }
  while (::sendmsg(channel, &header, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EPIPE || errno == ECONNRESET) return false;
    throw_errno(errno, "sending to the supervisor's channel");
  }
  return true;
}

Received receive_message(int channel, Message& message) {
  // The buffer has room for the largest message. Each process has one thread, so one buffer is
  // enough.
  static char bytes[kMostBytes];
  iovec data{bytes, sizeof bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))];
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = ::recvmsg(channel, &header, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n == 0 || (n < 0 && errno == ECONNRESET)) return Received::kClosed;
  if (n < 0 && errno == EAGAIN) return Received::kNothing;
  if (n < 0) throw_errno(errno, "receiving from the supervisor's channel");

  message = Message{};
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= part->cmsg_len; at += sizeof(int)) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + at, sizeof fd);
      message.fds.emplace_back(fd);
    }
  }
  DL_CHECK((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0, kParse,
           "a message of the supervisor's channel does not fit");
  Reader reader(std::string_view(bytes, static_cast<std::size_t>(n)));
  message.kind = static_cast<MessageKind>(reader.number());
  message.slot = reader.number();
  message.number = static_cast<std::int32_t>(reader.number());
  message.text = reader.text();
  message.argv = reader.texts();
  message.environment = reader.texts();
  message.cpus = reader.numbers();
  message.fd_numbers = reader.numbers();
  DL_CHECK(reader.at_end(), kParse, "a message of the supervisor has bytes behind its end");
  DL_CHECK(message.fds.size() == message.fd_numbers.size(), kParse,
           "a message of the supervisor brings {} descriptors and numbers {}", message.fds.size(),
           message.fd_numbers.size());
  return Received::kMessage;
}

}  // namespace dl::launcher
