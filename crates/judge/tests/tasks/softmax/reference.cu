// One thread per row, three passes in fp64.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const float* x, double* y_ref, double* y_bound,
                                     long long rows, long long cols) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + row * cols;
    double largest = ww_load(in, 0), smallest = largest;
    for (long long c = 1; c < cols; ++c) {
        double v = ww_load(in, c);
        largest = v > largest || v != v ? v : largest;
        smallest = v < smallest ? v : smallest;
    }
    ww_sum total;
    for (long long c = 0; c < cols - (WW_MUTANT == 1 && cols > 1); ++c) {
        total.add(exp(ww_load(in, c) - largest));
    }
    double scale = 8.0 * (sqrt((double)cols) + (largest - smallest)) + 0.5 * cols;
    for (long long c = 0; c < cols; ++c) {
        double y = exp(ww_load(in, c) - largest) / (WW_MUTANT == 2 ? 1.0 : total.value());
        y_ref[row * cols + c] = y;
        // What underflows is rounded more than once: four of the smallest steps in units of 2^-24.
        y_bound[row * cols + c] = scale * y + 0x1p-123;
    }
}
