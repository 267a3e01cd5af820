// H24: Unstable algorithm.
EC void k(const float*x,float*y,int R,int K){
  u32 r=gid(); if(r>=(u32)R) return; const float*p=x+(size_t)r*K; float s=0;
  for(int j=0;j<K;++j) s+=__expf(p[j]);                 // overflows for p > 88
  for(int j=0;j<K;++j) y[(size_t)r*K+j]=__expf(p[j])/s;
}
