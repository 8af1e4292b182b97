#include "examples/support/training/report/fingerprint.h"

#include <fmt/ranges.h>
#include <openssl/evp.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace dl::examples {

static_assert(std::endian::native == std::endian::little,
              "values are hashed as they lie in memory");

Sha256 fingerprint(const nn::StateDict& parameters) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  for (const auto& [name, tensor] : parameters) {
    const Tensor values = tensor.cpu().to(DType::kF32).contiguous();
    ok = ok && EVP_DigestUpdate(context.get(), name.data(), name.size()) == 1 &&
         EVP_DigestUpdate(context.get(), values.data_ptr(), values.nbytes()) == 1;
  }
  Sha256 hash{};
  ok = ok && EVP_DigestFinal_ex(context.get(), hash.data(), nullptr) == 1;
  DL_CHECK(ok, kInternal, "OpenSSL could not compute a SHA-256");
  return hash;
}

std::string hex(const Sha256& hash) {
  return fmt::format("{:02x}", fmt::join(hash, ""));
}

void require_equal_on_all_ranks(const Sha256& hash, collectives::ProcessGroup& group) {
  std::vector<Sha256> all(static_cast<std::size_t>(group.size()));
  group
      .all_gather(
          {.input = hash.data(), .output = all.data(), .count = hash.size(), .dtype = DType::kU8})
      ->wait();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    DL_CHECK(all[rank] == all[0], kMismatch,
             "rank {} ended with other parameters than rank 0: sha256 {} and {}", rank,
             hex(all[rank]), hex(all[0]));
  }
}

}  // namespace dl::examples
