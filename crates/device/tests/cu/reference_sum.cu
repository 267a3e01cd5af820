#include <reference.cuh>

template <class T>
__global__ void reference_dot(const T* x, const T* y, double* out, long long n) {
    ww_sum sum;
    for (long long i = 0; i < n; i++) sum.add_product(ww_load(x, i), ww_load(y, i));
    out[0] = sum.value();
}
