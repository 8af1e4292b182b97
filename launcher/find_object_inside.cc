// _dl_find_object() for exceptions in dlrun and dlrun-srun. The static libgcc takes the tables of
// an address from this function of the C library, which glibc has only since 2.35. With this one
// the programs run with an older glibc, too.
#include <dlfcn.h>
#include <link.h>

#include <cstddef>

#if defined(DLFO_STRUCT_HAS_EH_DBASE)

namespace {

struct Search {
  ElfW(Addr) address;
  dl_find_object* found;
};

int look(dl_phdr_info* object, std::size_t, void* place) {
  const auto& search = *static_cast<const Search*>(place);
  const ElfW(Phdr)* tables = nullptr;
  bool is_inside = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    // One comparison: the difference wraps around below the part's beginning.
    is_inside |= part.p_type == PT_LOAD &&
                 search.address - (object->dlpi_addr + part.p_vaddr) < part.p_memsz;
    if (part.p_type == PT_GNU_EH_FRAME) tables = &part;
  }
  if (!is_inside || tables == nullptr) return 0;
  *search.found = {};
  const ElfW(Addr) eh_frame = object->dlpi_addr + tables->p_vaddr;
  // The loader gives its addresses as integers. NOLINTNEXTLINE(performance-no-int-to-ptr)
  search.found->dlfo_eh_frame = reinterpret_cast<void*>(eh_frame);
  return 1;
}

}  // namespace

// Sets only what libgcc reads. Returns 0 if it has found the object.
extern "C" [[gnu::visibility("hidden")]] int _dl_find_object(void* address,
                                                             dl_find_object* found) noexcept {
  Search search{.address = reinterpret_cast<ElfW(Addr)>(address), .found = found};
  return ::dl_iterate_phdr(&look, &search) == 1 ? 0 : -1;
}

#endif
