// several_devices: a model on several devices, in four ways.
#include "examples/several_devices/listings.h"
#include "examples/support/listings.h"

namespace dl::examples::several_devices {
namespace {

constexpr Listing kListings[] = {
    {"two_devices", "a model whose two layers are on two devices", two_devices},
    {"mixed_precision", "autocast and GradScaler", mixed_precision},
    {"pipeline", "the two layers as a pipeline of two chunks", pipeline},
    {"data_parallel", "DistributedDataParallel on two ranks", data_parallel},
};

}  // namespace
}  // namespace dl::examples::several_devices

int main(int argc, char** argv) {
  return dl::examples::run_listing("several_devices", dl::examples::several_devices::kListings,
                                   argc, argv);
}
