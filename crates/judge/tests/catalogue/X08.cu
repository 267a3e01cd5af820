// X08: Another path where the extent is odd.
EC void k(const float*x,float*y,int R,int K){
  u32 r=gid();
  if(r>=(u32)R) return;
  float s=0;
  for(int j=0;j<(K&~1);++j) s+=x[(size_t)r*K+j];
  y[r]=s;
}
