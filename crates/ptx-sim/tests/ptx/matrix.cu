// Products on tensor cores, fed as good kernels do it: two stages of asynchronous copies, ldmatrix, mma.
#include <cuda_fp16.h>
typedef unsigned u32;
__device__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void copy16(void* to, const void* from, bool inside) {
  int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes));
}
// C = A·B for row-major halves, K and N multiples of 8: 32 x 32 of C in each block of two warps.
extern "C" __global__ void hgemm(const half* A, const half* B, float* C, int M, int N, int K) {
  __shared__ __align__(16) half a[2][32][24], b[2][16][40];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, row0 = blockIdx.y * 32, column0 = blockIdx.x * 32;
  float c[4][4] = {};
  auto load = [&](int stage, int k0) {
    int r = threadIdx.x / 2, k = threadIdx.x % 2 * 8;
    copy16(&a[stage][r][k], A + (row0 + r) * K + k0 + k, row0 + r < M && k0 + k < K);
    int kb = threadIdx.x / 4, n = threadIdx.x % 4 * 8;
    copy16(&b[stage][kb][n], B + (k0 + kb) * N + column0 + n, k0 + kb < K && column0 + n < N);
    asm volatile("cp.async.commit_group;");
  };
  load(0, 0);
  for (int k0 = 0, stage = 0; k0 < K; k0 += 16, stage ^= 1) {
    load(stage ^ 1, k0 + 16);
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    u32 x[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(shared_address(&a[stage][warp * 16 + lane % 16][lane / 16 * 8])));
    for (int j = 0; j < 4; ++j) {
      u32 y[2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                   : "=r"(y[0]), "=r"(y[1]) : "r"(shared_address(&b[stage][lane % 16][j * 8])));
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
                   : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j)
    for (int i = 0; i < 4; ++i) {
      int r = row0 + warp * 16 + lane / 4 + i / 2 * 8, n = column0 + j * 8 + lane % 4 * 2 + i % 2;
      if (r < M && n < N) C[r * N + n] = c[j][i];
    }
}
