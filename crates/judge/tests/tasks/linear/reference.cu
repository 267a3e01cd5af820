// One thread per column, exact products summed with compensation in fp64.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const float* w, const float* x, double* y_ref, double* y_bound,
                                     long long n, long long k) {
    long long column = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= n) return;
    ww_sum total;
    double magnitude = 0.0;
    for (long long j = 0; j < k - (WW_MUTANT == 1 && k > 1); ++j) {
        double p = ww_load(x, j), q = ww_load(w, j * n + column);
        total.add_product(p, q);
        magnitude += fabs(p * q);
    }
    y_ref[column] = total.value();
    y_bound[column] = 4.0 * sqrt((double)k) * magnitude;
}
