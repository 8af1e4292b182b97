#include "nn/data/datasets/image_folder.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/tensor/factories.h"

namespace dl::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kImages[] = {".jpg", ".jpeg", ".png"};
constexpr std::string_view kImagesOfTorchvision[] = {".ppm", ".bmp",  ".pgm",
                                                     ".tif", ".tiff", ".webp"};

bool ends_with_one(std::string name, std::span<const std::string_view> suffixes) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::any_of(suffixes, [&](std::string_view s) { return name.ends_with(s); });
}

// The paths of all images below `folder`, sorted by their folder's path, then by their name.
std::vector<std::string> images_below(const fs::path& folder) {
  constexpr int kMostFolders = 64;
  std::vector<std::pair<std::string, std::string>> found;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink),
       end;
       at != end; ++at) {
    DL_CHECK(at.depth() < kMostFolders, kIo,
             "ImageFolder: {} lies more than {} folders deep; does a link lead to a folder above?",
             at->path().string(), kMostFolders);
    if (at->is_directory()) continue;
    const std::string name = at->path().filename().string();
    DL_CHECK(!ends_with_one(name, kImagesOfTorchvision), kNotImplemented,
             "ImageFolder: {} is of a kind that is not read; wanted .jpg, .jpeg or .png",
             at->path().string());
    if (ends_with_one(name, kImages)) found.emplace_back(at->path().parent_path().string(), name);
  }
  std::ranges::sort(found);
  std::vector<std::string> paths;
  for (const auto& [parent, name] : found) paths.push_back(fmt::format("{}/{}", parent, name));
  return paths;
}

}  // namespace

Tensor read_image(const std::string& path, PictureLimits limits) {
  const Picture picture = read_picture(path, limits);
  const Tensor image = empty({3, picture.height, picture.width}, {.dtype = DType::kU8});
  std::ranges::copy(picture.pixels, static_cast<std::byte*>(image.data_ptr()));
  return image;
}

ImageFolder::ImageFolder(const std::string& root, ImageFolderOptions options)
    : options_(std::move(options)) {
  try {
    DL_CHECK(fs::is_directory(root), kNotFound, "ImageFolder: there is no folder {}", root);
    for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
      if (entry.is_directory()) classes_.push_back(entry.path().filename().string());
    }
    std::ranges::sort(classes_);
    DL_CHECK(!classes_.empty(), kNotFound,
             "ImageFolder: there is no folder in {}, wanted one for each class", root);
    std::vector<std::string> without;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      const std::vector<std::string> paths = images_below(fs::path(root) / classes_[c]);
      for (const std::string& path : paths) {
        files_.push_back({.path = path, .target = static_cast<std::int64_t>(c)});
      }
      if (paths.empty()) without.push_back(classes_[c]);
    }
    DL_CHECK(without.empty(), kNotFound,
             "ImageFolder: {} has no .jpg, .jpeg or .png file for the classes {}", root,
             fmt::join(without, ", "));
  } catch (const fs::filesystem_error& error) {
    throw_errno(error.code().value(), fmt::format("ImageFolder: read {}", error.path1().string()));
  }
}

Sample ImageFolder::get(std::int64_t index) const {
  DL_CHECK(index >= 0 && index < size(), kIndex, "ImageFolder: there is no sample {} among {}",
           index, size());
  const File& file = files_[static_cast<std::size_t>(index)];
  const Tensor image = read_image(file.path, options_.limits);
  return {options_.transform ? options_.transform(image) : image, tensor(file.target)};
}

}  // namespace dl::data
