// One thread per row, two passes in fp64 with compensated sums.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void layer_norm_reference(const float* x, const float* weight,
                                                const float* bias, double* y_ref, double* y_bound,
                                                float eps, long long rows, long long cols) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + row * cols;
    ww_sum total;
    for (long long c = 0; c < cols; ++c) total.add(ww_load(in, c));
    double mean = total.value() / cols;
    ww_sum squares;
    for (long long c = 0; c < cols; ++c) {
        double d = ww_load(in, c) - mean;
        squares.add(d * d);
    }
    double deviation = sqrt(squares.value() / (cols - (WW_MUTANT == 1)) + (double)eps);
    for (long long c = 0; c < cols; ++c) {
        double w = ww_load(weight, c), b = ww_load(bias, c);
        double normal = (ww_load(in, c) - (WW_MUTANT == 2 ? 0.0 : mean)) / deviation;
        y_ref[row * cols + c] = normal * w + b;
        // An offset mean costs fp32 its leading digits; an error of the deviation grows with the
        // element.
        double scale = 1.0 + fabs(mean) / deviation + fabs(normal);
        y_bound[row * cols + c] = 256.0 * scale * fabs(w) + 4.0 * fabs(b);
    }
}
