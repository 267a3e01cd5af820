// One thread per row, three passes in fp64: slow and plainly right.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void softmax_reference(const float* x, double* y_ref, double* y_bound,
                                             long long rows, long long cols) {
    long long row = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* in = x + row * cols;

    double largest = ww_load(in, 0);
    double smallest = largest;
    for (long long c = 1; c < cols; ++c) {
        double v = ww_load(in, c);
        largest = v > largest || v != v ? v : largest;
        // What is masked with -inf adds no error.
        bool smaller = v < smallest || isinf(smallest);
        smallest = smaller && !isinf(v) ? v : smallest;
    }
    double spread = isinf(smallest) ? 0.0 : largest - smallest;

    ww_sum total;
    for (long long c = 0; c < cols - (WW_MUTANT == 1 && cols > 1); ++c) total.add(exp(ww_load(in, c) - largest));

    // The error of an fp32 softmax grows with the sum's length and with the exponent's size.
    // Of equal terms, one after the other, every sum is rounded the same way.
    double scale = 8.0 * (sqrt((double)cols) + spread) + 0.5 * cols;
    for (long long c = 0; c < cols; ++c) {
        double y = exp(ww_load(in, c) - largest) / (WW_MUTANT == 2 ? 1.0 : total.value());
        y_ref[row * cols + c] = y;
        // What underflows is rounded more than once: four of the smallest steps in units of 2^-24.
        y_bound[row * cols + c] = scale * y + 0x1p-123;
    }
}
