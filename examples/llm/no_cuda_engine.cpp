#include "cuda_engine.hpp"
#include "error.hpp"

// Linked in the place of cuda_engine.cu where there is no nvcc or no cuBLAS.

namespace llm {

std::string why_no_cuda() { return "CUDA engine not built; this program runs on the host"; }

std::unique_ptr<engine> make_cuda_engine(gguf_view const&, lacuna::host_executor const&) { throw error(why_no_cuda()); }

}  // namespace llm
