// Four ways to use several devices, after a tutorial on several GPUs: on GPUs if there are any,
// else on the CPU. All use SimpleModel = Linear(10, 10), inputs and targets of [32, 10], MSELoss
// and SGD(lr=0.001).
#pragma once

namespace dl::examples::several_devices {

void two_devices();
void mixed_precision();
void pipeline();
void data_parallel();

}  // namespace dl::examples::several_devices
