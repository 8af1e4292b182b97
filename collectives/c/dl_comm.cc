#include "collectives/c/dl_comm.h"

#include <utility>

#include "collectives/c/handles.h"
#include "collectives/init/init.h"
#include "collectives/waiting/group_error.h"

namespace dl::collectives::c {
namespace {

static_assert(static_cast<int>(ErrorKind::kInvalidArgument) + 1 == DL_INVALID_ARGUMENT);
static_assert(static_cast<int>(ErrorKind::kTimeout) + 1 == DL_TIMEOUT);
static_assert(static_cast<int>(ErrorKind::kInternal) + 1 == DL_INTERNAL);
static_assert(kNoColor == DL_NO_COLOR);

thread_local std::string last_error;
thread_local int last_error_rank = -1;

}  // namespace

dl_status status_of_exception() noexcept {
  dl_status status = DL_INTERNAL;
  last_error_rank = -1;
  try {
    try {
      throw;
    } catch (const Error& error) {
      status = static_cast<dl_status>(static_cast<int>(error.kind()) + 1);
      last_error = error.what();
      last_error_rank = cause_of(std::current_exception()).rank;
    } catch (const std::exception& error) {
      last_error = error.what();
    } catch (...) {
      last_error = "an exception that is not a std::exception";
    }
  } catch (...) {
    last_error.clear();  // no memory for the text
  }
  return status;
}

std::optional<std::chrono::nanoseconds> time_of(double seconds) {
  DL_CHECK(seconds >= 0, kInvalidArgument, "timeout_s is {}, wanted 0 or more", seconds);
  if (seconds == 0) return std::nullopt;
  constexpr auto kMost = std::chrono::nanoseconds::max();
  const double nanoseconds = seconds * 1e9;
  if (nanoseconds >= static_cast<double>(kMost.count())) return kMost;
  return std::chrono::nanoseconds(static_cast<std::int64_t>(nanoseconds));
}

void check_options_begin(const dl_comm_options* options, std::string_view call) {
  DL_CHECK(options != nullptr, kInvalidArgument, "{}: the options are NULL", call);
  DL_CHECK(options->struct_size == sizeof *options, kInvalidArgument,
           "{}: struct_size is {}, wanted sizeof(dl_comm_options), {}; begin with "
           "DL_COMM_OPTIONS_INIT",
           call, options->struct_size, sizeof *options);
}

}  // namespace dl::collectives::c

using namespace dl::collectives;
using dl::collectives::c::check_options_begin;
using dl::collectives::c::group_of;
using dl::collectives::c::guarded;
using dl::collectives::c::time_of;

int dl_comm_version(void) {
  return DL_COMM_VERSION;
}

const char* dl_last_error(void) {
  return dl::collectives::c::last_error.c_str();
}

int dl_last_error_rank(void) {
  return dl::collectives::c::last_error_rank;
}

dl_status dl_comm_init(const char* init_method, int rank, int size, double timeout_s,
                       dl_comm** world) {
  return dl_comm_init_named(nullptr, init_method, rank, size, timeout_s, world);
}

dl_status dl_comm_init_named(const char* name, const char* init_method, int rank, int size,
                             double timeout_s, dl_comm** world) {
  dl_comm_options options = DL_COMM_OPTIONS_INIT;
  options.name = name;
  options.init_method = init_method;
  options.rank = rank;
  options.size = size;
  options.timeout_s = timeout_s;
  return dl_comm_init_options(&options, world);
}

dl_status dl_comm_init_options(const dl_comm_options* given, dl_comm** world) {
  return guarded([&] {
    DL_CHECK(world != nullptr, kInvalidArgument, "dl_comm_init: world is NULL");
    check_options_begin(given, "dl_comm_init_options");
    dl::ProcessGroupOptions options{.timeout = time_of(given->timeout_s)};
    const auto take = [](const char* text, std::string& to) {
      if (text != nullptr) to = text;
    };
    take(given->name, options.name);
    take(given->init_method, options.init_method);
    take(given->backend, options.backend);
    take(given->algorithm, options.algorithm);
    take(given->plan, options.plan);
    if (given->rank >= 0) options.rank = given->rank;
    if (given->size >= 0) options.world_size = given->size;
    auto comm = std::make_unique<dl_comm>();
    dl::init_process_group(options);
    comm->is_world = true;
    comm->set(dl::default_group());
    *world = comm.release();
  });
}

dl_status dl_comm_split(dl_comm* parent, int color, int key, dl_comm** part) {
  return guarded([&] {
    DL_CHECK(part != nullptr, kInvalidArgument, "dl_comm_split: part is NULL");
    auto comm = std::make_unique<dl_comm>();
    comm->set(group_of(parent).split({.color = color, .key = key}));
    *part = comm->group ? comm.release() : nullptr;
  });
}

dl_status dl_comm_split_by_node(dl_comm* parent, dl_comm** part) {
  return guarded([&] {
    DL_CHECK(part != nullptr, kInvalidArgument, "dl_comm_split_by_node: part is NULL");
    auto comm = std::make_unique<dl_comm>();
    comm->set(dl::split_by_node(group_of(parent)));
    *part = comm.release();
  });
}

dl_status dl_comm_reform(dl_comm* comm, double timeout_s, dl_comm** made) {
  return guarded([&] {
    DL_CHECK(made != nullptr, kInvalidArgument, "dl_comm_reform: made is NULL");
    auto anew = std::make_unique<dl_comm>();
    static_cast<void>(group_of(comm));
    anew->set(dl::reform(comm->group, time_of(timeout_s)));
    anew->is_world = std::exchange(comm->is_world, false);
    *made = anew.release();
  });
}

void dl_comm_destroy(dl_comm* comm) {
  if (comm == nullptr) return;
  const bool is_world = comm->is_world;
  delete comm;
  if (is_world) dl::destroy_process_group();
}

int dl_comm_rank(const dl_comm* comm) {
  return comm == nullptr ? -1 : comm->group->rank();
}

int dl_comm_size(const dl_comm* comm) {
  return comm == nullptr ? -1 : comm->group->size();
}

const char* dl_comm_backend(const dl_comm* comm) {
  return comm == nullptr ? "" : comm->backend.c_str();
}

const char* dl_comm_name(const dl_comm* comm) {
  return comm == nullptr ? "" : comm->name.c_str();
}

const char* dl_comm_plan(const dl_comm* comm) {
  return comm == nullptr ? "" : comm->plan.c_str();
}

void dl_comm_abort(dl_comm* comm, const char* reason) {
  if (comm != nullptr) comm->group->abort(reason == nullptr ? "no reason was given" : reason);
}

dl_status dl_comm_error(dl_comm* comm) {
  return guarded([&] {
    if (const std::exception_ptr cause = group_of(comm).error()) std::rethrow_exception(cause);
  });
}

dl_status dl_memory_allocate(dl_comm* comm, size_t bytes, dl_memory** memory) {
  return guarded([&] {
    DL_CHECK(memory != nullptr, kInvalidArgument, "dl_memory_allocate: memory is NULL");
    *memory = new dl_memory{group_of(comm).allocate_symmetric(bytes)};
  });
}

dl_status dl_memory_register(dl_comm* comm, void* data, size_t bytes, dl_memory** memory) {
  return guarded([&] {
    DL_CHECK(memory != nullptr, kInvalidArgument, "dl_memory_register: memory is NULL");
    *memory = new dl_memory{group_of(comm).register_symmetric(data, bytes)};
  });
}

void* dl_memory_data(const dl_memory* memory) {
  return memory == nullptr ? nullptr : memory->memory->data();
}

const char* dl_memory_why_not(const dl_memory* memory) {
  return memory == nullptr ? "there is no memory" : memory->memory->why_not().c_str();
}

dl_status dl_memory_check(const dl_memory* memory) {
  return guarded([&] {
    DL_CHECK(memory != nullptr, kInvalidArgument, "dl_memory_check: memory is NULL");
    memory->memory->check("memory check");
  });
}

void dl_memory_free(dl_memory* memory) {
  delete memory;
}
