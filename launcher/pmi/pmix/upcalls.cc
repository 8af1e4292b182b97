#include <fmt/core.h>

#include <cstdlib>
#include <memory>
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

pmix_status_t connected(const pmix_proc_t* proc, void* /*object*/, pmix_op_cbfunc_t done,
                        void* data) {
  Server::post([rank = proc->rank](Server& server) { server.events().on_connected(rank); });
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

// All ranks run on this node, so their data is complete.
pmix_status_t fence(const pmix_proc_t* /*procs*/, std::size_t /*n*/, const pmix_info_t* /*info*/,
                    std::size_t /*ninfo*/, char* bytes, std::size_t size, pmix_modex_cbfunc_t done,
                    void* data) {
  Server::post([=](Server&) { done(PMIX_SUCCESS, bytes, size, data, &std::free, bytes); });
  return PMIX_SUCCESS;
}

// A rank of another node: there is none.
pmix_status_t direct_modex(const pmix_proc_t* /*proc*/, const pmix_info_t* /*info*/,
                           std::size_t /*n*/, pmix_modex_cbfunc_t /*done*/, void* /*data*/) {
  return PMIX_ERR_NOT_FOUND;
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
    entries.emplace(key, std::make_shared<NameBoard::Entry>(*proc, info[i].value));
  }
  for (auto& [name, entry] : entries) entry->is_for_one_reader = is_for_one_reader;
  Server::post([entries = std::move(entries), done, data](Server& server) {
    done(server.names().publish(entries) ? PMIX_SUCCESS : PMIX_ERR_DUPLICATE_KEY, data);
  });
  return PMIX_SUCCESS;
}

void answer_look_up(const NameBoard::Entries& found, std::size_t wanted, pmix_lookup_cbfunc_t done,
                    void* data) {
  std::vector<pmix_pdata_t> list(found.size());
  std::size_t i = 0;
  for (const auto& [name, entry] : found) {
    PMIX_PDATA_CONSTRUCT(&list[i]);
    PMIX_LOAD_KEY(list[i].key, name.c_str());
    list[i].proc = entry->owner;
    PMIx_Value_xfer(&list[i].value, &entry->value);
    ++i;
  }
  const pmix_status_t status = found.empty()           ? PMIX_ERR_NOT_FOUND
                               : found.size() < wanted ? PMIX_ERR_PARTIAL_SUCCESS
                                                       : PMIX_SUCCESS;
  done(status, list.data(), list.size(), data);
  for (pmix_pdata_t& one : list) PMIX_PDATA_DESTRUCT(&one);
}

pmix_status_t look_up(const pmix_proc_t* /*proc*/, char** keys, const pmix_info_t* info,
                      std::size_t n, pmix_lookup_cbfunc_t done, void* data) {
  NameBoard::Question question;
  question.names = list_of(keys);
  for (std::size_t i = 0; i < n; ++i) {
    if (PMIX_CHECK_KEY(&info[i], PMIX_WAIT)) question.waits = true;
  }
  question.answer = [wanted = question.names.size(), done, data](const NameBoard::Entries& found) {
    answer_look_up(found, wanted, done, data);
  };
  Server::post(
      [question = std::move(question)](Server& server) { server.names().look_up(question); });
  return PMIX_SUCCESS;
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t* /*info*/,
                        std::size_t /*n*/, pmix_op_cbfunc_t done, void* data) {
  Server::post([owner = *proc, names = list_of(keys), done, data](Server& server) {
    server.names().unpublish(owner, names);
    done(PMIX_SUCCESS, data);
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

pmix_status_t connect(const pmix_proc_t* /*procs*/, std::size_t /*n*/, const pmix_info_t* /*info*/,
                      std::size_t /*ninfo*/, pmix_op_cbfunc_t done, void* data) {
  answer(done, data, PMIX_SUCCESS);
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

pmix_status_t group(pmix_group_operation_t /*op*/, char* /*name*/, const pmix_proc_t* /*procs*/,
                    std::size_t /*n*/, const pmix_info_t* directives, std::size_t ndirectives,
                    pmix_info_cbfunc_t done, void* data) {
  bool wants_context = false;
  for (std::size_t i = 0; i < ndirectives; ++i) {
    if (PMIX_CHECK_KEY(&directives[i], PMIX_GROUP_ASSIGN_CONTEXT_ID)) {
      wants_context = PMIX_INFO_TRUE(&directives[i]);
    }
  }
  Server::post([=](Server& server) {
    auto* const results = new InfoList;
    if (wants_context) results->add_size(PMIX_GROUP_CONTEXT_ID, server.next_context());
    const pmix_release_cbfunc_t release = [](void* list) { delete static_cast<InfoList*>(list); };
    done(PMIX_SUCCESS, results->data(), results->size(), data, release, results);
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
    calls.disconnect = connect;
    calls.register_events = register_events;
    calls.deregister_events = deregister_events;
    calls.notify_event = notify_event;
    calls.group = group;
    return calls;
  }();
  return &module;
}

}  // namespace dl::pmix
