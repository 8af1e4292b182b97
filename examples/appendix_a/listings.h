// The listings of "Appendix A: Introduction to PyTorch" in C++, with its numbers.
//
// Each prints what the appendix prints from this listing to the next one.
// tests/examples/appendix_a/printed.txt lists every difference, with its reason.
#pragma once

namespace dl::examples::appendix_a {

void tensors();            // A.1
void forward_pass();       // A.2
void gradients();          // A.3
void network();            // A.4
void small_data();         // A.5
void dataset();            // A.6
void loaders();            // A.7
void loader_drops_last();  // A.8
void training();           // A.9
void accuracy();           // A.10
void training_on_gpu();    // A.11
void headers_of_ranks();   // A.12
void training_on_ranks();  // A.13

}  // namespace dl::examples::appendix_a
