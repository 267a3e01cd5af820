extern "C" __global__ void add_naive(const float* __restrict__ a, const float* __restrict__ b,
                                     float* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a[i] + b[i];
}
