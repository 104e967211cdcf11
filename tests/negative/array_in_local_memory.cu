// The cuda preset's own flags: an array that is indexed by a run-time value lands in local memory and fails the build.
// expect: error.*Local memory used
__global__ void run_time_index(float* p, int n) {
  float value[16];
  for (int i = 0; i < 16; ++i) value[i] = p[i];
  for (int i = 0; i < n; ++i) value[static_cast<int>(p[i + 20]) & 15] += p[i];
  for (int i = 0; i < 16; ++i) p[i] = value[i];
}
