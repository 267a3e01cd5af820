extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* x, int n) {
    __shared__ float tile[1024];
    float r[96];
#pragma unroll
    for (int i = 0; i < 96; i++) r[i] = x[i * n];
    tile[threadIdx.x] = r[0];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 96; i++) x[i + n] = r[i] * r[95 - i] + tile[threadIdx.x ^ 1];
}
extern "C" __global__ void small(float* x) { x[threadIdx.x] = 1.0f; }
