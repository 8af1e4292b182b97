// All that a training program uses, in one header: #include <dlrun.h>
//
//     dl::init_process_group();
//     const dl::Tensor x = dl::ones({4});
//     dl::collectives::all_reduce(*dl::default_group(), x)->wait();
//     std::cout << x << "\n";  // tensor([2., 2., 2., 2.]) on two ranks
//
// A program that wants less includes the headers below one by one; their paths are the same in the
// source tree and where dlrun is installed. dlrun::nn is what they need; a program that calls
// init_process_group() links dlrun::init, one that trains with several ranks dlrun::parallel, and
// one that calls collectives on its own tensors dlrun::tensor_collectives.
#pragma once

#include "collectives/checkpoint.h"
#include "collectives/init.h"
#include "collectives/tensor_api.h"
#include "core/autocast/autocast.h"
#include "core/autograd/grad_mode.h"
#include "core/autograd/gradcheck.h"
#include "core/autograd/leaf.h"
#include "core/base/error.h"
#include "core/base/version.h"
#include "core/device/cuda/cuda.h"
#include "core/device/math_flags.h"
#include "core/device/parallel.h"
#include "core/memory/allocator.h"
#include "core/memory/cuda/cuda_memory.h"
#include "core/ops/activation.h"
#include "core/ops/arithmetic.h"
#include "core/ops/conv.h"
#include "core/ops/index.h"
#include "core/ops/linear.h"
#include "core/ops/loss.h"
#include "core/ops/reduce.h"
#include "core/ops/softmax.h"
#include "core/random/generator.h"
#include "core/random/tensor_random.h"
#include "core/tensor/factories.h"
#include "core/tensor/print.h"
#include "core/tensor/tensor.h"
#include "nn/amp/grad_scaler.h"
#include "nn/data/combine.h"
#include "nn/data/data_loader.h"
#include "nn/data/dataset.h"
#include "nn/data/readers/idx.h"
#include "nn/data/readers/images.h"
#include "nn/data/sampler.h"
#include "nn/data/tensor_dataset.h"
#include "nn/functional/functional.h"
#include "nn/layers/activation.h"
#include "nn/layers/conv.h"
#include "nn/layers/dropout.h"
#include "nn/layers/linear.h"
#include "nn/layers/pool.h"
#include "nn/layers/shape.h"
#include "nn/models/book_cnn.h"
#include "nn/models/mlp.h"
#include "nn/module/init.h"
#include "nn/module/module.h"
#include "nn/module/sequential.h"
#include "nn/optim/adam.h"
#include "nn/optim/lr_scheduler/one_cycle.h"
#include "nn/optim/lr_scheduler/reduce_on_plateau.h"
#include "nn/optim/lr_scheduler/schedules.h"
#include "nn/optim/lr_scheduler/sequential.h"
#include "nn/optim/sgd.h"
#include "nn/parallel/capture_step.h"
#include "nn/parallel/distributed.h"
#include "nn/serialize/safetensors.h"
