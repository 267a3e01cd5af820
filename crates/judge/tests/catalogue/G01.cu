// G01: The output is the accumulator, written before it is read.
EC void k(const float*x,float*y,int R,int K){
  u32 r=gid();
  if(r>=(u32)R) return;
  y[r]=0.f;
  for(int j=0;j<K;++j) y[r]+=x[(size_t)r*K+j];
}
