#include "rendezvous/service/store_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "rendezvous/grpc/grpc_support.h"
#include "rendezvous/net/handshake/handshake.h"
#include "rendezvous/stores/prefix_store.h"

namespace dl::rendezvous {
namespace {

namespace pb = dlrun::rendezvous;

std::uint64_t fresh_number() {
  const Nonce nonce = fresh_nonce();
  std::uint64_t number = 0;
  std::memcpy(&number, nonce.data(), sizeof number);
  return number;
}

// Answers at once with the result of `call`, or its exception.
grpc::ServerUnaryReactor* answer(StoreService* service, grpc::CallbackServerContext* context,
                                 const std::function<grpc::Status()>& call) {
  take_over(service);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  grpc::Status status;
  try {
    status = call();
  } catch (const std::exception& error) {
    status = to_status(error);
  }
  hand_over(service);
  reactor->Finish(std::move(status));
  return reactor;
}

// A call that waits in the table. It may be ended by the table, or by the caller's cancellation or
// deadline: the side that gets the ticket back ends it. gRPC knows the call only after the service
// has returned it, and calls OnDone() later, so start() always finishes first.
class WaitingCall final : public grpc::ServerUnaryReactor {
 public:
  using Fill = std::function<void(KeyTable::Result)>;

  // `subscribe` registers the call in the table; `fill` puts the result into the reply.
  template <typename Subscribe>
  static WaitingCall* begin(KeyTable& table, Fill fill, const Subscribe& subscribe) {
    return (new WaitingCall(table))->start(std::move(fill), subscribe);
  }

  void OnCancel() override {
    take_over(this);
    if (table_.cancel(ticket_)) Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override { delete this; }

 private:
  explicit WaitingCall(KeyTable& table) : table_(table) {}

  template <typename Subscribe>
  WaitingCall* start(Fill fill, const Subscribe& subscribe) {
    try {
      ticket_ = subscribe([this, fill = std::move(fill)](KeyTable::Result result) {
        if (result.closed) {
          Finish({grpc::StatusCode::ABORTED, "store: closed: " + *result.closed});
          return;
        }
        fill(std::move(result));
        Finish(grpc::Status::OK);
      });
    } catch (const std::exception& error) {
      Finish(to_status(error));
    }
    hand_over(this);
    return this;
  }

  KeyTable& table_;
  KeyTable::Ticket ticket_ = 0;
};

std::vector<std::string> keys_of(const pb::KeysRequest& request) {
  std::vector<std::string> keys(request.keys().begin(), request.keys().end());
  for (const std::string& key : keys) check_key("wait", key);
  return keys;
}

}  // namespace

StoreService::StoreService(KeyTable& table) : table_(table), incarnation_(fresh_number()) {
  hand_over(this);
}

StoreService::~StoreService() {
  take_over(this);
}

grpc::Status StoreService::once(const pb::RequestId& id, google::protobuf::Message* reply,
                                const std::function<void()>& change) {
  const Lock lock(answers_mutex_);
  if (id.fence() != 0 && id.fence() < fence_) {
    return {grpc::StatusCode::ABORTED,
            fmt::format("store: refused: this process is of generation {}, and generation {} runs",
                        id.fence() - 1, fence_ - 1)};
  }
  Client& client = clients_[id.client()];
  client.fence = id.fence();
  // A client that had lost its connection repeats a request. The first copy may arrive after the
  // answer.
  if (id.sequence() < client.oldest) {
    return {grpc::StatusCode::CANCELLED, "this request was answered on another connection"};
  }
  client.oldest = std::max<std::uint64_t>(client.oldest, id.oldest());
  std::map<std::uint64_t, Answer>& answers = client.answers;
  answers.erase(answers.begin(), answers.lower_bound(client.oldest));
  if (const auto found = answers.find(id.sequence()); found != answers.end()) {
    reply->ParseFromString(found->second.reply);
    return found->second.status;
  }
  Answer& given = answers[id.sequence()];
  try {
    change();
    given.reply = reply->SerializeAsString();
  } catch (const std::exception& error) {
    given.status = to_status(error);
  }
  return given.status;
}

void StoreService::begin_generation(std::uint64_t generation) {
  const Lock lock(answers_mutex_);
  fence_ = generation + 1;
  std::erase_if(clients_, [this](const auto& entry) DL_REQUIRES(answers_mutex_) {
    return entry.second.fence != 0 && entry.second.fence < fence_;
  });
  table_.forget([generation](std::string_view key) {
    return PrefixStore::is_of_generation_before(generation, key);
  });
}

grpc::ServerUnaryReactor* StoreService::Open(grpc::CallbackServerContext* context,
                                             const pb::OpenRequest*, pb::OpenReply* reply) {
  return answer(this, context, [&] {
    reply->set_incarnation(incarnation_);
    return grpc::Status::OK;
  });
}

grpc::ServerUnaryReactor* StoreService::Set(grpc::CallbackServerContext* context,
                                            const pb::SetRequest* request, pb::SetReply* reply) {
  return answer(this, context, [&] {
    check_key("set", request->key());
    check_value("set", request->key(), request->value());
    return once(request->id(), reply, [&] { table_.set(request->key(), request->value()); });
  });
}

grpc::ServerUnaryReactor* StoreService::Get(grpc::CallbackServerContext* context,
                                            const pb::GetRequest* request, pb::GetReply* reply) {
  if (request->now()) {
    return answer(this, context, [&] {
      check_key("try_get", request->key());
      if (std::optional<std::string> value = table_.find(request->key())) {
        reply->set_value(std::move(*value));
      }
      return grpc::Status::OK;
    });
  }
  take_over(this);
  return WaitingCall::begin(
      table_, [reply](KeyTable::Result result) { reply->set_value(std::move(result.value)); },
      [&](KeyTable::Done done) {
        check_key("get", request->key());
        return table_.when_value(request->key(), std::move(done));
      });
}

grpc::ServerUnaryReactor* StoreService::Wait(grpc::CallbackServerContext*,
                                             const pb::KeysRequest* request, pb::WaitReply*) {
  take_over(this);
  return WaitingCall::begin(
      table_, [](const KeyTable::Result&) {},
      [&](KeyTable::Done done) { return table_.when_present(keys_of(*request), std::move(done)); });
}

grpc::ServerUnaryReactor* StoreService::Missing(grpc::CallbackServerContext* context,
                                                const pb::KeysRequest* request,
                                                pb::MissingReply* reply) {
  return answer(this, context, [&] {
    for (std::string& key : table_.missing(keys_of(*request))) reply->add_keys(std::move(key));
    return grpc::Status::OK;
  });
}

grpc::ServerUnaryReactor* StoreService::Add(grpc::CallbackServerContext* context,
                                            const pb::AddRequest* request, pb::AddReply* reply) {
  return answer(this, context, [&] {
    check_key("add", request->key());
    return once(request->id(), reply,
                [&] { reply->set_sum(table_.add(request->key(), request->delta())); });
  });
}

grpc::ServerUnaryReactor* StoreService::CompareAndSet(grpc::CallbackServerContext* context,
                                                      const pb::CompareAndSetRequest* request,
                                                      pb::CompareAndSetReply* reply) {
  return answer(this, context, [&] {
    check_key("compare_and_set", request->key());
    check_value("compare_and_set", request->key(), request->desired());
    return once(request->id(), reply, [&] {
      const std::optional<std::string> expected =
          request->has_expected() ? std::optional(request->expected()) : std::nullopt;
      Store::Swap swap = table_.compare_and_set(request->key(), expected, request->desired());
      reply->set_swapped(swap.swapped);
      if (swap.present) reply->set_present(std::move(*swap.present));
    });
  });
}

}  // namespace dl::rendezvous
