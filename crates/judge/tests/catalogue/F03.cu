// F03: Accumulating output with a declared, timed memset.
EC void k(const float*A,const float*B,float*C,int M,int N,int K){   // C zeroed by a declared memset step
  u32 i=gid();
  if(i>=(u32)(M*N)) return;
  int per=(K+gridDim.y-1)/gridDim.y, k0=blockIdx.y*per, k1=min(K,k0+per);
  float s=0;
  for(int k=k0;k<k1;++k) s=fmaf(A[(size_t)(i/N)*K+k],B[(size_t)k*N+i%N],s);
  atomicAdd(&C[i],s);
}
