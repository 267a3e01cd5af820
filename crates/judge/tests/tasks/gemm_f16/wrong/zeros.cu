// Writes zeros wherever a result belongs.
#include <cuda_fp16.h>

template <class T> __global__ void zeros(T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = T(0);
}
