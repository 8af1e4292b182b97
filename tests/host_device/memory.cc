// Memory of devices and pinned memory, between pages that nothing may touch.
//
// An allocation ends at an inaccessible page, but for what its alignment leaves. That rest, and
// what is left of the first page, is compared after each kernel. Freed memory becomes inaccessible,
// and its addresses are not used again. Memory that was not written yet reads as NaN in every
// floating dtype, and as a large integer. An access of a kernel is aligned to its type.
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>

#include "tests/host_device/kernel.h"
#include "tests/host_device/runtime.h"

namespace dl::host_device {
namespace {

constexpr std::size_t kAlignment = 16;  // the widest load of a kernel
constexpr std::size_t kArena = std::size_t{1} << 40;
constexpr std::size_t kMostFreed = std::size_t{1} << 16;  // that reports can name
// As many bytes before an allocation are compared after each kernel; all at its end.
constexpr std::size_t kNear = 64;

struct Allocation {
  std::size_t bytes;  // asked for
  char* pages;
  std::size_t page_bytes;
  Place place;
  int device;
  std::uint64_t number;
};
using Allocations = std::map<const char*, Allocation>;

struct Memory {
  std::mutex mutex;
  Allocations live;
  Allocations freed;
  std::map<int, std::size_t> used;  // of each device
  std::vector<char*> arenas;
  std::size_t taken = kArena;  // of the last arena
  std::uint64_t count = 0;
  struct sigaction previous{};
};
Memory& memory() {
  static Memory& all = *new Memory;
  return all;
}

std::string name_of(const Allocation& allocation) {
  return "allocation " + std::to_string(allocation.number) + ", which has " +
         std::to_string(allocation.bytes) + " bytes" +
         (allocation.place == Place::kDevice ? " on device " + std::to_string(allocation.device)
                                             : " of pinned memory");
}

// Names the allocation that has `at`, or the nearest. Under the mutex.
std::string place_text(const char* at) {
  std::string text = "at an address that no allocation has had";
  auto least = std::numeric_limits<std::ptrdiff_t>::max();
  for (const bool is_freed : {true, false}) {
    const Allocations& all = is_freed ? memory().freed : memory().live;
    const auto consider = [&](Allocations::const_iterator one) {
      if (one == all.end()) return;
      const std::ptrdiff_t offset = at - one->first;
      const auto bytes = static_cast<std::ptrdiff_t>(one->second.bytes);
      const std::ptrdiff_t distance = std::max({-offset, offset - bytes + 1, std::ptrdiff_t{0}});
      if (distance >= least) return;
      least = distance;
      text = "at offset " + std::to_string(offset) + " of " + name_of(one->second) +
             (is_freed ? " and was freed" : "");
    };
    const auto after = all.upper_bound(at);
    consider(after);
    if (after != all.begin()) consider(std::prev(after));
  }
  return text;
}

// A fault is the running kernel's own, so that its thread holds no lock and may allocate.
void on_fault(int, siginfo_t* info, void* context) {
  Memory& all = memory();
  const auto* const at = static_cast<const char*>(info->si_addr);
  std::unique_lock lock(all.mutex);
  const bool ours = std::ranges::any_of(
      all.arenas, [at](const char* arena) { return at >= arena && at < arena + kArena; });
  if (!ours) {
    ::sigaction(SIGSEGV, &all.previous, nullptr);  // it comes again
    return;
  }
  const char* verb = " accesses ";
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;  // in the page fault's error code
  verb = (static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & kWrite) != 0
             ? " writes "
             : " reads ";
#endif
  const std::string place = place_text(at);
  lock.unlock();
  fail(running_thread() + verb + place);
}

// Under the mutex: the addresses of `bytes` and of a page before and behind them; null: none left.
char* take_addresses(std::size_t bytes, std::size_t page) {
  Memory& all = memory();
  if (all.arenas.empty()) {
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(SIGSEGV, &action, &all.previous);
    std::atexit([] { check_memory([] { return std::string("at the program's end"); }); });
  }
  if (all.taken + bytes + 2 * page > kArena) {
    void* const arena =
        ::mmap(nullptr, kArena, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) return nullptr;
    all.arenas.push_back(static_cast<char*>(arena));
    all.taken = 0;
  }
  char* const pages = all.arenas.back() + all.taken + page;
  all.taken += bytes + page;
  return pages;
}

// 0x7fff again and again: NaN in f16, bf16, f32 and f64.
const std::vector<char>& pattern() {
  static const std::vector<char>& bytes = *new std::vector<char>([] {
    std::vector<char> made(std::size_t{64} << 10);
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = i % 2 == 0 ? '\xff' : '\x7f';
    return made;
  }());
  return bytes;
}

bool is_untouched(const char* begin, const char* end) {
  const std::size_t phase = reinterpret_cast<std::uintptr_t>(begin) % 2;
  return begin == end ||
         std::memcmp(begin, pattern().data() + phase, static_cast<std::size_t>(end - begin)) == 0;
}

void check_edges(const char* data, const Allocation& allocation, bool all_before,
                 std::string (*when)()) {
  const char* const begin =
      all_before ? allocation.pages : std::max<const char*>(allocation.pages, data - kNear);
  const char* const end = allocation.pages + allocation.page_bytes;
  const bool before = !is_untouched(begin, data);
  if (!before && is_untouched(data + allocation.bytes, end)) return;
  fail(std::string("bytes ") + (before ? "before " : "behind ") + name_of(allocation) +
       " were written, as is found " + when());
}

}  // namespace

void fill_with_pattern(void* data, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += pattern().size()) {
    std::memcpy(static_cast<char*>(data) + at, pattern().data(),
                std::min(pattern().size(), bytes - at));
  }
}

cudaError_t allocate(void** out, std::size_t bytes, Place place) {
  const int device = this_thread().device;
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  if (place == Place::kDevice && bytes > kMemory - all.used[device]) {
    return cudaErrorMemoryAllocation;
  }
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t page_bytes = (bytes + page - 1) / page * page;
  if (page_bytes > kArena / 2) return cudaErrorMemoryAllocation;
  char* const pages = take_addresses(page_bytes, page);
  if (pages == nullptr || ::mprotect(pages, page_bytes, PROT_READ | PROT_WRITE) != 0) {
    return cudaErrorMemoryAllocation;
  }
  fill_with_pattern(pages, page_bytes);
  char* const data = pages + page_bytes - (bytes + kAlignment - 1) / kAlignment * kAlignment;
  all.live.emplace(data, Allocation{bytes, pages, page_bytes, place, device, ++all.count});
  if (place == Place::kDevice) all.used[device] += bytes;
  *out = data;
  return cudaSuccess;
}

cudaError_t release(void* data, Place place) {
  if (data == nullptr) return cudaSuccess;
  int device = 0;
  Memory& all = memory();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.live.find(static_cast<const char*>(data));
    if (found == all.live.end() || found->second.place != place) return cudaErrorInvalidValue;
    device = found->second.device;
  }
  drain(device);  // as cudaFree does
  const std::lock_guard lock(all.mutex);
  auto node = all.live.extract(static_cast<const char*>(data));
  if (node.empty()) return cudaErrorInvalidValue;
  const Allocation& freed = node.mapped();
  check_edges(node.key(), freed, true, [] { return std::string("when it is freed"); });
  if (place == Place::kDevice) all.used[device] -= freed.bytes;
  ::mmap(freed.pages, freed.page_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  all.freed.insert(std::move(node));
  if (all.freed.size() > kMostFreed) all.freed.erase(all.freed.begin());
  return cudaSuccess;
}

std::size_t used_memory(int device) {
  const std::lock_guard lock(memory().mutex);
  return memory().used[device];
}

Place place_of(const void* data) {
  Memory& all = memory();
  const std::lock_guard lock(all.mutex);
  auto after = all.live.upper_bound(static_cast<const char*>(data));
  if (after == all.live.begin()) return Place::kPageable;
  const auto& [base, allocation] = *--after;
  return static_cast<const char*>(data) < base + allocation.bytes ? allocation.place
                                                                  : Place::kPageable;
}

namespace {

// What -fsanitize=alignment passes on; both compilers have the same.
struct TypeMismatch {
  const char* file;
  std::uint32_t line, column;
  const void* type;
  unsigned char log_of_alignment;
  unsigned char kind;
};

}  // namespace

extern "C" [[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch* access,
                                                                   const char* at) {
  std::unique_lock lock(memory().mutex);
  const std::string place = place_text(at);
  lock.unlock();
  fail(running_thread() + " accesses " +
       std::to_string(std::size_t{1} << access->log_of_alignment) +
       " bytes that are not aligned, in line " + std::to_string(access->line) + " of " +
       access->file + ", " + place);
}

void check_memory(std::string (*when)()) {
  const std::lock_guard lock(memory().mutex);
  for (const auto& [data, allocation] : memory().live) {
    if (allocation.page_bytes != allocation.bytes) check_edges(data, allocation, false, when);
  }
}

}  // namespace dl::host_device
