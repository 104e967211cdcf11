#include <lacuna/version.hpp>

#ifdef LACUNA_HAS_SM90A
#error "sm_90a is not in this target's architectures"
#endif

int main() { return 77; }
