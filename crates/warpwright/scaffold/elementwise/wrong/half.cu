// Computes in half precision: far less accurate than the class that its plan declares.
// REPLACE the formula, as in the other kernels of this folder: right but for one slip.
#include <cuda_fp16.h>
extern "C" __global__ void softsign(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half v = __float2half(x[i]);
    y[i] = __half2float(__hdiv(v, __hadd(__float2half(1.0f), __habs(v))));
}
