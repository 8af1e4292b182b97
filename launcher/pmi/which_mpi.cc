#include "launcher/pmi/which_mpi.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "core/base/system/unique_fd.h"
#include "launcher/process/ask/libraries.h"

namespace dl::launcher {
namespace {

// The object at an offset of the file; nullopt if the file ends within the object.
template <typename T>
std::optional<T> at(std::span<const char> file, std::uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, file.data() + offset, sizeof value);
  return value;
}

// The offset in the file of the bytes that the program sees at `address`.
std::optional<std::uint64_t> offset_of(const std::vector<Elf64_Phdr>& segments,
                                       std::uint64_t address) {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz) {
      return segment.p_offset + (address - segment.p_vaddr);
    }
  }
  return std::nullopt;
}

std::vector<Elf64_Phdr> segments_of(std::span<const char> file) {
  std::vector<Elf64_Phdr> segments;
  const auto header = at<Elf64_Ehdr>(file, 0);
  constexpr unsigned char kData =
      std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != kData ||
      header->e_phentsize != sizeof(Elf64_Phdr)) {
    return segments;
  }
  for (std::uint64_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = at<Elf64_Phdr>(file, header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return {};
    segments.push_back(*segment);
  }
  return segments;
}

std::vector<std::string> needed_by(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0 || status.st_size <= 0) return {};
  const auto size = static_cast<std::size_t>(status.st_size);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (memory == MAP_FAILED) return {};
  std::vector<std::string> names;
  for (const std::string_view name : needed_libraries({static_cast<const char*>(memory), size})) {
    names.emplace_back(name);
  }
  ::munmap(memory, size);
  return names;
}

// No MPI is behind this library. So for a shell or an interpreter no other process is started.
bool is_of_the_system(std::string_view name) {
  constexpr std::string_view kBegins[] = {
      "ld-linux",     "libc.so.",        "libcrypt.so.", "libdl.so.",      "libexpat.so.",
      "libgcc_s.so.", "libgfortran.so.", "libgomp.so.",  "libm.so.",       "libpthread.so.",
      "libpython3.",  "libresolv.so.",   "librt.so.",    "libstdc++.so.6", "libtinfo.so.",
      "libutil.so.",  "libz.so."};
  return std::ranges::any_of(kBegins,
                             [name](std::string_view begin) { return name.starts_with(begin); });
}

WhichMpi first_mpi(const std::vector<std::string>& libraries) {
  for (const std::string& name : libraries) {
    if (const MpiKind kind = mpi_of_library(name); kind != MpiKind::kNone) return {kind, name};
  }
  return {};
}

}  // namespace

std::vector<std::string_view> needed_libraries(std::span<const char> file) {
  const std::vector<Elf64_Phdr> segments = segments_of(file);
  const auto dynamic = std::ranges::find(segments, PT_DYNAMIC, &Elf64_Phdr::p_type);
  if (dynamic == segments.end()) return {};
  std::vector<std::uint64_t> names;
  std::optional<std::uint64_t> strings;
  for (std::uint64_t i = 0; i < dynamic->p_filesz / sizeof(Elf64_Dyn); ++i) {
    const auto entry = at<Elf64_Dyn>(file, dynamic->p_offset + i * sizeof(Elf64_Dyn));
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) strings = offset_of(segments, entry->d_un.d_ptr);
  }
  std::vector<std::string_view> libraries;
  if (!strings || *strings > file.size()) return libraries;
  const std::string_view table(file.data() + *strings, file.size() - *strings);
  for (const std::uint64_t name : names) {
    if (name >= table.size()) return {};
    const std::size_t end = table.find('\0', name);
    if (end == std::string_view::npos) return {};
    libraries.push_back(table.substr(name, end - name));
  }
  return libraries;
}

MpiKind mpi_of_library(std::string_view name) {
  struct Row {
    std::string_view prefix;
    MpiKind kind;
  };
  // The first entry that fits counts. Libraries for Fortran and C++ are named beside C's, or alone.
  constexpr Row kRows[] = {
      {"libmpi.so.12", MpiKind::kMpich},  // the common binary interface
      {"libmpich.so.", MpiKind::kMpich},  // Debian's MPICH
      {"libmpichfort.so.", MpiKind::kMpich},
      {"libmpichcxx.so.", MpiKind::kMpich},
      {"libmpifort.so.", MpiKind::kMpich},
      {"libmpicxx.so.", MpiKind::kMpich},
      {"libmpi_cray.so.", MpiKind::kMpich},
      {"libmpi_gnu_", MpiKind::kMpich},  // Cray's, by compiler
      {"libmpi_intel", MpiKind::kMpich},
      {"libmpi_nvidia", MpiKind::kMpich},
      {"libmpi.so.", MpiKind::kOpenMpi},
      {"libmpi_mpifh.so.", MpiKind::kOpenMpi},
      {"libmpi_usempi", MpiKind::kOpenMpi},
      {"libmpi_cxx.so.", MpiKind::kOpenMpi},
  };
  const auto* const row =
      std::ranges::find_if(kRows, [name](const Row& one) { return name.starts_with(one.prefix); });
  return row == std::end(kRows) ? MpiKind::kNone : row->kind;
}

WhichMpi which_mpi(const std::string& path, const std::string& library_path) {
  const std::vector<std::string> needed = needed_by(path);
  WhichMpi direct = first_mpi(needed);
  if (direct.kind != MpiKind::kNone || std::ranges::all_of(needed, is_of_the_system)) return direct;
  std::vector<std::string> all;
  for (LoadedLibrary& library : list_libraries(path, library_path)) {
    all.push_back(std::move(library.name));
  }
  return first_mpi(all);
}

}  // namespace dl::launcher
