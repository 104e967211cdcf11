// expect: no matching function|no matching member function
// expect: Body
#include <lacuna/exec/host_executor.hpp>

#include <vector>

// A body travels to a GPU byte by byte, so it may not own anything.
struct owning {
  std::vector<int> numbers;
  std::size_t scratch_bytes() const { return 0; }
  template <class Team>
  void operator()(Team&, lacuna::index_t) const {}
};

void run(lacuna::host_executor const& exec, owning const& body) { exec.launch({.blocks = 1}, body).or_throw(); }
