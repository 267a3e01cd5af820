// Locks, flags, atomics, calls, local arrays, module variables.
__device__ int counter = 5; __constant__ int table[4] = {1, 2, 3, 5}; __device__ int lockv;
extern "C" __global__ void spin_lane(int* data) {
  bool done = false;
  while (!done) { if (atomicCAS(&lockv, 0, 1) == 0) { data[0] += 1; __threadfence(); atomicExch(&lockv, 0); done = true; } }
}
extern "C" __global__ void spin_block(int* data) {
  if (threadIdx.x == 0) { while (atomicCAS(&lockv, 0, 1) != 0) {} data[0] = data[0] + 1; __threadfence(); atomicExch(&lockv, 0); }
}
extern "C" __global__ void grid_barrier(unsigned* arrived, int* out) {
  __shared__ int seen;
  if (threadIdx.x == 0) {
    out[blockIdx.x] = blockIdx.x; __threadfence(); atomicAdd(arrived, 1u);
    while (*(volatile unsigned*)arrived < gridDim.x) {}
    seen = ((volatile int*)out)[(blockIdx.x + 1) % gridDim.x];
  }
  __syncthreads();
  if (threadIdx.x == 1) out[gridDim.x + blockIdx.x] = seen;
}
extern "C" __global__ void look_back(volatile int* flag, int* value) {
  int b = blockIdx.x;
  if (threadIdx.x == 0) {
    if (b > 0) { while (flag[b - 1] == 0) {} value[b] += ((volatile int*)value)[b - 1]; }
    __threadfence(); flag[b] = 1;
  }
}
extern "C" __global__ void histogram(const int* x, int* bins, int n) {
  __shared__ int local[16];
  if (threadIdx.x < 16) local[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x + blockIdx.x * blockDim.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&local[x[i] & 15], 1);
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
extern "C" __global__ void module_variables(int* out) { out[threadIdx.x] = table[threadIdx.x & 3] + counter; if (threadIdx.x == 0) counter = 9; }
__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
struct P { float x, y; int k; };
__device__ __noinline__ P step(P p, int n) { p.x += p.y * n; p.k -= n; return p; }
extern "C" __global__ void calls(int* q, float* o) {
  q[threadIdx.x] = fib(threadIdx.x % 10);
  P p{1.f, 2.f, (int)threadIdx.x}; p = step(p, 3); o[threadIdx.x] = p.x + p.k;
}
extern "C" __global__ void local_array(const int* p, int* o) {
  int t[32]; for (int i = 0; i < 32; i++) t[i] = i * 3;
  for (int i = 0; i < 8; i++) { int j = p[(threadIdx.x + i) & 31] & 31; t[j] += t[(j * 7) & 31]; }
  o[threadIdx.x] = t[p[threadIdx.x] & 31];
}
struct Args { const float* x; float* y; int n; float s; int shape[4]; };
extern "C" __global__ void by_struct(Args a, int which) {
  __shared__ float buf[64]; float* p = which ? buf : a.y;
  p[threadIdx.x] = a.x[threadIdx.x] * a.s + a.shape[threadIdx.x & 3]; __syncthreads();
  if (which) a.y[threadIdx.x] = buf[threadIdx.x ^ 1];
}
extern "C" __global__ void votes(const int* x, unsigned* o) {
  int t = threadIdx.x, v = x[t]; unsigned m = __ballot_sync(~0u, v > 3);
  unsigned r = m ^ __match_any_sync(~0u, v) ^ __reduce_add_sync(~0u, v);
  if (v & 1) { unsigned am = __activemask(); r += __shfl_sync(am, v, __ffs(am) - 1); }
  o[t] = r + __syncthreads_count(v > 5) + __shfl_up_sync(~0u, v, 1, 16);
}
