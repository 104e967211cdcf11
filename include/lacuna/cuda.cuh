#pragma once
#include <lacuna/exec/cuda_executor.cuh>
