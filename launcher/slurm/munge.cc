#include "launcher/slurm/munge.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/base/error.h"
#include "launcher/slurm/commands.h"
#include "launcher/slurm/slurm_conf.h"

namespace dl::launcher {
namespace {

// Names and numbers from munge.h, which is in a package that need not be installed.
constexpr const char* kMungeLibrary = "libmunge.so.2";
constexpr int kMungeSuccess = 0;
constexpr int kMungeReplayed = 17;  // opened on this host before; munge_decode still gives the text
constexpr int kMungeOptionLife = 4;
constexpr int kMungeOptionSocket = 8;
constexpr int kMungeOptionUid = 9;

struct MungeLibrary {
  int (*encode)(char** credential, void* context, const void* text, int size) = nullptr;
  int (*decode)(const char* credential, void* context, void** text, int* size, uid_t* uid,
                gid_t* gid) = nullptr;
  void* (*create)() = nullptr;
  void (*destroy)(void* context) = nullptr;
  int (*set)(void* context, int option, ...) = nullptr;
  int (*get)(void* context, int option, ...) = nullptr;
  const char* (*error_text)(int error) = nullptr;
};

// Returns nullopt if the library is not on this node.
std::optional<MungeLibrary> open_munge() {
  void* const opened = ::dlopen(kMungeLibrary, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (opened == nullptr) return std::nullopt;
  MungeLibrary library;
  bool is_whole = true;
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(opened, name));
    is_whole = is_whole && function != nullptr;
  };
  take(library.encode, "munge_encode");
  take(library.decode, "munge_decode");
  take(library.create, "munge_ctx_create");
  take(library.destroy, "munge_ctx_destroy");
  take(library.set, "munge_ctx_set");
  take(library.get, "munge_ctx_get");
  take(library.error_text, "munge_strerror");
  return is_whole ? std::optional(library) : std::nullopt;
}

MungeLibrary require_munge() {
  const std::optional<MungeLibrary> library = open_munge();
  DL_CHECK(library.has_value(), kNotFound, "MUNGE's library {} is not on this node", kMungeLibrary);
  return *library;
}

// "AuthInfo                = socket=/run/x,cred_expire=5" among SLURM's settings.
std::string socket_of_controller() {
  return munge_socket_in(ask_program({"scontrol", "show", "config"}).text);
}

using Context = std::unique_ptr<void, void (*)(void*)>;

Context make_context(const MungeLibrary& munge) {
  Context context(munge.create(), munge.destroy);
  DL_CHECK(context != nullptr, kIo, "MUNGE's library has no memory");
  return context;
}

// Calls with the socket that the file names, or with MUNGE's own. If that fails, calls with the
// socket that the controller names. Returns the result of the last call.
int with_socket(const MungeLibrary& munge, const std::function<int(void* context)>& call) {
  const auto at = [&](const std::string& socket) {
    const Context context = make_context(munge);
    if (!socket.empty()) munge.set(context.get(), kMungeOptionSocket, socket.c_str());
    return call(context.get());
  };
  const std::string first = munge_socket_in(read_slurm_conf());
  const int error = at(first);
  if (error == kMungeSuccess || error == kMungeReplayed) return error;
  const std::string second = socket_of_controller();
  return second.empty() || second == first ? error : at(second);
}

}  // namespace

bool has_munge() {
  const std::optional<MungeLibrary> munge = open_munge();
  if (!munge || !may_use_munge(read_slurm_conf())) return false;
  char* made = nullptr;
  try {
    const int error = with_socket(*munge, [&](void* context) {
      return munge->encode(&made, context, nullptr, 0);  // munged answers
    });
    const std::unique_ptr<char, void (*)(void*)> credential(made, std::free);
    return error == kMungeSuccess;
  } catch (const Error&) {
    return false;  // scontrol, which knows another socket, does not answer
  }
}

std::string munge_seal(const std::string& text, std::chrono::seconds life) {
  const MungeLibrary munge = require_munge();
  char* made = nullptr;
  const int error = with_socket(munge, [&](void* context) {
    // Without the restriction to this user, any user of the cluster could open it.
    int refused = munge.set(context, kMungeOptionLife, static_cast<int>(life.count()));
    if (refused == kMungeSuccess) refused = munge.set(context, kMungeOptionUid, ::geteuid());
    if (refused != kMungeSuccess) return refused;
    return munge.encode(&made, context, text.data(), static_cast<int>(text.size()));
  });
  const std::unique_ptr<char, void (*)(void*)> credential(made, std::free);
  DL_CHECK(error == kMungeSuccess, kIo, "MUNGE: {}; does munged run on this node?",
           munge.error_text(error));
  return credential.get();
}

std::string munge_open(const std::string& credential) {
  const MungeLibrary munge = require_munge();
  void* opened = nullptr;
  int size = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  const int error = with_socket(munge, [&](void* context) {
    std::free(std::exchange(opened, nullptr));
    return munge.decode(credential.c_str(), context, &opened, &size, &uid, &gid);
  });
  const std::unique_ptr<void, void (*)(void*)> text(opened, std::free);
  DL_CHECK(error == kMungeSuccess || error == kMungeReplayed, kAuthentication, "MUNGE: {}",
           munge.error_text(error));
  DL_CHECK(uid == ::geteuid(), kAuthentication,
           "a credential of user {} came, wanted one of user {}", uid, ::geteuid());
  return {static_cast<const char*>(text.get()), static_cast<std::size_t>(std::max(size, 0))};
}

}  // namespace dl::launcher
