// One thread per row, two passes in fp64 with compensated sums.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const float* x, const float* w, const float* b, double* y_ref,
                                     double* y_bound, long long rows, long long cols) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + row * cols;
    ww_sum total, squares;
    for (long long c = 0; c < cols; ++c) total.add(ww_load(in, c));
    double mean = total.value() / cols;
    for (long long c = 0; c < cols; ++c) {
        double d = ww_load(in, c) - mean;
        squares.add(d * d);
    }
    double deviation = sqrt(squares.value() / (cols - (WW_MUTANT == 1)) + 1e-5);
    for (long long c = 0; c < cols; ++c) {
        double normal = (ww_load(in, c) - (WW_MUTANT == 2 ? 0.0 : mean)) / deviation;
        double scale = 1.0 + fabs(mean) / deviation + fabs(normal);
        y_ref[row * cols + c] = normal * ww_load(w, c) + ww_load(b, c);
        y_bound[row * cols + c] = 256.0 * scale * fabs(ww_load(w, c)) + 4.0 * fabs(ww_load(b, c));
    }
}
