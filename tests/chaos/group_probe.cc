// A rank of a job that one rank spoils, told by its arguments:
//   throw RANK       it throws while the others wait for it in an all_reduce
//   differ RANK DIR  it calls something else, once the others have called their all_reduce
//   early RANK       it ends with 0 before the group is made
//   leave RANK       it leaves with 0 while the others wait for it in a barrier
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "collectives/init.h"
#include "core/base/error.h"

namespace {

using namespace std::chrono_literals;

std::array<float, 1000> values{};

dl::Ref<dl::collectives::Work> all_reduce() {
  return dl::default_group()->all_reduce(
      {.input = values.data(), .output = values.data(), .count = values.size()});
}

int differ(bool is_odd, const std::string& folder) {
  if (!is_odd) {
    const auto work = all_reduce();
    std::ofstream(folder + "/" + std::to_string(dl::rank()));
    work->synchronize();
    return 0;
  }
  const auto called = [&] {
    return std::distance(std::filesystem::directory_iterator(folder),
                         std::filesystem::directory_iterator());
  };
  while (called() < dl::world_size() - 1) std::this_thread::sleep_for(1ms);
  dl::default_group()->barrier({})->synchronize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  const std::string what = argv[1];
  const int odd = std::atoi(argv[2]);
  if (what == "early" && std::atoi(std::getenv("RANK")) == odd) return 0;
  dl::init_process_group();
  all_reduce()->synchronize();
  if (what == "differ") return differ(dl::rank() == odd, argv[3]);
  if (what == "leave" && dl::rank() == odd) return 0;
  if (what == "leave") dl::default_group()->barrier({})->synchronize();
  if (dl::rank() == odd) dl::throw_error(dl::ErrorKind::kParse, "train.bin: a broken record");
  all_reduce()->synchronize();
  return 0;
}
