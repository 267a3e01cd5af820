// One thread per expert looks at every token.
#include "reference.cuh"

#ifndef WW_MUTANT
#define WW_MUTANT 0
#endif

extern "C" __global__ void reference(const int* expert, const float* x, double* y_ref, double* y_bound,
                                     long long* count_ref, long long tokens, long long experts) {
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= experts) return;
    ww_sum total, magnitude;
    long long found = 0;
    for (long long t = 0; t < tokens - (WW_MUTANT == 1 && tokens > 1); ++t) {
        if (expert[t] != e) continue;
        total.add(ww_load(x, t));
        magnitude.add(fabs(ww_load(x, t)));
        found += 1;
    }
    y_ref[e] = total.value();
    y_bound[e] = 4.0 * sqrt((double)found) * magnitude.value();
    count_ref[e] = found;
}
