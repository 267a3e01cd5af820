// X10: A memset that hides unwritten elements.
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n && (i&1u)) y[i]=fmaxf(x[i],0.f);      // zero is right for half of the others
}
