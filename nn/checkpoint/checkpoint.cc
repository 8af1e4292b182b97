#include "nn/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/log/log.h"
#include "core/base/system/atomic_file.h"
#include "core/base/system/unique_fd.h"
#include "core/base/text/number.h"
#include "core/tensor/factories.h"
#include "nn/checkpoint/folder_lock.h"
#include "nn/serialize/input_file.h"
#include "nn/serialize/safetensors.h"

namespace dl::nn {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kSaving = ".saving-";      // is being written
constexpr std::string_view kRemoving = ".removing-";  // is being removed
constexpr const char* kDescription = "checkpoint.json";
constexpr int kFormat = 1;
constexpr std::uint64_t kMaxDescription = 64 << 20;

class Sha256 {
 public:
  void add(std::span<const std::byte> bytes) {
    ok_ = ok_ && EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1;
  }
  std::string hex() {
    std::array<unsigned char, 32> hash{};
    ok_ = ok_ && EVP_DigestFinal_ex(context_.get(), hash.data(), nullptr) == 1;
    DL_CHECK(ok_, kInternal, "OpenSSL could not compute a SHA-256");
    return fmt::format("{:02x}", fmt::join(hash, ""));
  }

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_{EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free};
  bool ok_ = context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1;
};

std::string sha256_of(const InputFile& file) {
  Sha256 hash;
  std::vector<std::byte> bytes(std::size_t{1} << 20);
  for (std::uint64_t at = 0; at < file.size();) {
    const std::size_t some = std::min<std::uint64_t>(bytes.size(), file.size() - at);
    file.read_at(at, std::span(bytes).first(some));
    hash.add(std::span(bytes).first(some));
    at += some;
  }
  return hash.hex();
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

void check_leads_somewhere(const fs::path& path) {
  std::error_code none;
  DL_CHECK(!fs::is_symlink(path, none) || fs::exists(path, none), kNotFound,
           "{} is a link, and what it names is not there", path.string());
}

// The names in a folder; empty if there is no folder.
std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename());
  }
  if (error == std::errc::no_such_file_or_directory) {
    check_leads_somewhere(path);
  } else if (error) {
    throw_errno(error.value(), fmt::format("read {}", path));
  }
  return names;
}

// The number of a name "<prefix><digits>".
std::optional<std::int64_t> numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = name.substr(prefix.size());
  if (digits.empty()) return std::nullopt;
  const std::size_t first = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  return read_number<std::int64_t>(digits.substr(first));
}

void sync_folder(const std::string& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) throw_errno(errno, fmt::format("sync {}", path));
}

bool is_folder(const fs::path& path) {
  std::error_code none;
  return fs::is_directory(path, none);
}

// Makes the folder and its parents, and syncs their names to disk.
void make_folder(const fs::path& path) {
  if (path.empty() || is_folder(path)) return;
  make_folder(path.parent_path());
  if (::mkdir(path.c_str(), 0777) != 0 && (errno != EEXIST || !is_folder(path))) {
    check_leads_somewhere(path);
    throw_errno(errno, fmt::format("make {}", path.string()));
  }
  sync_folder(path.has_parent_path() ? path.parent_path().string() : ".");
}

void rename_folder(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    throw_errno(errno, fmt::format("rename {} to {}", from, to));
  }
}

void remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_errno(error.value(), fmt::format("remove {}", path));
}

// Removes an old folder; a failure is only logged, because the new checkpoint is saved already.
template <typename Remove>
void warn_if_it_fails(const Remove& remove) {
  try {
    remove();
  } catch (const Error& error) {
    log::warning("an old checkpoint stays: {}", error.what());
  }
}

void check_part_name(const std::string& name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  };
  DL_CHECK(!name.empty() && name.size() <= 100 && name.front() != '.' &&
               std::ranges::all_of(name, is_allowed),
           kInvalidArgument,
           "save a checkpoint: a part is called {}, wanted a-z, 0-9, '_', '-' and '.'",
           shown_name(name));
}

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:012}", kStepPrefix, step);
}

std::string file_of(const std::string& part) {
  return part + ".safetensors";
}

// Adds a checksum over the rest of the description's text.
std::string sealed(Json description) {
  description["sha256"] = sha256_of(description.dump());
  return description.dump(2) + "\n";
}

Json read_description(const std::string& path) {
  const InputFile file(path);
  DL_CHECK(file.size() <= kMaxDescription, kParse, "{} has {} bytes, wanted at most {}", path,
           file.size(), kMaxDescription);
  std::string text(file.size(), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  Json description = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  DL_CHECK(description.is_object() && description.contains("sha256") &&
               description["sha256"].is_string(),
           kParse, "{} is no description of a checkpoint", path);
  const std::string sum = description["sha256"];
  description.erase("sha256");
  DL_CHECK(sha256_of(description.dump(-1, ' ', false, Json::error_handler_t::replace)) == sum,
           kParse, "{} is damaged: its SHA-256 is another than it says", path);
  return description;
}

}  // namespace

const StateDict& Checkpoint::part(const std::string& name) const {
  const auto found = parts.find(name);
  DL_CHECK(found != parts.end(), kNotFound, "the checkpoint of step {} has no part {}", step,
           shown_name(name));
  return found->second;
}

std::int64_t Checkpoint::number(const std::string& name) const {
  const auto found = numbers.find(name);
  DL_CHECK(found != numbers.end(), kNotFound, "the checkpoint of step {} has no number {}", step,
           shown_name(name));
  return found->second;
}

CheckpointDir::CheckpointDir(std::string path, CheckpointOptions options)
    : path_(std::move(path)), options_(options) {
  DL_CHECK(options_.keep >= 1, kInvalidArgument,
           "CheckpointDir: keep is {}, wanted at least 1 checkpoint", options_.keep);
  DL_CHECK(!path_.empty(), kInvalidArgument, "CheckpointDir: the folder has no name");
}

std::string CheckpointDir::folder_of(std::int64_t step) const {
  return fmt::format("{}/{}", path_, step_name(step));
}

std::vector<std::int64_t> CheckpointDir::steps() const {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(path_)) {
    const auto step = numbered(name, kStepPrefix);
    if (step && *step >= 0 && name == step_name(*step)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

void CheckpointDir::save(const Checkpoint& checkpoint) const {
  const std::string target = folder_of(checkpoint.step);
  DL_CHECK(checkpoint.step >= 0, kInvalidArgument, "save a checkpoint: its step is {}",
           checkpoint.step);
  for (const auto& [name, state] : checkpoint.parts) check_part_name(name);
  make_folder(path_);
  const FolderLock lock(path_, "save a checkpoint", options_.timeout);
  std::error_code none;
  DL_CHECK(!fs::exists(target, none), kInvalidArgument,
           "save a checkpoint: {} is there already{}; is this the folder of another run, or do "
           "several processes save? Let one of them save, as rank 0",
           target,
           lock.other().empty() ? "" : fmt::format(", and {} saves here, too", lock.other()));
  std::string aside = fmt::format("{}/{}{}", path_, kSaving, checkpoint.step);
  if (lock.is_held()) {
    remove_leftovers();
  } else {
    // Another process may be saving too: use a unique folder name and leave other folders alone.
    aside += fmt::format(".{}.{:x}", ::getpid(), std::random_device()());
  }
  remove_folder(aside);
  make_folder(aside);
  try {
    write_aside(checkpoint, aside);
    rename_folder(aside, target);
  } catch (...) {
    fs::remove_all(aside, none);  // an incomplete checkpoint would only fill the disk
    throw;
  }
  sync_folder(path_);
  remove_old();
}

// Removes what a killed process left.
void CheckpointDir::remove_leftovers() const {
  for (const std::string& name : names_in(path_)) {
    if (numbered(name, kSaving) || numbered(name, kRemoving)) {
      warn_if_it_fails([&] { remove_folder(fmt::format("{}/{}", path_, name)); });
    }
  }
}

void CheckpointDir::write_aside(const Checkpoint& checkpoint, const std::string& aside) const {
  Json files = Json::object();
  for (const auto& [name, state] : checkpoint.parts) {
    const std::string file = fmt::format("{}/{}", aside, file_of(name));
    save_safetensors(file, state);
    const InputFile written(file);
    files[file_of(name)] = {{"bytes", written.size()}, {"sha256", sha256_of(written)}};
  }
  std::string description;
  try {
    description = sealed({{"format", kFormat},
                          {"step", checkpoint.step},
                          {"files", files},
                          {"numbers", checkpoint.numbers},
                          {"texts", checkpoint.texts}});
  } catch (const Json::exception&) {
    throw_error(ErrorKind::kInvalidArgument, "save {}: a name or a text is not UTF-8",
                folder_of(checkpoint.step));
  }
  // The last file; committing it syncs the names of all files to disk.
  AtomicFile file(fmt::format("{}/{}", aside, kDescription));
  file.write(std::as_bytes(std::span(description)));
  file.commit();
}

void CheckpointDir::remove_old() const {
  const std::vector<std::int64_t> all = steps();
  const auto keep = static_cast<std::size_t>(options_.keep);
  for (std::size_t i = 0; i + keep < all.size(); ++i) {
    warn_if_it_fails([&] {
      // Rename before removing: under its own name a checkpoint is always complete.
      const std::string going = fmt::format("{}/{}{}", path_, kRemoving, all[i]);
      rename_folder(folder_of(all[i]), going);
      remove_folder(going);
    });
  }
}

Checkpoint CheckpointDir::load(std::int64_t step) const {
  const std::string folder = folder_of(step);
  const std::string about = fmt::format("{}/{}", folder, kDescription);
  const Json description = read_description(about);
  Checkpoint checkpoint{.step = step};
  std::map<std::string, std::pair<std::uint64_t, std::string>> files;
  try {
    DL_CHECK(description.at("format") == kFormat, kParse, "{} is of format {}, wanted {}", about,
             description.at("format").dump(), kFormat);
    DL_CHECK(description.at("step") == step, kParse, "{} is of step {}, wanted {}", about,
             description.at("step").dump(), step);
    description.at("numbers").get_to(checkpoint.numbers);
    description.at("texts").get_to(checkpoint.texts);
    for (const auto& [name, file] : description.at("files").items()) {
      files[name] = {file.at("bytes").get<std::uint64_t>(), file.at("sha256").get<std::string>()};
    }
  } catch (const Json::exception& error) {
    throw_error(ErrorKind::kParse, "{} is no description of a checkpoint: {}", about, error.what());
  }
  for (const auto& [name, sum] : files) {
    constexpr std::string_view kEnd = ".safetensors";
    DL_CHECK(name.ends_with(kEnd) && name.find('/') == std::string::npos, kParse,
             "{} names the file {}, which is no part of a checkpoint", about, shown_name(name));
    const std::string path = fmt::format("{}/{}", folder, name);
    const InputFile file(path);
    DL_CHECK(file.size() == sum.first, kParse, "{} is damaged: it has {} bytes, wanted {}", path,
             file.size(), sum.first);
    DL_CHECK(sha256_of(file) == sum.second, kParse,
             "{} is damaged: its SHA-256 is another than {} says", path, kDescription);
    checkpoint.parts[name.substr(0, name.size() - kEnd.size())] =
        std::move(load_safetensors(path).tensors);
  }
  return checkpoint;
}

std::optional<Checkpoint> CheckpointDir::load_latest() const {
  const std::vector<std::int64_t> all = steps();
  if (all.empty()) return std::nullopt;
  return load(all.back());
}

StateDict random_state(const Generator& generator) {
  const std::vector<std::byte> bytes = generator.state();
  Tensor stream = empty({static_cast<std::int64_t>(bytes.size())}, {.dtype = DType::kU8});
  std::memcpy(stream.data_ptr(), bytes.data(), bytes.size());
  return {{"stream", stream},
          {"philox_offset", tensor(generator.philox_offset(), {.dtype = DType::kU64})}};
}

void load_random_state(Generator& generator, const StateDict& state) {
  const Tensor* const stream = find(state, "stream");
  const Tensor* const offset = find(state, "philox_offset");
  DL_CHECK(stream != nullptr && stream->dtype() == DType::kU8 && offset != nullptr &&
               offset->dtype() == DType::kU64 && offset->numel() == 1,
           kNotFound, "load_random_state: the state has no stream or no philox_offset");
  const Tensor bytes = stream->contiguous();
  generator.set_state({static_cast<const std::byte*>(bytes.data_ptr()), bytes.nbytes()});
  generator.set_philox_offset(offset->item<std::uint64_t>());
}

}  // namespace dl::nn
