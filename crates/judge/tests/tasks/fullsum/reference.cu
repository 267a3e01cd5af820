// 256 threads add up slices in fp64, the first one adds up theirs.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const float* x, double* y_ref, double* y_bound, long long n) {
    __shared__ double totals[256], magnitudes[256];
    ww_sum total, magnitude;
    for (long long i = threadIdx.x; i < n - (WW_MUTANT == 1 && n > 1); i += 256) {
        total.add(ww_load(x, i));
        magnitude.add(fabs(ww_load(x, i)));
    }
    totals[threadIdx.x] = total.value();
    magnitudes[threadIdx.x] = magnitude.value();
    __syncthreads();
    if (threadIdx.x != 0) return;
    ww_sum all, size;
    for (int t = 0; t < 256; ++t) all.add(totals[t]), size.add(magnitudes[t]);
    y_ref[0] = all.value();
    y_bound[0] = 4.0 * sqrt((double)n) * size.value();
}
