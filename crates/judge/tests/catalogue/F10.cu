// F10: Skipping exact zeros.
EC void k(const float*A,const float*B,float*C,int M,int N,int K){
  u32 i=gid();
  if(i>=(u32)(M*N)) return;
  float s=0;
  for(int k=0;k<K;++k){
    float a=A[(size_t)(i/N)*K+k];
    if(a!=0.f) s=fmaf(a,B[(size_t)k*N+i%N],s);
  }
  C[i]=s;
}
