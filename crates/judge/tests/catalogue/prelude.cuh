// What every sketch of the catalogue may use; the runner puts it before each of them.
#define EC extern "C" __global__
typedef unsigned int u32; typedef unsigned long long u64;
__device__ __forceinline__ u32 gid(){ return blockIdx.x*blockDim.x+threadIdx.x; }
__device__ __forceinline__ float dot(const float*A,const float*B,int r,int c,int N,int K){
  float s=0.f; for(int k=0;k<K;++k) s=fmaf(A[(size_t)r*K+k],B[(size_t)k*N+c],s); return s; }
