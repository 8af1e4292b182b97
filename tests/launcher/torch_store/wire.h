// What a client of PyTorch's TCPStore sends, for tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/torch_store/query.h"

namespace dl::launcher::wire {

template <typename Number>
std::string number(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}
inline std::string text(std::string_view bytes) {
  return number(std::uint64_t{bytes.size()}) + std::string(bytes);
}
inline std::string query(QueryKind kind, const std::string& arguments = "") {
  return static_cast<char>(kind) + arguments;
}
inline std::string hello() {
  return query(QueryKind::kValidate, number(kValidation));
}
inline std::string ping(std::uint32_t nonce) {
  return query(QueryKind::kPing, number(nonce));
}
inline std::string set(std::string_view key, std::string_view value) {
  return query(QueryKind::kSet, text(key) + text(value));
}
inline std::string get(std::string_view key) {
  return query(QueryKind::kGet, text(key));
}
inline std::string wait(std::string_view key) {
  return query(QueryKind::kWait, number(std::uint64_t{1}) + text(key));
}

}  // namespace dl::launcher::wire
