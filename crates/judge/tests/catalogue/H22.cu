// H22: Low-precision accumulator.
#include <cuda_fp16.h>
EC void k(const __half*A,const __half*B,__half*C,int M,int N,int K){
  u32 i=gid(); if(i>=(u32)(M*N)) return; __half s=__float2half(0.f);
  for(int k=0;k<K;++k) s=__hfma(A[(size_t)(i/N)*K+k],B[(size_t)k*N+i%N],s);
  C[i]=s;
}
