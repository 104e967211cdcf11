#pragma once

/// One static library of this program, compiled for its own list of architectures.
struct part {
  void const* kernel;          // the launcher of the body that run() launches
  int (*run)(bool& has_code);  // the __CUDA_ARCH__ that ran, in hundreds: 800, 900
};

part portable();  // 80 with PTX
part hopper();    // 90a-real
