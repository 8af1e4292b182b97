// training_loops: a loop that changes parameters by hand, and one with an optimizer.
#include "examples/support/listings.h"
#include "examples/training_loops/listings.h"

namespace dl::examples::training_loops {
namespace {

constexpr Listing kListings[] = {
    {"network", "the text's network, its parameters counted", network},
    {"manual", "fits a polynomial to a sine: param -= learning_rate * param.grad", manual_loop},
    {"rmsprop", "the same with RMSprop", rmsprop_loop},
};

}  // namespace
}  // namespace dl::examples::training_loops

int main(int argc, char** argv) {
  return dl::examples::run_listing("training_loops", dl::examples::training_loops::kListings, argc,
                                   argv);
}
