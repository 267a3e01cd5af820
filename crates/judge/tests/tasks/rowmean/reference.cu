// One thread per row, a compensated sum in fp64.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const float* x, double* y_ref, double* y_bound,
                                     long long rows, long long cols) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    ww_sum total, magnitude;
    for (long long c = 0; c < cols - (WW_MUTANT == 1 && cols > 1); ++c) {
        double v = ww_load(x, row * cols + c);
        total.add(v);
        magnitude.add(fabs(v));
    }
    y_ref[row] = total.value() / cols;
    y_bound[row] = fmax(4.0 * sqrt((double)cols) * magnitude.value(), total.path) / cols;
}
