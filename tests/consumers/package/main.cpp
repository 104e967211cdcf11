#include <lacuna/version.hpp>

int main() { return lacuna::version == lacuna::version_number{0, 1, 0} ? 0 : 1; }
