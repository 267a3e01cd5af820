// H21: bf16/fp16 operands.
#include <cuda_bf16.h>
EC void k(const float*A,const float*B,float*C,int M,int N,int K){
  u32 i=gid(); if(i>=(u32)(M*N)) return; float s=0;
  for(int k=0;k<K;++k) s+=__bfloat162float(__float2bfloat16(A[(size_t)(i/N)*K+k]))*__bfloat162float(__float2bfloat16(B[(size_t)k*N+i%N]));
  C[i]=s;
}
