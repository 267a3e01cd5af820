__device__ float block_sum(float v, float* partial) {
    partial[threadIdx.x] = v;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    float total = partial[0];
    __syncthreads();
    return total;
}

extern "C" __global__ void layer_norm_naive(const float* __restrict__ x,
                                            const float* __restrict__ weight,
                                            const float* __restrict__ bias, float* __restrict__ y,
                                            float eps, int cols) {
    __shared__ float partial[128];
    const float* in = x + (size_t)blockIdx.x * cols;
    float* out = y + (size_t)blockIdx.x * cols;

    float total = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) total += in[c];
    float mean = block_sum(total, partial) / cols;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 128) squares += (in[c] - mean) * (in[c] - mean);
    float scale = 1.0f / sqrtf(block_sum(squares, partial) / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 128) {
        out[c] = (in[c] - mean) * scale * weight[c] + bias[c];
    }
}
