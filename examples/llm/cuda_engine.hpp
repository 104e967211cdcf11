#pragma once

#include <memory>
#include <string>

#include <lacuna/exec/host_executor.hpp>

#include "engine.hpp"
#include "gguf.hpp"

namespace llm {

/// Why there can be no CUDA engine: not built (no_cuda_engine.cpp stands in for it), or no GPU that it was built for. Empty if there can.
std::string why_no_cuda();

/// The engine on the current GPU: products by cuBLAS, attention by lacuna, weights, keys and values in bf16. `exec` expands the weights.
/// Throws llm::error if the file is not a model of a known architecture or why_no_cuda() is not empty; the file may be closed afterwards.
std::unique_ptr<engine> make_cuda_engine(gguf_view const& file, lacuna::host_executor const& exec);

}  // namespace llm
