// Ordinary single-precision kernels: elementwise, matmul, softmax, reductions.
extern "C" __global__ void saxpy(const float* __restrict__ x, float* __restrict__ y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void copy4(const float4* __restrict__ x, float4* __restrict__ y, int n4) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n4) y[i] = x[i];
}
extern "C" __global__ void matmul_naive(const float* A, const float* B, float* C, int M, int N, int K) {
  int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= M || col >= N) return;
  float acc = 0.f;
  for (int k = 0; k < K; ++k) acc += A[(size_t)row * K + k] * B[(size_t)k * N + col];
  C[(size_t)row * N + col] = acc;
}
#define T 16
extern "C" __global__ void matmul_tiled(const float* A, const float* B, float* C, int M, int N, int K) {
  __shared__ float As[T][T], Bs[T][T];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
  float acc = 0.f;
  for (int k0 = 0; k0 < K; k0 += T) {
    As[ty][tx] = (row < M && k0 + tx < K) ? A[(size_t)row * K + k0 + tx] : 0.f;
    Bs[ty][tx] = (k0 + ty < K && col < N) ? B[(size_t)(k0 + ty) * N + col] : 0.f;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < T; k++) acc += As[ty][k] * Bs[k][tx];
    __syncthreads();
  }
  if (row < M && col < N) C[(size_t)row * N + col] = acc;
}
__device__ __forceinline__ float wmax(float v) { for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_xor_sync(~0u, v, o)); return v; }
__device__ __forceinline__ float wsum(float v) { for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o); return v; }
extern "C" __global__ void softmax_warp(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) >> 5, lane = threadIdx.x & 31;
  if (row >= rows) return;
  const float* r = in + (size_t)row * cols; float* o = out + (size_t)row * cols;
  float m = __int_as_float(0xff800000); for (int c = lane; c < cols; c += 32) m = fmaxf(m, r[c]);
  m = wmax(m); float s = 0; for (int c = lane; c < cols; c += 32) s += expf(r[c] - m);
  s = wsum(s); float inv = 1.0f / s;
  for (int c = lane; c < cols; c += 32) o[c] = expf(r[c] - m) * inv;
}
extern "C" __global__ void block_sum(const float* __restrict__ x, float* __restrict__ out, int n) {
  extern __shared__ float part[];
  float v = 0; for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) v += x[i];
  for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = v;
  __syncthreads();
  if (threadIdx.x < 32) {
    v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0.f;
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x == 0) atomicAdd(out, v);
  }
}
extern "C" __global__ void softmax_f64(const float* x, double* out, double* norm, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double m = -1e300, s = 0, q = 0;
  for (int c = 0; c < cols; ++c) m = fmax(m, (double)x[row * cols + c]);
  for (int c = 0; c < cols; ++c) { double e = exp((double)x[row * cols + c] - m); s += e; q += e * e; }
  for (int c = 0; c < cols; ++c) out[row * cols + c] = exp((double)x[row * cols + c] - m) / s;
  norm[row] = sqrt(q);
}
extern "C" __global__ void collatz(const int* n, int* steps, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  unsigned v = n[i]; int s = 0;
  while (v != 1) { v = v & 1 ? 3 * v + 1 : v >> 1; ++s; }
  steps[i] = s;
}
extern "C" __global__ void gelu(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) { float v = x[i]; y[i] = 0.5f * v * (1.f + erff(v * 0.70710678f)) + tanhf(v) + logf(fabsf(v) + 1.f) + sinf(v); }
}
