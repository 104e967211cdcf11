// The cuda preset's own flags: nvcc's warnings fail the build.
// expect: error #20014-D
struct host_only {
  int size() const { return 1; }
};

template <class T>
__host__ __device__ int size_of(T const& t) {
  return t.size();
}

__global__ void device_code(int* p) { *p = size_of(host_only{}); }
