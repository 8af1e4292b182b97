// appendix_a: the listings of "Appendix A: Introduction to PyTorch", each in a file of its own.
//
//     appendix_a          # names them
//     appendix_a A.9      # runs one
#include "examples/appendix_a/listings.h"
#include "examples/support/listings.h"

namespace dl::examples::appendix_a {
namespace {

constexpr Listing kListings[] = {
    {"A.1", "tensors of no to three dimensions, their dtypes, shapes and products", tensors},
    {"A.2", "a logistic regression's forward pass", forward_pass},
    {"A.3", "its gradients, by grad() and by backward()", gradients},
    {"A.4", "a network with two hidden layers: printed, counted, called", network},
    {"A.5", "five training and two test samples", small_data},
    {"A.6", "a dataset of them", dataset},
    {"A.7", "loaders: two passes over the training set", loaders},
    {"A.8", "a loader that drops an incomplete last batch", loader_drops_last},
    {"A.9", "training in three epochs, and predictions", training},
    {"A.10", "the accuracy on both sets, and the model in a file", accuracy},
    {"A.11", "tensors and training on a GPU, or on the CPU if there is none", training_on_gpu},
    {"A.12", "the headers of A.13", headers_of_ranks},
    {"A.13", "training on a rank a GPU, or on two ranks of the CPU", training_on_ranks},
};

}  // namespace
}  // namespace dl::examples::appendix_a

int main(int argc, char** argv) {
  return dl::examples::run_listing("appendix_a", dl::examples::appendix_a::kListings, argc, argv);
}
