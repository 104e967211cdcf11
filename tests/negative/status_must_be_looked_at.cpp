// expect: nodiscard
#include <lacuna/exec/host_executor.hpp>

#pragma GCC diagnostic error "-Wunused-result"
void forget(lacuna::host_executor const& exec) { exec.synchronize(); }
