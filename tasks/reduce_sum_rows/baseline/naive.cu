extern "C" __global__ void sum_naive(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float partial[64];
    const float* in = x + (size_t)blockIdx.x * cols;
    float total = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 64) total += in[c];
    partial[threadIdx.x] = total;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = partial[0];
}
