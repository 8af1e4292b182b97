#include "rendezvous/module/remote_store.h"

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/system/machine/limits.h"
#include "core/base/system/machine/module_folders.h"
#include "core/base/version.h"
#include "rendezvous/module/module.h"

namespace dl::rendezvous {
namespace {

constexpr Host kHost;

const Module& open() {
  const std::string path = find_module("store", "libdlrun_rendezvous.so");
  // Never closed: gRPC leaves threads behind. Lazily, since that takes a fifth less time.
  void* const library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
  DL_CHECK(library != nullptr, kNotFound, "store: {}", ::dlerror());
  const auto open = reinterpret_cast<OpenModule>(::dlsym(library, kModuleSymbol));
  const std::string version(kVersion);
  const Module* const found = open != nullptr ? open(kModuleAbi, version.c_str(), &kHost) : nullptr;
  DL_CHECK(found != nullptr, kMismatch, "store: {} belongs to another build of dlrun than {}", path,
           version);
  return *found;
}

// gRPC ends the process if it finds no descriptor for what it begins with. A group needs as many.
constexpr std::uint64_t kFirstFiles = 8;

// A failure is not kept: the next call tries again.
const Module& module() {
  require_open_files(kFirstFiles, "the store");
  static const Module& opened = open();
  return opened;
}

}  // namespace

std::unique_ptr<Store> connect_store(GrpcStoreOptions options, Deadline deadline) {
  return module().connect(std::move(options), deadline);
}

std::shared_ptr<Store> serve_store(Acceptor& acceptor) {
  return module().serve(acceptor);
}

}  // namespace dl::rendezvous
