#include "launcher/torch_store/query.h"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <utility>

namespace dl::launcher {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the protocol is read as it lies there");

struct Form {
  std::string_view name;
  // k a key, v a value, 4 a u32, 8 an i64, K a u64 n and n keys, P a u64 n and n pairs of key and
  // value
  std::string_view arguments;
};

constexpr std::uint8_t kFirstByteOfDlrun = 0x89;  // of its handshake

constexpr std::array<Form, kQueryKinds> kForms = {{{"VALIDATE", "4"},
                                                   {"SET", "kv"},
                                                   {"COMPARE_SET", "kvv"},
                                                   {"GET", "k"},
                                                   {"ADD", "k8"},
                                                   {"CHECK", "K"},
                                                   {"WAIT", "K"},
                                                   {"GETNUMKEYS", ""},
                                                   {"DELETE_KEY", "k"},
                                                   {"APPEND", "kv"},
                                                   {"MULTI_GET", "K"},
                                                   {"MULTI_SET", "P"},
                                                   {"CANCEL_WAIT", ""},
                                                   {"PING", "4"},
                                                   {"QUEUE_PUSH", "kv"},
                                                   {"QUEUE_POP", "k"},
                                                   {"QUEUE_LEN", "k"},
                                                   {"LIST_KEYS", ""},
                                                   {"BARRIER", "k8"}}};

const Form& form_of(QueryKind kind) {
  return kForms[static_cast<std::size_t>(kind)];
}

}  // namespace

std::string_view name_of(QueryKind kind) noexcept {
  return form_of(kind).name;
}

void QueryReader::feed(std::string_view bytes) {
  if (!error_.empty()) return;
  unread_.erase(0, std::exchange(at_, 0));
  unread_.append(bytes);
}

std::optional<Query> QueryReader::next() {
  if (!error_.empty() || (!begun_ && !begin())) return std::nullopt;
  while (!arguments_.empty()) {
    if (!read_argument(arguments_.front())) return std::nullopt;
    arguments_.remove_prefix(1);
  }
  if (query_.kind == QueryKind::kValidate) {
    if (query_.number != kValidation) {
      fail(fmt::format("it validates itself with {:#010x}, wanted {:#010x}", query_.number,
                       kValidation));
      return std::nullopt;
    }
    validated_ = true;
  }
  begun_ = false;
  query_bytes_ = 0;
  return std::exchange(query_, {});
}

bool QueryReader::begin() {
  if (at_ == unread_.size()) return false;
  const auto kind = static_cast<std::uint8_t>(unread_[at_]);
  if (!validated_ && kind == kFirstByteOfDlrun) {
    is_of_dlrun_ = true;
    return fail("it is a dlrun's, and the nodes of this job have met; that dlrun tries again");
  }
  if (!validated_ && kind != 0) {
    return fail(fmt::format("its first byte is {:#04x}, wanted 0x00 (VALIDATE)", kind));
  }
  if (kind >= kQueryKinds) return fail(fmt::format("query {} is not known", kind));
  if (validated_ && kind == 0) return fail("it validates itself twice");
  ++at_;
  query_.kind = static_cast<QueryKind>(kind);
  arguments_ = form_of(query_.kind).arguments;
  counted_ = false;
  begun_ = true;
  return true;
}

bool QueryReader::read_argument(char what) {
  switch (what) {
    case 'k':
      return read_text("key", kMostKeyBytes, query_.keys);
    case 'v':
      return read_text("value", kMostValueBytes, query_.values);
    case '4': {
      std::uint32_t number = 0;
      if (!read_number(number)) return false;
      query_.number = number;
      return true;
    }
    case '8':
      return read_number(query_.number);
    default:
      break;
  }
  if (!counted_) {
    if (!read_number(repetitions_)) return false;
    if (repetitions_ > kMostKeysInQuery) {
      return fail(fmt::format("{} has {} keys, wanted at most {}", name_of(query_.kind),
                              repetitions_, kMostKeysInQuery));
    }
    counted_ = true;
  }
  while (query_.keys.size() < repetitions_ ||
         (what == 'P' && query_.values.size() < repetitions_)) {
    const bool value = what == 'P' && query_.values.size() < query_.keys.size();
    if (!read_argument(value ? 'v' : 'k')) return false;
  }
  return true;
}

bool QueryReader::read_text(const char* what, std::size_t most, std::vector<std::string>& into) {
  std::uint64_t size = 0;
  if (unread_.size() - at_ < sizeof size) return false;
  std::memcpy(&size, unread_.data() + at_, sizeof size);
  if (size > most) {
    return fail(fmt::format("{} has a {} of {} bytes, wanted at most {}", name_of(query_.kind),
                            what, size, most));
  }
  if (query_bytes_ + size > kMostQueryBytes) {
    return fail(fmt::format("{} has more than {} bytes of keys and values", name_of(query_.kind),
                            kMostQueryBytes));
  }
  if (unread_.size() - at_ - sizeof size < size) return false;
  into.emplace_back(unread_, at_ + sizeof size, size);
  at_ += sizeof size + size;
  query_bytes_ += sizeof(std::string) + size;
  return true;
}

template <typename Number>
bool QueryReader::read_number(Number& into) {
  if (unread_.size() - at_ < sizeof into) return false;
  std::memcpy(&into, unread_.data() + at_, sizeof into);
  at_ += sizeof into;
  return true;
}

bool QueryReader::fail(std::string why) {
  error_ = std::move(why);
  unread_ = {};
  at_ = 0;
  query_ = {};
  query_bytes_ = 0;
  return false;
}

}  // namespace dl::launcher
