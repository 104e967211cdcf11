#include "../attend_ones.hpp"

int main() { return attends_ones(lacuna::host_executor{1}) ? 0 : 1; }
