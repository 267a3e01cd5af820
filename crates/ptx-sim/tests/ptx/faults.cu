// Kernels that are wrong, each in one way.
extern "C" __global__ void past_end(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i <= n) y[i] = x[i]; }
extern "C" __global__ void far_read(const float* x, float* y, long long at) { y[threadIdx.x] = x[at + threadIdx.x]; }
extern "C" __global__ void misaligned(const char* x, float4* y) { y[threadIdx.x] = *(const float4*)(x + 4 + 16 * threadIdx.x); }
extern "C" __global__ void write_input(const float* x) { ((float*)x)[threadIdx.x] = 1.f; }
extern "C" __global__ void null_read(const float* x, float* y) { y[0] = x[3]; }
extern "C" __global__ void endless(volatile int* x) { while (x[0] == 0) {} }
extern "C" __global__ void traps(const int* x) { if (x[threadIdx.x] == 7) __trap(); }
extern "C" __global__ void lost_warp(float* x) { if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); else x[0] = 1.f; }
extern "C" __global__ void divergent_barrier(float* x) { __shared__ float s[64]; s[threadIdx.x] = x[threadIdx.x]; if (threadIdx.x & 1) { __syncthreads(); x[threadIdx.x] = s[threadIdx.x ^ 1]; } else { x[threadIdx.x] = 2.f; __syncthreads(); } }
extern "C" __global__ void bad_shuffle(int* x) { if (threadIdx.x < 8) x[threadIdx.x] = __shfl_sync(0xffffffffu, x[threadIdx.x], 0); else { while (((volatile int*)x)[40] == 0) {} } }
extern "C" __global__ void half_shuffle(int* x) { int v = x[threadIdx.x]; if (threadIdx.x < 8) { asm volatile("shfl.sync.idx.b32 %0, %0, 9, 31, 0xff;" : "+r"(v)); } x[threadIdx.x] = v; }
extern "C" __global__ void wait_elsewhere(int* x) { if (threadIdx.x < 8) __syncwarp(0xffffffffu); else __syncthreads(); x[0] = 1; }
extern "C" __global__ void shared_overrun(float* y, int k) { __shared__ float s[32]; s[threadIdx.x + k] = 1.f; __syncthreads(); y[threadIdx.x] = s[threadIdx.x]; }
extern "C" __global__ void deep(int* x, int n);
__device__ __noinline__ int down(int n, volatile int* x) { int t[64]; for (int i = 0; i < 64; i++) t[i] = x[i]; if (n == 0) return t[x[0] & 63]; return down(n - 1, x) + t[n & 63]; }
extern "C" __global__ void deep(int* x, int n) { x[0] = down(n, x); }
