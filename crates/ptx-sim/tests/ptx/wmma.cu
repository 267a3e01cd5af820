// Tiles by wmma in every format, shape and layout of theirs.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <mma.h>
// One tile of C = A·B by wmma, through shared memory for A; D = C + C element by element.
template <bool rows> struct Layout { typedef nvcuda::wmma::row_major type; };
template <> struct Layout<false> { typedef nvcuda::wmma::col_major type; };
template <class T, class S, class C, int m, int n, int k, bool a_rows, bool b_rows>
__device__ void tile(const S* A, const S* B, C* out, int K, int lda, int ldb) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) S staged[1024];
  fragment<matrix_a, m, n, k, T, typename Layout<a_rows>::type> a;
  fragment<matrix_b, m, n, k, T, typename Layout<b_rows>::type> b;
  fragment<accumulator, m, n, k, C> c;
  fill_fragment(c, C(0));
  for (int k0 = 0; k0 < K; k0 += k) {
    const S* from = A + (a_rows ? k0 : k0 * lda);
    const int width = a_rows ? k : m;
    for (int i = threadIdx.x; i < m * k; i += 32) staged[i] = from[i / width * lda + i % width];
    __syncwarp();
    load_matrix_sync(a, staged, width);
    load_matrix_sync(b, B + (b_rows ? k0 * ldb : k0), ldb);
    mma_sync(c, a, b, c);
    __syncwarp();
  }
  for (int i = 0; i < c.num_elements; ++i) c.x[i] = c.x[i] + c.x[i];
  store_matrix_sync(out, c, n, mem_row_major);
}
const bool row_major = true, col_major = false;
extern "C" __global__ void wmma_f16(const half* A, const half* B, float* C, int K, int lda, int ldb) {
  tile<half, half, float, 16, 16, 16, row_major, col_major>(A, B, C, K, lda, ldb);
}
extern "C" __global__ void wmma_f16_f16(const half* A, const half* B, half* C, int K, int lda, int ldb) {
  tile<half, half, half, 32, 8, 16, col_major, row_major>(A, B, C, K, lda, ldb);
}
extern "C" __global__ void wmma_bf16(const __nv_bfloat16* A, const __nv_bfloat16* B, float* C, int K, int lda, int ldb) {
  tile<__nv_bfloat16, __nv_bfloat16, float, 8, 32, 16, row_major, row_major>(A, B, C, K, lda, ldb);
}
extern "C" __global__ void wmma_s8(const signed char* A, const signed char* B, int* C, int K, int lda, int ldb) {
  tile<signed char, signed char, int, 16, 16, 16, row_major, col_major>(A, B, C, K, lda, ldb);
}
extern "C" __global__ void wmma_tf32(const float* A, const float* B, float* C, int K, int lda, int ldb) {
  tile<nvcuda::wmma::precision::tf32, float, float, 16, 16, 8, row_major, row_major>(A, B, C, K, lda, ldb);
}
extern "C" __global__ void wmma_f64(const double* A, const double* B, double* C, int K, int lda, int ldb) {
  tile<double, double, double, 8, 8, 4, row_major, col_major>(A, B, C, K, lda, ldb);
}
