// X05: Which of equal values wins depends on the order of atomics.
EC void k(const float*x,float*y,int R,int K){
  u32 r=gid();
  if(r>=(u32)R) return;
  float m=x[(size_t)r*K];
  for(int j=1;j<K;++j) m=fmaxf(m,x[(size_t)r*K+j]);
  y[r]=m;
}
EC void find(const float*x,const float*y,int*index,int K){
  u32 j=gid(), r=blockIdx.y;
  if(j<(u32)K && x[(size_t)r*K+j]==y[r]) atomicExch(&index[r],(int)j);
}
