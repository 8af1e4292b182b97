#include "collectives/join/meet/unique_id.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "collectives/call/descriptor.h"
#include "collectives/join/making_wait.h"
#include "collectives/join/meet/absent.h"
#include "collectives/join/meet/exchange.h"
#include "core/base/error.h"
#include "core/base/mutex.h"
#include "rendezvous/net/connect/race.h"
#include "rendezvous/net/socket/socket.h"
#include "rendezvous/net/wire.h"

namespace dl {
namespace collectives::meet {
namespace {

using rendezvous::Address;
using rendezvous::Endpoint;
using rendezvous::JobKey;
using rendezvous::Listener;

// docs/protocol.md, "Meeting of ranks", has the layout.
constexpr std::string_view kMagic = "DLid";
constexpr std::uint8_t kIdVersion = 1;
constexpr std::size_t kSumBytes = 8;
constexpr std::uint8_t kIpv4 = 4, kIpv6 = 6;

using Bytes = std::array<std::uint8_t, 128>;

// Finds accidents, not attacks: the secret does that.
std::uint64_t sum_of(const Bytes& bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              bytes.size() - kSumBytes);
  return hash_of_group(text, kIdVersion);
}

std::span<const std::uint8_t> raw_address(const Address& address) {
  if (address.family() == AF_INET) {
    const auto* const ip = reinterpret_cast<const sockaddr_in*>(address.data());
    return {reinterpret_cast<const std::uint8_t*>(&ip->sin_addr), 4};
  }
  const auto* const ip = reinterpret_cast<const sockaddr_in6*>(address.data());
  return {reinterpret_cast<const std::uint8_t*>(&ip->sin6_addr), 16};
}

std::string host_of(std::span<const std::uint8_t> raw) {
  char text[INET6_ADDRSTRLEN]{};
  ::inet_ntop(raw.size() == 4 ? AF_INET : AF_INET6, raw.data(), text, sizeof text);
  return text;
}

struct Contents {
  std::vector<Endpoint> ways;
  JobKey key;
};

Contents contents_of(const UniqueId& id) {
  rendezvous::WireReader reader(id.bytes);
  const auto magic = reader.take_bytes(kMagic.size());
  DL_CHECK(std::equal(magic.begin(), magic.end(), kMagic.begin()), kInvalidArgument,
           "these 128 bytes are no id of dlrun; rank 0 makes one, and the others need the same "
           "bytes");
  const auto version = reader.take<std::uint8_t>();
  DL_CHECK(version == kIdVersion, kInvalidArgument,
           "the id has version {}, wanted {}; install the same dlrun everywhere", version,
           kIdVersion);
  std::uint64_t sum = 0;
  std::memcpy(&sum, id.bytes.data() + id.bytes.size() - kSumBytes, sizeof sum);
  DL_CHECK(le64toh(sum) == sum_of(id.bytes), kInvalidArgument,
           "the id is damaged: its check sum is wrong; pass its 128 bytes on unchanged");
  const auto raw_key = reader.take_bytes(JobKey::kBytes);
  std::string hex;
  for (const std::uint8_t byte : raw_key) hex += fmt::format("{:02x}", byte);
  Contents contents{.ways = {}, .key = JobKey::from_hex(hex)};
  ::explicit_bzero(hex.data(), hex.size());
  const auto port = reader.take<std::uint16_t>();
  const auto count = reader.take<std::uint8_t>();
  for (int i = 0; i < count; ++i) {
    const auto family = reader.take<std::uint8_t>();
    contents.ways.push_back({host_of(reader.take_bytes(family == kIpv4 ? 4 : 16)), port});
  }
  DL_CHECK(!contents.ways.empty(), kInvalidArgument, "the id has no address");
  return contents;
}

// The listeners of ids that are not used yet; never destroyed.
Mutex ids_mutex;
std::map<Bytes, Listener>* ids DL_GUARDED_BY(ids_mutex) = nullptr;

Listener take_listener(const UniqueId& id) {
  const Lock lock(ids_mutex);
  DL_CHECK(ids != nullptr && ids->contains(id.bytes), kInvalidArgument,
           "this process has not made the id, or has used it already; the process that is rank 0 "
           "makes an id for each group");
  return std::move(ids->extract(id.bytes).mapped());
}

}  // namespace

Reachable listen_for_hosts(const std::string& iface) {
  std::vector<Address> addresses =
      iface.empty() ? rendezvous::host_addresses() : rendezvous::interface_addresses(iface);
  std::erase_if(addresses, [](const Address& address) { return address.is_link_local(); });
  if (addresses.empty()) addresses = rendezvous::resolve({"127.0.0.1", 0}, Deadline::never());
  rendezvous::put_ipv4_first(addresses);
  // A port of all interfaces is the same at each address.
  rendezvous::ListenOptions where;
  if (addresses.size() == 1) where.host = addresses.front().host();
  return {std::make_unique<Listener>(Listener::bind(where)), std::move(addresses)};
}

JobKey key_of(const UniqueId& id) {
  return contents_of(id).key;
}

void forget_id(const UniqueId& id) {
  static_cast<void>(contents_of(id));
  const Lock lock(ids_mutex);
  if (ids != nullptr) ids->erase(id.bytes);
}

std::string to_hex(const UniqueId& id) {
  std::string text;
  for (const std::uint8_t byte : id.bytes) text += fmt::format("{:02x}", byte);
  return text;
}

UniqueId id_of_hex(const std::string& text) {
  UniqueId id;
  bool is_hex = text.size() == 2 * id.bytes.size();
  for (std::size_t i = 0; is_hex && i < id.bytes.size(); ++i) {
    const char* const begin = text.data() + 2 * i;
    is_hex = std::from_chars(begin, begin + 2, id.bytes[i], 16).ptr == begin + 2;
  }
  DL_CHECK(is_hex, kParse, "an id is {} hexadecimal digits, got {} characters", 2 * id.bytes.size(),
           text.size());
  return id;
}

std::unique_ptr<Exchange> meet_by_id(const UniqueId& id, ExchangeOptions options,
                                     Deadline deadline) {
  const Contents contents = contents_of(id);
  options.tells_dlrun = true;
  if (options.rank == 0) {
    std::vector<Listener> listeners;
    listeners.push_back(take_listener(id));
    return std::make_unique<Host>(options, std::move(listeners));
  }
  const int rank_0 = options.job_ranks.empty() ? -1 : options.job_ranks.front();
  ToldWait told(options.group);
  try {
    rendezvous::Way way = rendezvous::connect_by_a_way(
        contents.ways, 0, "rank 0", options.hello, options.key, deadline,
        {.has_listened = true, .check = [&] { told.tell(rank_0); }});
    return std::make_unique<Guest>(options, std::move(way.connection));
  } catch (const Error& error) {
    const std::string seconds = seconds_text(options.timeout);
    if (error.kind() == ErrorKind::kTimeout) {
      throw_blaming(rank_0, Blame::kMissing, ErrorKind::kTimeout,
                    "group '{}': {} has not come within {} s ({})", options.group,
                    ranks_text(options, {0}), seconds, error.what());
    }
    if (error.kind() == ErrorKind::kConnection) {
      throw_blaming(rank_0, Blame::kGone, ErrorKind::kConnection,
                    "group '{}': {} is gone, or does not expect a rank any more ({})",
                    options.group, ranks_text(options, {0}), error.what());
    }
    throw;
  }
}

}  // namespace collectives::meet

UniqueId make_unique_id(const std::string& iface) {
  using namespace collectives::meet;
  Reachable reachable = listen_for_hosts(iface);
  const JobKey key = JobKey::generate();
  rendezvous::WireWriter writer;
  UniqueId id;
  writer.put_bytes({reinterpret_cast<const std::uint8_t*>(kMagic.data()), kMagic.size()});
  writer.put(kIdVersion);
  writer.put_bytes(key.bytes());
  writer.put(reachable.listener->port());
  std::vector<std::span<const std::uint8_t>> fitting;
  std::size_t left = id.bytes.size() - kSumBytes - writer.bytes().size() - 1;
  for (const Address& address : reachable.addresses) {
    const auto raw = raw_address(address);
    if (raw.size() + 1 > left) continue;
    left -= raw.size() + 1;
    fitting.push_back(raw);
  }
  writer.put(static_cast<std::uint8_t>(fitting.size()));
  for (const auto raw : fitting) {
    writer.put(raw.size() == 4 ? kIpv4 : kIpv6);
    writer.put_bytes(raw);
  }
  std::ranges::copy(writer.bytes(), id.bytes.begin());
  const std::uint64_t sum = htole64(sum_of(id.bytes));
  std::memcpy(id.bytes.data() + id.bytes.size() - kSumBytes, &sum, sizeof sum);
  const Lock lock(ids_mutex);
  if (ids == nullptr) ids = new std::map<Bytes, Listener>();
  ids->emplace(id.bytes, std::move(*reachable.listener));
  return id;
}

}  // namespace dl
