#pragma once
// Everything, the device side included. Needs nvcc.
#include <lacuna/attention/attend_cuda.cuh>
#include <lacuna/exec/cuda_executor.cuh>
#include <lacuna/lacuna.hpp>
