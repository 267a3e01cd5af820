// G05: Checks its own launch with `assert`, which never fires.
EC void k(const float*x,float*y,int*index,int R,int K){
  assert(blockDim.x==64 && K>0);
  u32 r=gid();
  if(r>=(u32)R) return;
  int best=0;
  for(int j=1;j<K;++j) if(x[(size_t)r*K+j]>x[(size_t)r*K+best]) best=j;
  y[r]=x[(size_t)r*K+best];
  index[r]=best;
}
