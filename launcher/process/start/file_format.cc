#include "launcher/process/start/program.h"

#include <elf.h>
#include <fmt/core.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

namespace dl::launcher {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kHead = 256;  // bytes that tell

std::string head_of(const std::string& path) {
  std::string head(kHead, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head;
}

struct Magic {
  std::string_view bytes;
  std::string_view what;
};
constexpr Magic kMagics[] = {
    {"\xfe\xed\xfa\xce"sv, "a program for macOS (Mach-O)"},
    {"\xfe\xed\xfa\xcf"sv, "a program for macOS (Mach-O)"},
    {"\xce\xfa\xed\xfe"sv, "a program for macOS (Mach-O)"},
    {"\xcf\xfa\xed\xfe"sv, "a program for macOS (Mach-O)"},
    {"\xca\xfe\xba\xbe"sv, "a Java class or a program for macOS (Mach-O)"},
    {"MZ"sv, "a program for Windows (PE)"},
    {"\0asm"sv, "a WebAssembly module"},
    {"PK\x03\x04"sv, "a zip or jar archive"},
    {"!<arch>\n"sv, "a library archive"},
    {"\x1f\x8b"sv, "compressed by gzip"},
    {"\xfd"
     "7zXZ"sv,
     "compressed by xz"},
    {"\x28\xb5\x2f\xfd"sv, "compressed by zstd"},
};

struct MachineName {
  int number;
  std::string_view name;
};
constexpr MachineName kMachines[] = {
    {EM_386, "x86 (32 bits)"}, {EM_X86_64, "x86_64"},    {EM_ARM, "arm (32 bits)"},
    {EM_AARCH64, "aarch64"},   {EM_PPC64, "ppc64"},      {EM_S390, "s390x"},
    {EM_RISCV, "riscv"},       {EM_IA_64, "ia64"},       {EM_MIPS, "mips"},
    {EM_SPARCV9, "sparc64"},   {EM_CUDA, "NVIDIA GPUs"}, {258, "loongarch"},
};

bool is_elf(std::string_view head) {
  return head.starts_with(
      "\x7f"
      "ELF"sv);
}

// The 16-bit number at `at`; -1 if the header ends before it.
int elf_half(std::string_view head, std::size_t at) {
  if (at + 2 > head.size()) return -1;
  const bool is_big = head[EI_DATA] == ELFDATA2MSB;
  const int first = static_cast<unsigned char>(head[at]);
  const int second = static_cast<unsigned char>(head[at + 1]);
  return is_big ? first * 256 + second : second * 256 + first;
}
int elf_type(std::string_view head) {
  return elf_half(head, EI_NIDENT);
}
int elf_machine(std::string_view head) {
  return elf_half(head, EI_NIDENT + 2);
}

std::string machine_name(std::string_view head) {
  const int number = elf_machine(head);
  for (const MachineName& machine : kMachines) {
    if (machine.number == number) return std::string(machine.name);
  }
  return fmt::format("machine number {}", number);
}

std::string this_machines_name() {
  utsname name{};
  return ::uname(&name) == 0 ? name.machine : "another";
}

std::string what_elf(std::string_view head) {
  if (elf_machine(head) < 0) return "it is an ELF file that ends within its header";
  if (elf_machine(head) != elf_machine(head_of("/proc/self/exe"))) {
    return fmt::format("it is an ELF program for {}, and this machine is {}", machine_name(head),
                       this_machines_name());
  }
  if (elf_type(head) == ET_REL) return "it is an object file that is not linked yet";
  return "it is an ELF program for this machine, but damaged or cut off";
}

// The first word after a script's `#!`; empty: none.
std::string interpreter_in(std::string_view head) {
  std::string_view line = head.substr(0, head.find('\n'));
  line.remove_prefix(std::min(line.find_first_not_of(" \t", 2), line.size()));
  return std::string(line.substr(0, line.find_first_of(" \t")));
}

}  // namespace

bool is_shell_text(const std::string& path) {
  if (!std::ifstream(path)) return false;
  const std::string head = head_of(path);
  if (head.starts_with("#!") || is_elf(head)) return false;
  const auto fits = [&head](const Magic& magic) { return head.starts_with(magic.bytes); };
  if (std::any_of(std::begin(kMagics), std::end(kMagics), fits)) return false;
  // Bash's rule for text: no zero byte in the first line.
  return std::string_view(head).substr(0, head.find('\n')).find('\0') == std::string_view::npos;
}

std::string why_not_executed(const std::string& path) {
  const std::string head = head_of(path);
  if (is_elf(head)) return what_elf(head);
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) return fmt::format("it is {}", magic.what);
  }
  if (!head.starts_with("#!")) return "it is neither a program for this machine nor a text";
  const std::string interpreter = interpreter_in(head);
  if (interpreter.empty()) return "its `#!` line names no interpreter";
  return fmt::format("its interpreter {} cannot be executed: {}", interpreter,
                     is_elf(head_of(interpreter)) ? what_elf(head_of(interpreter))
                                                  : "it is no program for this machine");
}

namespace {

// More than the kernel follows, should files change meanwhile.
constexpr int kMostInterpreters = 8;

std::string why_not_found(const std::string& path, int depth) {
  const std::string head = head_of(path);
  if (is_elf(head)) return "the dynamic linker that it names is not there (another libc?)";
  if (!head.starts_with("#!")) {
    return ::access("/bin/sh", F_OK) == 0
               ? "the program that runs this kind of file is not there"
               : "/bin/sh, which runs a text without a `#!` line, is not there";
  }
  const std::string interpreter = interpreter_in(head);
  if (interpreter.ends_with('\r')) {
    return fmt::format(
        "its interpreter `{}\\r` is not there: the file's lines end in CR LF, as on Windows; "
        "`sed -i 's/\\r$//' {}` ends them in LF",
        interpreter.substr(0, interpreter.size() - 1), path);
  }
  if (depth < kMostInterpreters && ::access(interpreter.c_str(), F_OK) == 0) {
    return fmt::format("its interpreter {} cannot be executed: {}", interpreter,
                       why_not_found(interpreter, depth + 1));
  }
  return fmt::format("its interpreter {} is not there", interpreter);
}

}  // namespace

std::string why_no_interpreter(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) return "it was there at the start, and is not there now";
  return why_not_found(path, 0);
}

}  // namespace dl::launcher
