#include "launcher/pmi/pmix/server.h"

#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cstdlib>
#include <future>
#include <memory>
#include <utility>

#include "core/base/error.h"

namespace dl::pmix {
namespace {

// libpmix's calls have no argument that would name the server.
Server* the_server = nullptr;

void check(pmix_status_t status, const char* what) {
  DL_CHECK(status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED, kIo,
           "libpmix cannot {}: {}", what, PMIx_Error_string(status));
}

// Waits for the end of a call that libpmix answers on its own thread.
class Done {
 public:
  static void call(pmix_status_t status, void* done) {
    static_cast<Done*>(done)->status_.set_value(status);
  }
  // `begun`: what the call has returned; the answer comes only after PMIX_SUCCESS.
  void check(pmix_status_t begun, const char* what) {
    pmix::check(begun == PMIX_SUCCESS ? status_.get_future().get() : begun, what);
  }

 private:
  std::promise<pmix_status_t> status_;
};

pmix_proc_t proc_of(const Job& job, std::uint32_t rank) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, job.name.c_str(), rank);
  return proc;
}

void give_data(pmix_status_t status, char* data, std::size_t size, void* answer) {
  Server::post([status, bytes = std::string(data, size), answer](Server&) {
    const std::unique_ptr<NodeSpace::Answer> to(static_cast<NodeSpace::Answer*>(answer));
    (*to)(status, bytes);
  });
}

}  // namespace

Server::Server(boost::asio::io_context& io, Job job, NodeSpace& space, Events events)
    : io_(io), job_(std::move(job)), space_(space), events_(std::move(events)) {
  the_server = this;
  make_folders(job_);
  InfoList settings;
  settings.add(PMIX_SERVER_TMPDIR, job_.folder.string());
  settings.add(PMIX_SYSTEM_TMPDIR, job_.folder.string());
  settings.add(PMIX_HOSTNAME, job_.here().host);
  check(PMIx_server_init(upcalls(), settings.data(), settings.size()), "start its server");

  InfoList about_job;
  add_job_info(job_, about_job);
  Done registered;
  registered.check(
      PMIx_server_register_nspace(job_.name.c_str(), static_cast<int>(job_.here().ranks.size()),
                                  about_job.data(), about_job.size(), &Done::call, &registered),
      "register the job");
  for (const std::uint32_t rank : job_.here().ranks) {
    const pmix_proc_t proc = proc_of(job_, rank);
    Done known;
    known.check(
        PMIx_server_register_client(&proc, ::getuid(), ::getgid(), nullptr, &Done::call, &known),
        "register a rank");
  }
}

Server::~Server() {
  PMIx_server_finalize();
  the_server = nullptr;
}

std::vector<std::string> Server::environment_of(std::uint32_t rank) const {
  const pmix_proc_t proc = proc_of(job_, rank);
  char** entries = nullptr;
  check(PMIx_server_setup_fork(&proc, &entries), "set the environment of a rank");
  std::vector<std::string> list;
  for (char** entry = entries; entry != nullptr && *entry != nullptr; ++entry) {
    list.emplace_back(*entry);
    std::free(*entry);
  }
  std::free(static_cast<void*>(entries));
  return list;
}

void Server::data_of(std::uint32_t rank, NodeSpace::Answer answer) const {
  const pmix_proc_t proc = proc_of(job_, rank);
  auto* const to = new NodeSpace::Answer(std::move(answer));
  const pmix_status_t begun = PMIx_server_dmodex_request(&proc, give_data, to);
  if (begun != PMIX_SUCCESS) give_data(begun, nullptr, 0, to);
}

void Server::post(std::function<void(Server&)> task) {
  boost::asio::post(the_server->io_, [task = std::move(task)] { task(*the_server); });
}

}  // namespace dl::pmix
