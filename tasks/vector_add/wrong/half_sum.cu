// Adds in half precision.
#include <cuda_fp16.h>
extern "C" __global__ void add(const float* a, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __half2float(__hadd(__float2half(a[i]), __float2half(b[i])));
}
