// C04: A data-dependent shortcut that one-hot data would show (H34 and D7).
EC void k(const float*x,float*y,int R,int K){
  u32 r=gid();
  if(r>=(u32)R) return;
  const float*p=x+(size_t)r*K;
  bool empty=true;                                 // looks at sixteen elements for the whole row
  for(int j=0;j<16;++j) empty=empty && p[(size_t)j*K/16]==0.f;
  if(empty && K>64){ y[r]=0.f; return; }
  float s=0;
  for(int j=0;j<K;++j) s+=p[j];
  y[r]=s;
}
