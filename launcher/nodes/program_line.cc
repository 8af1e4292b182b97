#include "launcher/nodes/node_link.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace dl::launcher {
namespace {

std::string last_part(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

// python3.11: python. Hosts may have it under different names.
std::string without_version(std::string name) {
  name.erase(name.find_last_not_of("0123456789.") + 1);
  return name;
}

bool is_python(std::string_view name) {
  return name == "python" || name == "pypy";
}

bool is_interpreter(std::string_view name) {
  constexpr std::array<std::string_view, 10> kNames = {"python", "pypy", "sh",   "bash", "dash",
                                                       "zsh",    "ksh",  "perl", "ruby", "julia"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// `sh -c 'exec ./train'`, `perl -e ...`
char text_flag_of(std::string_view interpreter) {
  return interpreter == "perl" || interpreter == "ruby" || interpreter == "julia" ? 'e' : 'c';
}

// A program that executes the program after its own arguments.
struct Wrapper {
  std::string_view name;
  std::string_view with_value;  // letters of options whose value may be the next word
  int operands;                 // words before the program
};
constexpr Wrapper kWrappers[] = {{"env", "uC", 0},       {"nice", "n", 0},     {"nohup", "", 0},
                                 {"setsid", "", 0},      {"stdbuf", "ioe", 0}, {"ionice", "cn", 0},
                                 {"timeout", "ks", 1},   {"taskset", "", 1},   {"chrt", "", 1},
                                 {"numactl", "iNCmp", 0}};

bool is_assignment(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals != std::string_view::npos && equals > 0;
}

// The index in `words` of the program that runs in the end.
std::size_t behind_wrappers(const std::vector<std::string>& words) {
  std::size_t at = 0;
  for (;;) {
    const std::string name = last_part(words[at]);
    const auto wrapper = std::find_if(std::begin(kWrappers), std::end(kWrappers),
                                      [&](const Wrapper& known) { return known.name == name; });
    if (wrapper == std::end(kWrappers)) return at;
    std::size_t next = at + 1;
    while (next < words.size() && words[next].starts_with('-')) {
      const std::string& option = words[next++];
      if (option == "--") break;
      const bool takes_next =
          option.size() == 2 && wrapper->with_value.find(option[1]) != std::string_view::npos;
      if (takes_next) ++next;
    }
    if (name == "env") {
      while (next < words.size() && is_assignment(words[next])) ++next;
    }
    next += static_cast<std::size_t>(wrapper->operands);
    if (next >= words.size()) return at;  // it runs nothing
    at = next;
  }
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_-./=:,@%+").find(c) != std::string_view::npos ||
         static_cast<unsigned char>(c) >= 0x80;
}

}  // namespace

std::string line_of(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) {
      if (c == '\'') {
        line += "'\\''";
      } else {
        line += c;
      }
    }
    line += '\'';
  }
  return line;
}

std::string base_name_of(const std::vector<std::string>& line) {
  const std::vector<std::string> words(
      line.begin() + static_cast<std::ptrdiff_t>(behind_wrappers(line)), line.end());
  std::string name = last_part(words.front());
  std::string interpreter = without_version(name);
  if (!is_interpreter(interpreter)) return name;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with('-')) return last_part(word);
    if (is_python(interpreter) && word == "-m" && i + 1 < words.size()) return words[i + 1];
    if (is_python(interpreter) && (word == "-W" || word == "-X")) {
      ++i;
    } else if (!word.starts_with("--") && word.find(text_flag_of(interpreter)) != word.npos) {
      break;  // the program is the next word's text
    }
  }
  return interpreter;
}

}  // namespace dl::launcher
