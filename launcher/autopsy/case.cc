#include "launcher/autopsy/case.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/base/system/unique_fd.h"
#include "launcher/output/logs/log_folder.h"

namespace dl::launcher::autopsy {
namespace {

namespace fs = std::filesystem;
namespace record = collectives::record;

// A header with more ranks than this is damaged.
constexpr int kMostRanks = 1 << 20;

// Reads at most the size of a recorder. Sets `why` if the path is no readable file.
std::vector<std::byte> read_whole(const std::string& path, std::string& why) {
  // open() must not wait, whatever the path names.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat file{};
  if (!fd || ::fstat(fd.get(), &file) != 0) {
    why = std::strerror(errno);
    return {};
  }
  if (!S_ISREG(file.st_mode)) {
    why = "it is no plain file";
    return {};
  }
  std::vector<std::byte> bytes(record::kBytes);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(fd.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) why = std::strerror(errno);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace

void Case::add(std::span<const std::byte> bytes, const std::string& what) {
  std::string why;
  std::optional<record::RankFacts> facts = record::parse(bytes, why);
  if (facts && facts->world_size > kMostRanks) {
    facts.reset();
    why = "its header is damaged";
  }
  if (facts && !ranks.empty()) {
    const record::RankFacts& first = ranks.front();
    if (facts->job != first.job || facts->world_size != first.world_size ||
        facts->generation != first.generation) {
      why = fmt::format("it is of another run: job {}, {} ranks, generation {}", facts->job,
                        facts->world_size, facts->generation);
      facts.reset();
    } else if (find(facts->rank) != nullptr) {
      why = fmt::format("there is a recorder of rank {} already", facts->rank);
      facts.reset();
    }
  }
  if (!facts) {
    unusable.push_back({what, why});
    return;
  }
  const auto after = std::upper_bound(ranks.begin(), ranks.end(), facts->rank,
                                      [](int rank, const auto& r) { return rank < r.rank; });
  ranks.insert(after, std::move(*facts));
}

void Case::add_path(const std::string& path) {
  std::vector<std::string> files;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (fs::directory_iterator at(newest_attempt(path), error), end; !error && at != end;
         at.increment(error)) {
      const fs::path file = at->path() / record::kFileName;
      std::error_code ignored;
      if (fs::exists(fs::symlink_status(file, ignored))) files.push_back(file);
    }
    std::sort(files.begin(), files.end());
    if (error) unusable.push_back({path, error.message()});
    if (!error && files.empty()) {
      unusable.push_back({path, fmt::format("it holds no RANK/{}; dlrun writes them to --log-dir "
                                            "when a job fails, or when it gets SIGUSR1",
                                            record::kFileName)});
    }
  } else {
    files.push_back(path);
  }
  for (const std::string& file : files) {
    std::string why;
    const std::vector<std::byte> bytes = read_whole(file, why);
    if (why.empty()) {
      add(bytes, file);
    } else {
      unusable.push_back({file, why});
    }
  }
}

const record::RankFacts* Case::find(int rank) const noexcept {
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank,
                                   [](const auto& r, int wanted) { return r.rank < wanted; });
  return at == ranks.end() || at->rank != rank ? nullptr : &*at;
}

std::vector<int> Case::absent() const {
  std::vector<int> missing;
  for (int rank = 0; rank < world_size(); ++rank) {
    if (find(rank) == nullptr) missing.push_back(rank);
  }
  return missing;
}

}  // namespace dl::launcher::autopsy
