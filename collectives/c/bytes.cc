// The C interface's byte strings, and what the job's ranks agree on.
#include <algorithm>
#include <string_view>

#include "collectives/c/dl_comm.h"
#include "collectives/c/handles.h"
#include "collectives/compose/objects.h"
#include "collectives/init/checkpoint/checkpoint.h"
#include "collectives/init/init.h"

using namespace dl::collectives;
using dl::collectives::c::group_of;
using dl::collectives::c::guarded;
using dl::collectives::c::time_of;

namespace {

std::string_view view(const void* data, size_t size) {
  DL_CHECK(data != nullptr || size == 0, kInvalidArgument, "dl_comm: {} bytes at NULL", size);
  return {static_cast<const char*>(data), size};
}

// Runs `exchange(group, options)`, which returns strings.
template <typename Exchange>
dl_status exchange_bytes(dl_comm* comm, double timeout_s, dl_bytes** result,
                         const Exchange& exchange) {
  return guarded([&] {
    DL_CHECK(result != nullptr, kInvalidArgument, "dl_comm: the place for the bytes is NULL");
    auto bytes = std::make_unique<dl_bytes>();
    bytes->strings = exchange(group_of(comm), CallOptions{.timeout = time_of(timeout_s)});
    *result = bytes.release();
  });
}

}  // namespace

dl_status dl_all_gather_bytes(dl_comm* comm, const void* data, size_t size, double timeout_s,
                              dl_bytes** all) {
  return exchange_bytes(comm, timeout_s, all, [&](ProcessGroup& group, const CallOptions& call) {
    return all_gather_bytes(group, view(data, size), call);
  });
}

dl_status dl_gather_bytes(dl_comm* comm, const void* data, size_t size, int root, double timeout_s,
                          dl_bytes** all) {
  return exchange_bytes(comm, timeout_s, all, [&](ProcessGroup& group, const CallOptions& call) {
    return gather_bytes(group, view(data, size), root, call);
  });
}

dl_status dl_broadcast_bytes(dl_comm* comm, const void* data, size_t size, int root,
                             double timeout_s, dl_bytes** bytes) {
  return exchange_bytes(comm, timeout_s, bytes, [&](ProcessGroup& group, const CallOptions& call) {
    const bool is_root = group.rank() == root;
    return std::vector{
        broadcast_bytes(group, is_root ? view(data, size) : std::string_view(), root, call)};
  });
}

dl_status dl_scatter_bytes(dl_comm* comm, const void* const* parts, const size_t* sizes, int root,
                           double timeout_s, dl_bytes** bytes) {
  return exchange_bytes(comm, timeout_s, bytes, [&](ProcessGroup& group, const CallOptions& call) {
    std::vector<std::string> all;
    if (group.rank() == root) {
      DL_CHECK(parts != nullptr && sizes != nullptr, kInvalidArgument,
               "dl_scatter_bytes: parts or sizes is NULL on the root");
      for (int r = 0; r < group.size(); ++r) all.emplace_back(view(parts[r], sizes[r]));
    }
    return std::vector{scatter_bytes(group, all, root, call)};
  });
}

size_t dl_bytes_count(const dl_bytes* bytes) {
  return bytes == nullptr ? 0 : bytes->strings.size();
}

const void* dl_bytes_data(const dl_bytes* bytes, size_t which, size_t* size) {
  const bool has_it = which < dl_bytes_count(bytes);
  if (size != nullptr) *size = has_it ? bytes->strings[which].size() : 0;
  return has_it ? bytes->strings[which].data() : nullptr;
}

void dl_bytes_free(dl_bytes* bytes) {
  delete bytes;
}

dl_status dl_should_checkpoint(int* should) {
  return guarded([&] {
    DL_CHECK(should != nullptr, kInvalidArgument, "dl_should_checkpoint: should is NULL");
    *should = dl::should_checkpoint() ? 1 : 0;
  });
}

dl_status dl_agree(const char* name, int flag, double patience_s, int* agreed, int* ranks,
                   size_t room, size_t* missing) {
  return guarded([&] {
    DL_CHECK(name != nullptr && agreed != nullptr, kInvalidArgument,
             "dl_agree: name or agreed is NULL");
    const auto patience = time_of(patience_s).value_or(std::chrono::nanoseconds(0));
    const Agreement agreement = dl::agree(name, flag != 0, patience);
    *agreed = agreement.flag ? 1 : 0;
    if (missing != nullptr) *missing = agreement.missing.size();
    const size_t shown = ranks == nullptr ? 0 : std::min(room, agreement.missing.size());
    std::copy_n(agreement.missing.begin(), shown, ranks);
  });
}
