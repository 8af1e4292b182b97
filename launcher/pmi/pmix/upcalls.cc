#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "launcher/pmi/pmix/server.h"

namespace dl::pmix {
namespace {

std::vector<std::string> list_of(char** texts) {
  std::vector<std::string> list;
  for (; texts != nullptr && *texts != nullptr; ++texts) list.emplace_back(*texts);
  return list;
}

// Answers on the thread of the server: libpmix wants no answer before the call has returned.
void answer(pmix_op_cbfunc_t done, void* data, pmix_status_t status) {
  if (done == nullptr) return;
  Server::post([=](Server&) { done(status, data); });
}

// A value in libpmix's own form, for other nodes.
std::string packed(const pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  PMIx_Data_pack(nullptr, &buffer, const_cast<pmix_value_t*>(&value), 1, PMIX_VALUE);
  std::string bytes(buffer.base_ptr, buffer.bytes_used);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  return bytes;
}

void unpack(const std::string& bytes, pmix_value_t& value) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  pmix_byte_object_t object{const_cast<char*>(bytes.data()), bytes.size()};
  std::int32_t count = 1;
  PMIX_VALUE_CONSTRUCT(&value);
  PMIx_Data_embed(&buffer, &object);
  PMIx_Data_unpack(nullptr, &buffer, &value, &count, PMIX_VALUE);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
}

// Empty: all ranks of the job.
std::vector<std::uint32_t> ranks_of(const pmix_proc_t* procs, std::size_t n) {
  std::vector<std::uint32_t> ranks;
  for (std::size_t i = 0; i < n; ++i) {
    if (procs[i].rank == PMIX_RANK_WILDCARD) return {};
    ranks.push_back(procs[i].rank);
  }
  std::ranges::sort(ranks);
  return ranks;
}

pmix_status_t connected(const pmix_proc_t* proc, void* /*object*/, pmix_op_cbfunc_t done,
                        void* data) {
  Server::post([rank = proc->rank](Server& server) { server.space().connected(rank); });
  answer(done, data, PMIX_SUCCESS);
  return PMIX_SUCCESS;
}

pmix_status_t finalized(const pmix_proc_t* proc, void* /*object*/, pmix_op_cbfunc_t done,
                        void* data) {
  Server::post([rank = proc->rank](Server& server) { server.events().on_finalized(rank); });
  answer(done, data, PMIX_SUCCESS);
  return PMIX_SUCCESS;
}

// No answer: the rank then waits for its end, and its exit code does not matter.
pmix_status_t aborted(const pmix_proc_t* proc, void* /*object*/, int status,
                      const char* /*message*/, pmix_proc_t* /*procs*/, std::size_t /*n*/,
                      pmix_op_cbfunc_t /*done*/, void* /*data*/) {
  Server::post(
      [rank = proc->rank, status](Server& server) { server.events().on_abort(rank, status); });
  return PMIX_SUCCESS;
}

// Gathers from the nodes of these ranks. Ranks take part in one gathering of a kind and of the same
// ranks after the other, so this is its name.
void gather(const char* kind, const pmix_proc_t* procs, std::size_t n, std::string bytes,
            std::function<void(const std::string& bytes)> done) {
  NodeSpace::Gathering gathering{
      .name = kind, .ranks = ranks_of(procs, n), .bytes = std::move(bytes)};
  gathering.name += fmt::format(" {}", fmt::join(gathering.ranks, ","));
  Server::post([gathering = std::move(gathering), done = std::move(done)](Server& server) {
    server.space().gather(gathering,
                          [done](const NodeSpace::Gathered& gathered) { done(gathered.bytes); });
  });
}

// Bytes that libpmix releases.
void answer_with(const std::string& bytes, pmix_status_t status, pmix_modex_cbfunc_t done,
                 void* data) {
  auto* const kept = new std::string(bytes);
  const pmix_release_cbfunc_t release = [](void* text) { delete static_cast<std::string*>(text); };
  done(status, kept->data(), kept->size(), data, release, kept);
}

pmix_status_t fence(const pmix_proc_t* procs, std::size_t n, const pmix_info_t* /*info*/,
                    std::size_t /*ninfo*/, char* bytes, std::size_t size, pmix_modex_cbfunc_t done,
                    void* data) {
  gather("fence", procs, n, std::string(bytes, size),
         [done, data](const std::string& all) { answer_with(all, PMIX_SUCCESS, done, data); });
  std::free(bytes);
  return PMIX_SUCCESS;
}

// The data of a rank of another node.
pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t* /*info*/, std::size_t /*n*/,
                           pmix_modex_cbfunc_t done, void* data) {
  Server::post([rank = proc->rank, done, data](Server& server) {
    server.space().ask(rank, [done, data](std::int32_t status, const std::string& bytes) {
      answer_with(bytes, status, done, data);
    });
  });
  return PMIX_SUCCESS;
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t n,
                      pmix_op_cbfunc_t done, void* data) {
  NameBoard::Entries entries;
  bool is_for_one_reader = false;
  for (std::size_t i = 0; i < n; ++i) {
    const std::string key = info[i].key;
    if (key == PMIX_PERSISTENCE) {
      is_for_one_reader = info[i].value.data.persist == PMIX_PERSIST_FIRST_READ;
    }
    // Names with this beginning are PMIx's own, and say how to publish.
    if (key.starts_with("pmix.")) continue;
    entries.emplace(key, NameBoard::Entry{.owner = proc->rank, .value = packed(info[i].value)});
  }
  for (auto& [name, entry] : entries) entry.is_for_one_reader = is_for_one_reader;
  Server::post([rank = proc->rank, entries = std::move(entries), done, data](Server& server) {
    server.space().publish(rank, entries, [done, data](bool is_new) {
      done(is_new ? PMIX_SUCCESS : PMIX_ERR_DUPLICATE_KEY, data);
    });
  });
  return PMIX_SUCCESS;
}

void answer_look_up(const std::string& job, const NameBoard::Entries& found, std::size_t wanted,
                    pmix_lookup_cbfunc_t done, void* data) {
  std::vector<pmix_pdata_t> list(found.size());
  std::size_t i = 0;
  for (const auto& [name, entry] : found) {
    PMIX_PDATA_CONSTRUCT(&list[i]);
    PMIX_LOAD_KEY(list[i].key, name.c_str());
    PMIX_LOAD_PROCID(&list[i].proc, job.c_str(), entry.owner);
    unpack(entry.value, list[i].value);
    ++i;
  }
  const pmix_status_t status = found.empty()           ? PMIX_ERR_NOT_FOUND
                               : found.size() < wanted ? PMIX_ERR_PARTIAL_SUCCESS
                                                       : PMIX_SUCCESS;
  done(status, list.data(), list.size(), data);
  for (pmix_pdata_t& one : list) PMIX_PDATA_DESTRUCT(&one);
}

pmix_status_t look_up(const pmix_proc_t* proc, char** keys, const pmix_info_t* info, std::size_t n,
                      pmix_lookup_cbfunc_t done, void* data) {
  const bool waits =
      std::any_of(info, info + n, [](const auto& one) { return PMIX_CHECK_KEY(&one, PMIX_WAIT); });
  Server::post(
      [job = std::string(proc->nspace), names = list_of(keys), waits, done, data](Server& server) {
        server.space().look_up(names, waits, [=, wanted = names.size()](const auto& found) {
          answer_look_up(job, found, wanted, done, data);
        });
      });
  return PMIX_SUCCESS;
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t* /*info*/,
                        std::size_t /*n*/, pmix_op_cbfunc_t done, void* data) {
  Server::post([rank = proc->rank, names = list_of(keys), done, data](Server& server) {
    server.space().unpublish(rank, names, [done, data] { done(PMIX_SUCCESS, data); });
  });
  return PMIX_SUCCESS;
}

pmix_status_t spawn(const pmix_proc_t* proc, const pmix_info_t* /*info*/, std::size_t /*ninfo*/,
                    const pmix_app_t* /*apps*/, std::size_t /*n*/, pmix_spawn_cbfunc_t /*done*/,
                    void* /*data*/) {
  Server::post([rank = proc->rank](Server& server) {
    server.events().on_note(
        fmt::format("rank {} called MPI_Comm_spawn, which is refused: dlrun starts no further "
                    "ranks",
                    rank));
  });
  return PMIX_ERR_NOT_SUPPORTED;
}

pmix_status_t connect(const pmix_proc_t* procs, std::size_t n, const pmix_info_t* /*info*/,
                      std::size_t /*ninfo*/, pmix_op_cbfunc_t done, void* data) {
  gather("connect", procs, n, {}, [done, data](const std::string&) { done(PMIX_SUCCESS, data); });
  return PMIX_SUCCESS;
}

pmix_status_t disconnect(const pmix_proc_t* procs, std::size_t n, const pmix_info_t* /*info*/,
                         std::size_t /*ninfo*/, pmix_op_cbfunc_t done, void* data) {
  gather("disconnect", procs, n, {},
         [done, data](const std::string&) { done(PMIX_SUCCESS, data); });
  return PMIX_SUCCESS;
}

pmix_status_t register_events(pmix_status_t* /*codes*/, std::size_t /*n*/,
                              const pmix_info_t* /*info*/, std::size_t /*ninfo*/,
                              pmix_op_cbfunc_t done, void* data) {
  answer(done, data, PMIX_SUCCESS);
  return PMIX_SUCCESS;
}

pmix_status_t deregister_events(pmix_status_t* /*codes*/, std::size_t /*n*/, pmix_op_cbfunc_t done,
                                void* data) {
  answer(done, data, PMIX_SUCCESS);
  return PMIX_SUCCESS;
}

pmix_status_t notify_event(pmix_status_t /*code*/, const pmix_proc_t* /*source*/,
                           pmix_data_range_t /*range*/, pmix_info_t* /*info*/, std::size_t /*n*/,
                           pmix_op_cbfunc_t done, void* data) {
  answer(done, data, PMIX_SUCCESS);
  return PMIX_SUCCESS;
}

pmix_status_t group(pmix_group_operation_t op, char* name, const pmix_proc_t* procs, std::size_t n,
                    const pmix_info_t* directives, std::size_t ndirectives, pmix_info_cbfunc_t done,
                    void* data) {
  NodeSpace::Gathering gathering{.name = fmt::format("group {} {}", static_cast<int>(op), name),
                                 .ranks = ranks_of(procs, n)};
  for (std::size_t i = 0; i < ndirectives; ++i) {
    const pmix_info_t& one = directives[i];
    if (PMIX_CHECK_KEY(&one, PMIX_GROUP_ASSIGN_CONTEXT_ID)) {
      gathering.wants_number = PMIX_INFO_TRUE(&one);
    } else if (PMIX_CHECK_KEY(&one, PMIX_GROUP_ENDPT_DATA)) {
      gathering.bytes.assign(one.value.data.bo.bytes, one.value.data.bo.size);
    } else if (op == PMIX_GROUP_DESTRUCT && PMIX_CHECK_KEY(&one, PMIX_GROUP_LOCAL_ONLY) &&
               PMIX_INFO_TRUE(&one)) {
      // All are here. After another answer, libpmix 5 would call a second time.
      return PMIX_OPERATION_SUCCEEDED;
    }
  }
  Server::post([gathering = std::move(gathering), members = std::vector(procs, procs + n), done,
                data](Server& server) {
    server.space().gather(gathering, [members, done, data](const NodeSpace::Gathered& gathered) {
      auto* const results = new InfoList;
      results->add_procs(PMIX_GROUP_MEMBERSHIP, members);
      if (gathered.number != 0) results->add_size(PMIX_GROUP_CONTEXT_ID, gathered.number);
      if (!gathered.bytes.empty()) results->add_bytes(PMIX_GROUP_ENDPT_DATA, gathered.bytes);
      const pmix_release_cbfunc_t release = [](void* list) { delete static_cast<InfoList*>(list); };
      done(PMIX_SUCCESS, results->data(), results->size(), data, release, results);
    });
  });
  return PMIX_SUCCESS;
}

}  // namespace

pmix_server_module_t* upcalls() {
  static pmix_server_module_t module = [] {
    pmix_server_module_t calls{};
    calls.client_connected = connected;
    calls.client_finalized = finalized;
    calls.abort = aborted;
    calls.fence_nb = fence;
    calls.direct_modex = direct_modex;
    calls.publish = publish;
    calls.lookup = look_up;
    calls.unpublish = unpublish;
    calls.spawn = spawn;
    calls.connect = connect;
    calls.disconnect = disconnect;
    calls.register_events = register_events;
    calls.deregister_events = deregister_events;
    calls.notify_event = notify_event;
    calls.group = group;
    return calls;
  }();
  return &module;
}

}  // namespace dl::pmix
