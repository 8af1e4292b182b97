// The C interface's groups over an id, or over a store of the caller's.
#include <algorithm>
#include <optional>

#include "collectives/c/dl_comm.h"
#include "collectives/c/handles.h"
#include "collectives/init/launch.h"
#include "collectives/init/make_group.h"
#include "core/base/deadline.h"

using namespace dl::collectives;
using dl::collectives::c::check_options_begin;
using dl::collectives::c::guarded;
using dl::collectives::c::time_of;

namespace {

// What make_group() needs of a store.
class CallersStore final : public dl::rendezvous::Store {
 public:
  explicit CallersStore(const dl_store& functions) : functions_(functions) {}

  void set(std::string_view key, std::string_view value, Deadline) override {
    check(functions_.set(functions_.context, std::string(key).c_str(), value.data(), value.size()),
          "set", key);
  }
  std::string get(std::string_view key, Deadline deadline) override {
    std::string value;
    const auto give = [](void* to, const void* data, size_t size) {
      static_cast<std::string*>(to)->assign(static_cast<const char*>(data), size);
    };
    const double seconds = std::chrono::duration<double>(deadline.left()).count();
    check(functions_.get(functions_.context, std::string(key).c_str(), seconds, give, &value),
          "get", key);
    return value;
  }
  std::optional<std::string> try_get(std::string_view, Deadline) override { refuse(); }
  void wait(std::span<const std::string>, Deadline) override { refuse(); }
  std::int64_t add(std::string_view, std::int64_t, Deadline) override { refuse(); }
  Swap compare_and_set(std::string_view, const std::optional<std::string>&, std::string_view,
                       Deadline) override {
    refuse();
  }
  void close(std::string_view) noexcept override {}

 private:
  static void check(dl_status status, std::string_view call, std::string_view key) {
    if (status == DL_OK) return;
    const auto kind = status > DL_OK && status <= DL_INTERNAL
                          ? static_cast<dl::ErrorKind>(status - 1)
                          : dl::ErrorKind::kInternal;
    dl::throw_error(kind, "the caller's store: {}('{}') failed ({})", call, key, dl::name_of(kind));
  }
  [[noreturn]] static void refuse() {
    dl::throw_error(dl::ErrorKind::kInternal, "the caller's store has only set and get");
  }

  const dl_store& functions_;
};

}  // namespace

dl_status dl_unique_id_make(const char* iface, dl_unique_id* id) {
  return guarded([&] {
    DL_CHECK(id != nullptr, kInvalidArgument, "dl_unique_id_make: id is NULL");
    const std::string where = iface != nullptr ? iface : find_job_place().iface;
    std::ranges::copy(dl::make_unique_id(where).bytes, id->bytes);
  });
}

dl_status dl_comm_make(const dl_comm_options* given, const dl_store* store, int with_job_key,
                       dl_comm** comm) {
  return guarded([&] {
    DL_CHECK(comm != nullptr, kInvalidArgument, "dl_comm_make: comm is NULL");
    DL_CHECK(store == nullptr || (store->set != nullptr && store->get != nullptr), kInvalidArgument,
             "dl_comm_make: a function of the store is NULL");
    check_options_begin(given, "dl_comm_make");
    std::optional<CallersStore> callers;
    dl::MakeGroupOptions options{.rank = given->rank, .size = given->size};
    if (given->name != nullptr) options.name = given->name;
    if (store != nullptr) options.store = &callers.emplace(*store);
    if (given->id != nullptr)
      std::ranges::copy(given->id->bytes, options.id.emplace().bytes.begin());
    if (given->job_ranks != nullptr && given->size > 0) {
      options.job_ranks.assign(given->job_ranks, given->job_ranks + given->size);
    }
    if (with_job_key != 0) options.key = dl::rendezvous::JobKey::require_from_environment();
    if (given->backend != nullptr) options.backend = given->backend;
    if (given->algorithm != nullptr) options.algorithm = given->algorithm;
    if (given->plan != nullptr) options.plan = given->plan;
    if (const auto timeout = time_of(given->timeout_s)) options.timeout = *timeout;
    auto made = std::make_unique<dl_comm>();
    made->set(dl::make_group(options));
    *comm = made.release();
  });
}
