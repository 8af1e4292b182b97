#include "launcher/slurm/hostlist.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/text/number.h"

namespace dl::launcher {
namespace {

constexpr std::size_t kLongestQuote = 200;
constexpr std::size_t kLongestName = 255;  // HOST_NAME_MAX is 64
constexpr std::size_t kMostDigits = 18;

[[noreturn]] void refuse_list(std::string_view what, std::string_view text, std::string_view why) {
  throw_error(ErrorKind::kParse, "`{}{}` is no {} of SLURM's: {}", text.substr(0, kLongestQuote),
              text.size() > kLongestQuote ? "..." : "", what, why);
}

std::optional<std::uint64_t> number_in(std::string_view digits) {
  return digits.size() > kMostDigits ? std::nullopt : read_number<std::uint64_t>(digits);
}

class HostlistReader {
 public:
  explicit HostlistReader(std::string_view text) : text_(text), rest_(text) {}

  std::vector<std::string> read() {
    for (;;) {
      read_item();
      if (rest_.empty()) return std::move(hosts_);
      rest_.remove_prefix(1);  // the comma that read_item() stopped at
    }
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const { refuse_list("list of hosts", text_, why); }

  // One name, or one pattern with any number of brackets, up to a comma or the end.
  void read_item() {
    std::vector<std::string> names = {""};
    while (!rest_.empty() && rest_.front() != ',') {
      if (rest_.front() == '[') {
        names = append_each(names, read_bracket());
      } else {
        const std::string_view plain = rest_.substr(0, rest_.find_first_of(",["));
        if (plain.find(']') != std::string_view::npos) refuse("a ] has no [");
        rest_.remove_prefix(plain.size());
        for (std::string& name : names) name += plain;
      }
    }
    for (std::string& name : names) {
      if (name.empty()) refuse("a name is empty");
      if (name.size() > kLongestName) refuse("a name has more than 255 bytes");
      hosts_.push_back(std::move(name));
    }
    if (hosts_.size() > kMostHosts) refuse("it has more than a million hosts");
  }

  std::vector<std::string> read_bracket() {
    const std::size_t end = rest_.find(']');
    if (end == std::string_view::npos) refuse("a [ has no ]");
    std::string_view inside = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    std::vector<std::string> numbers;
    for (;;) {
      const std::size_t comma = inside.find(',');
      read_range(inside.substr(0, comma), numbers);
      if (comma == std::string_view::npos) return numbers;
      inside.remove_prefix(comma + 1);
    }
  }

  void read_range(std::string_view range, std::vector<std::string>& numbers) const {
    const std::size_t dash = range.find('-');
    const std::string_view first = range.substr(0, dash);
    const std::string_view last = dash == std::string_view::npos ? first : range.substr(dash + 1);
    const auto from = number_in(first);
    const auto to = number_in(last);
    if (!from || !to) refuse("in brackets there are numbers and ranges like 1-3");
    if (*from > *to) refuse("a range goes downwards");
    if (*to - *from >= kMostHosts - numbers.size()) refuse("it has more than a million hosts");
    for (std::uint64_t i = *from; i <= *to; ++i) {
      std::string digits = std::to_string(i);
      if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
      numbers.push_back(std::move(digits));
    }
  }

  std::vector<std::string> append_each(const std::vector<std::string>& names,
                                       const std::vector<std::string>& ends) const {
    if (names.size() * ends.size() > kMostHosts) refuse("it has more than a million hosts");
    std::vector<std::string> all;
    all.reserve(names.size() * ends.size());
    for (const std::string& name : names) {
      if (name.size() > kLongestName) refuse("a name has more than 255 bytes");
      for (const std::string& end : ends) all.push_back(name + end);
    }
    return all;
  }

  std::string_view text_;
  std::string_view rest_;
  std::vector<std::string> hosts_;
};

}  // namespace

std::vector<std::string> expand_hostlist(std::string_view text) {
  return HostlistReader(text).read();
}

std::vector<int> expand_counts(std::string_view text) {
  constexpr std::uint64_t kMostCount = 1'000'000'000;
  std::vector<int> counts;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    std::string_view item = rest.substr(0, comma);
    std::uint64_t times = 1;
    if (const std::size_t open = item.find("(x"); open != std::string_view::npos) {
      const bool closes = item.back() == ')';
      const auto said = closes ? number_in(item.substr(open + 2, item.size() - open - 3))
                               : std::optional<std::uint64_t>();
      if (!said || *said == 0) refuse_list("list of counts", text, "wanted one like 8(x2),4");
      times = *said;
      item = item.substr(0, open);
    }
    const auto count = number_in(item);
    if (!count || *count > kMostCount) {
      refuse_list("list of counts", text, "wanted one like 8(x2),4");
    }
    if (times > kMostHosts - counts.size()) {
      refuse_list("list of counts", text, "it has more than a million nodes");
    }
    counts.insert(counts.end(), times, static_cast<int>(*count));
    if (comma == std::string_view::npos) return counts;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace dl::launcher
