// The Store service of rendezvous.proto over a KeyTable. Included by .cc files only.
//
// A call that waits occupies no thread. Its reactor is listed in the table until a change comes,
// the caller's deadline passes or the caller goes away. The table must outlive the server that runs
// the service.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "core/base/mutex.h"
#include "rendezvous/rendezvous.grpc.pb.h"
#include "rendezvous/stores/key_table.h"

namespace dl::rendezvous {

class StoreService final : public dlrun::rendezvous::Store::CallbackService {
 public:
  explicit StoreService(KeyTable& table);
  ~StoreService() override;

  // From now on, changes by clients of an earlier generation are refused; their keys and remembered
  // answers are removed. Any thread.
  void begin_generation(std::uint64_t generation);

  grpc::ServerUnaryReactor* Open(grpc::CallbackServerContext* context,
                                 const dlrun::rendezvous::OpenRequest* request,
                                 dlrun::rendezvous::OpenReply* reply) override;
  grpc::ServerUnaryReactor* Set(grpc::CallbackServerContext* context,
                                const dlrun::rendezvous::SetRequest* request,
                                dlrun::rendezvous::SetReply* reply) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext* context,
                                const dlrun::rendezvous::GetRequest* request,
                                dlrun::rendezvous::GetReply* reply) override;
  grpc::ServerUnaryReactor* Wait(grpc::CallbackServerContext* context,
                                 const dlrun::rendezvous::KeysRequest* request,
                                 dlrun::rendezvous::WaitReply* reply) override;
  grpc::ServerUnaryReactor* Missing(grpc::CallbackServerContext* context,
                                    const dlrun::rendezvous::KeysRequest* request,
                                    dlrun::rendezvous::MissingReply* reply) override;
  grpc::ServerUnaryReactor* Add(grpc::CallbackServerContext* context,
                                const dlrun::rendezvous::AddRequest* request,
                                dlrun::rendezvous::AddReply* reply) override;
  grpc::ServerUnaryReactor* CompareAndSet(grpc::CallbackServerContext* context,
                                          const dlrun::rendezvous::CompareAndSetRequest* request,
                                          dlrun::rendezvous::CompareAndSetReply* reply) override;

 private:
  // The answer to a mutating request, for a client that repeats it.
  struct Answer {
    grpc::Status status;
    std::string reply;
  };
  struct Client {
    std::uint64_t fence = 0;                  // its generation + 1; 0: none
    std::uint64_t oldest = 0;                 // the client has the answers below it
    std::map<std::uint64_t, Answer> answers;  // by sequence
  };
  // Runs `change` unless this request was run before; then repeats its answer.
  grpc::Status once(const dlrun::rendezvous::RequestId& id, google::protobuf::Message* reply,
                    const std::function<void()>& change);

  KeyTable& table_;
  std::uint64_t incarnation_;
  Mutex answers_mutex_;
  std::unordered_map<std::uint64_t, Client> clients_ DL_GUARDED_BY(answers_mutex_);
  std::uint64_t fence_ DL_GUARDED_BY(answers_mutex_) = 0;  // of the running generation
};

}  // namespace dl::rendezvous
