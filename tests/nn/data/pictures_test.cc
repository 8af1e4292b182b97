// Image files and folders of them, against Pillow and torchvision (tests/parity/make_arrays.py,
// pictures()).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "core/base/error.h"
#include "nn/data/data_loader.h"
#include "nn/data/datasets/image_folder.h"
#include "nn/data/readers/picture.h"
#include "tests/nn/data/bytes.h"
#include "tests/parity/arrays.h"

namespace dl::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const parity::Arrays& pillow() {
  static const parity::Arrays arrays("pictures");
  return arrays;
}

Bytes file_of(const std::string& name) {
  return pillow().get<std::byte>(name + ".file");
}

// Whether this build refuses the file's kind; the refusal is checked then.
bool is_left_out(const std::string& name) {
  const bool jpeg = name.starts_with("jpeg");
  if (jpeg ? can_read_jpeg() : can_read_png()) return false;
  EXPECT_THAT([&] { decode_picture(file_of(name), "f"); },
              ThrowsMessage<Error>(
                  HasSubstr(jpeg ? "f is a JPEG file, and dlrun was built without libjpeg"
                                 : "f is a PNG file, and dlrun was built without libpng")));
  return true;
}

TEST(Picture, HasPillowsColours) {
  int read = 0;
  for (const std::string& name : pillow().names()) {
    if (name.ends_with(".file") || is_left_out(name)) continue;
    const Picture picture = decode_picture(file_of(name), name);
    ASSERT_THAT(pillow().shape(name), ElementsAre(3, picture.height, picture.width)) << name;
    const auto wanted = pillow().get<std::uint8_t>(name);
    // Versions of libjpeg-turbo round colours differently.
    const int tolerance = name.starts_with("jpeg") ? 2 : 0;
    EXPECT_EQ(picture.warnings > 0, name.starts_with("jpeg_warned")) << name;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_LE(std::abs(std::to_integer<int>(picture.pixels[i]) - wanted[i]), tolerance)
          << name << " " << i;
    }
    ++read;
  }
  EXPECT_EQ(read, 11 * can_read_png() + 14 * can_read_jpeg());
}

std::string refusal(const Bytes& bytes, PictureLimits limits = {}) {
  try {
    decode_picture(bytes, "f", limits);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

Bytes cut(const std::string& name, std::size_t bytes) {
  Bytes file = file_of(name);
  file.resize(file.size() - bytes);
  return file;
}

TEST(Picture, IsRefusedIfTheFileIsDamagedOrTooLarge) {
  EXPECT_EQ(refusal(bytes_of({'G', 'I', 'F'})), "f is neither a JPEG nor a PNG file");
  EXPECT_EQ(refusal({}), "f is neither a JPEG nor a PNG file");
  if (!is_left_out("png_rgb")) {
    EXPECT_EQ(
        refusal(file_of("png_bomb")),
        "f is truncated: it announces 30000000000 bytes of pixels, there can be at most 67080");
    EXPECT_EQ(refusal(file_of("png_large")),
              "f is truncated: it announces 300000000 bytes of pixels, there can be at most 67080");
    EXPECT_EQ(refusal(file_of("png_rgb"), {.max_pixels = 116}),
              "f announces 13 x 9 pixels, wanted 1 to 116 in all");
    EXPECT_EQ(refusal(cut("png_rgb", 30)), "f is a damaged PNG file: it ends too early");
    EXPECT_EQ(refusal(cut("png_rgb", file_of("png_rgb").size() - 20)),
              "f is a damaged PNG file: it ends too early");
  }
  if (!is_left_out("jpeg_rgb")) {
    EXPECT_EQ(refusal(file_of("jpeg_bomb")),
              "f announces 65500 x 65500 pixels, wanted 1 to 178956970 in all");
    // The size stands behind the marker of the frame, its length and its precision.
    Bytes large = file_of("jpeg_rgb");
    const Bytes frame = bytes_of({0xFF, 0xC0});
    const auto size = std::ranges::search(large, frame).begin() + 5;
    std::ranges::copy(bytes_of({0x34, 0x41, 0x34, 0x41}), size);
    EXPECT_EQ(refusal(large), "f announces 13377 x 13377 pixels, its " +
                                  std::to_string(large.size()) + " bytes can hold at most " +
                                  std::to_string(512 * large.size()));
    // Pillow calls these truncated, too: the last marker counts.
    const std::size_t whole = file_of("jpeg_rgb").size();
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{2}, std::size_t{40}, whole - 10}) {
      EXPECT_EQ(refusal(cut("jpeg_rgb", bytes)), "f is a damaged JPEG file: it ends too early");
    }
    EXPECT_EQ(refusal(cut("jpeg_progressive", 2)), "f is a damaged JPEG file: it ends too early");
    // A warning that comes first does not hide it.
    EXPECT_EQ(refusal(cut("jpeg_warned_other_restart", 20)),
              "f is a damaged JPEG file: it ends too early");
  }
}

ErrorKind kind_of_refusal(const Bytes& bytes) {
  try {
    decode_picture(bytes, "f");
  } catch (const Error& error) {
    return error.kind();
  }
  return ErrorKind::kInternal;
}

// skip_corrupt leaves out damaged files, and must not leave out these without a word.
TEST(Picture, IsNotCalledDamagedIfItsKindIsNotRead) {
  if (is_left_out("jpeg_rgb")) return;
  EXPECT_THAT(refusal(file_of("jpeg_fractions")),
              HasSubstr("f is a JPEG file of a kind that is not read (Fractional sampling"));
  EXPECT_EQ(kind_of_refusal(file_of("jpeg_fractions")), ErrorKind::kNotImplemented);
  Bytes two = file_of("jpeg_grey");  // its frame with a second component
  const Bytes frame = bytes_of({0xFF, 0xC0});
  const auto at = std::ranges::search(two, frame).begin();
  at[3] = std::byte{14};
  at[9] = std::byte{2};
  two.insert(at + 13, at + 10, at + 13);
  EXPECT_THAT(refusal(two), HasSubstr("f is a JPEG file with 2 colour components"));
  EXPECT_EQ(kind_of_refusal(two), ErrorKind::kNotImplemented);
}

TEST(Picture, CountsFilesThatLibjpegWarnsOfAndNamesTheFirst) {
  if (is_left_out("jpeg_rgb")) return;
  const std::int64_t before = pictures_with_warnings();
  testing::internal::CaptureStderr();
  decode_picture(file_of("jpeg_warned_extraneous_end"), "first.jpg");
  decode_picture(file_of("jpeg_warned_extraneous_end"), "second.jpg");
  decode_picture(file_of("jpeg_rgb"), "third.jpg");
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(pictures_with_warnings(), before + 2);
  EXPECT_THAT(said, testing::Not(HasSubstr("second.jpg")));
  if (before > 0) return;  // another test had the first
  EXPECT_THAT(said, HasSubstr("first.jpg: libjpeg warns \"Corrupt JPEG data: "));
  EXPECT_THAT(said, HasSubstr("extraneous bytes before marker 0xd9\""));
}

// Any change of bytes, and any cut, gives a picture or an error that names the file.
TEST(Picture, AnyDamageIsAPictureOrAnError) {
  std::mt19937 random(1);
  int refused = 0;
  for (const char* name :
       {"png_rgb", "png_palette_transparent", "png_interlaced", "jpeg_rgb", "jpeg_progressive"}) {
    if (is_left_out(name)) continue;
    const Bytes whole = file_of(name);
    for (int i = 0; i < 300; ++i) {
      Bytes file = whole;
      for (std::uint32_t n = random() % 4; n-- > 0;)
        file[random() % file.size()] = static_cast<std::byte>(random());
      if (random() % 4 == 0) file.resize(random() % file.size());
      try {
        const Picture picture = decode_picture(file, "the file", {.max_pixels = 1 << 20});
        EXPECT_EQ(picture.pixels.size(),
                  static_cast<std::size_t>(3 * picture.height * picture.width));
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("the file"));
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 100 * (can_read_png() + can_read_jpeg()));
}

class ImageFolderTest : public testing::Test {
 protected:
  std::string write(const std::string& path, const std::string& name) const {
    return dir_.write(path, file_of(name));
  }
  std::string path(const std::string& name) const { return dir_.path() + "/" + name; }

  TemporaryDirectory dir_;
};

TEST_F(ImageFolderTest, HasTorchvisionsClassesAndOrder) {
  // torchvision.datasets.ImageFolder of the same tree.
  for (const char* file : {"dog/b.png", "dog/a.JPG", "dog/sub/0.png", "dog-like/x.jpeg",
                           "Cat/2.png", "Cat/10.png", "dog/notes.txt"}) {
    write(file, "png_rgb");
  }
  dir_.write("a file beside.png", {});
  const ImageFolder folder(dir_.path());
  EXPECT_THAT(folder.classes(), ElementsAre("Cat", "dog", "dog-like"));
  std::vector<std::string> files;
  std::vector<std::int64_t> targets;
  for (const ImageFolder::File& file : folder.files()) {
    files.push_back(file.path.substr(dir_.path().size() + 1));
    targets.push_back(file.target);
  }
  EXPECT_THAT(files, ElementsAre("Cat/10.png", "Cat/2.png", "dog/a.JPG", "dog/b.png",
                                 "dog/sub/0.png", "dog-like/x.jpeg"));
  EXPECT_THAT(targets, ElementsAre(0, 0, 1, 1, 1, 2));
}

TEST_F(ImageFolderTest, GivesImagesThroughATransform) {
  if (is_left_out("png_rgb")) return;
  write("a/1.png", "png_rgb");
  write("b/1.jpg", "png_grey");  // the first bytes say what it is
  const ImageFolder plain(dir_.path());
  EXPECT_EQ(plain.get(0)[0].sizes(), Shape({3, 9, 13}));
  EXPECT_EQ(plain.get(0)[0].at<std::uint8_t>({1, 8, 0}), 8 * 28);
  namespace tf = transforms;
  const ImageFolder folder(dir_.path(),
                           {.transform = tf::Compose({tf::Resize({4, 4}), tf::ToTensor()})});
  for (const int workers : {0, 2}) {
    int batches = 0;
    for (auto& [x, y] : DataLoader(folder, {.batch_size = 2, .num_workers = workers})) {
      EXPECT_EQ(x.sizes(), Shape({2, 3, 4, 4}));
      EXPECT_EQ(x.dtype(), DType::kF32);
      EXPECT_EQ(y.at<std::int64_t>({1}), 1);
      ++batches;
    }
    EXPECT_EQ(batches, 1);
  }
}

TEST_F(ImageFolderTest, NamesTheFileThatIsCorruptAndSkipsItIfAskedTo) {
  if (is_left_out("png_rgb")) return;
  write("a/1.png", "png_rgb");
  const std::string corrupt = dir_.write("a/2.png", cut("png_rgb", 30));
  write("a/3.png", "png_rgb");
  const ImageFolder folder(dir_.path());
  EXPECT_THAT([&] { DataLoader(folder, {.batch_size = 3}).epoch().next(); },
              ThrowsMessage<Error>("sample 1 (batch 0): " + corrupt +
                                   " is a damaged PNG file: it ends too early"));
  const DataLoader loader(folder, {.batch_size = 3, .num_workers = 1, .skip_corrupt = true});
  EXPECT_EQ(loader.epoch().next()->size(), 2);
  EXPECT_EQ(loader.skipped(), 1);
  std::filesystem::remove(corrupt);  // a file that is gone is no corrupt one
  EXPECT_THAT([&] { loader.epoch().next(); },
              ThrowsMessage<Error>(HasSubstr("No such file or directory")));
}

TEST_F(ImageFolderTest, SaysWhatIsWrongWithAFolder) {
  EXPECT_THAT([&] { ImageFolder{path("none")}; },
              ThrowsMessage<Error>("ImageFolder: there is no folder " + path("none")));
  EXPECT_THAT([&] { ImageFolder{dir_.path()}; },
              ThrowsMessage<Error>("ImageFolder: there is no folder in " + dir_.path() +
                                   ", wanted one for each class"));
  write("a/1.png", "png_rgb");
  dir_.write("b/notes.txt", {});
  dir_.write("c/notes.txt", {});
  EXPECT_THAT([&] { ImageFolder{dir_.path()}; },
              ThrowsMessage<Error>("ImageFolder: " + dir_.path() +
                                   " has no .jpg, .jpeg or .png file for the classes b, c"));
  dir_.write("b/1.webp", {});
  EXPECT_THAT([&] { ImageFolder{dir_.path()}; },
              ThrowsMessage<Error>("ImageFolder: " + path("b/1.webp") +
                                   " is of a kind that is not read; wanted .jpg, .jpeg or .png"));
  std::filesystem::remove(path("b/1.webp"));
  std::filesystem::create_directory_symlink(dir_.path(), path("a/above"));
  EXPECT_THAT([&] { ImageFolder{dir_.path()}; },
              ThrowsMessage<Error>(HasSubstr("does a link lead to a folder above?")));
  const ImageFolder empty_class = [&] {
    std::filesystem::remove(path("a/above"));
    write("b/1.png", "png_rgb"), write("c/1.png", "png_rgb");
    return ImageFolder(dir_.path());
  }();
  EXPECT_THAT([&] { empty_class.get(3); },
              ThrowsMessage<Error>("ImageFolder: there is no sample 3 among 3"));
}

}  // namespace
}  // namespace dl::data
