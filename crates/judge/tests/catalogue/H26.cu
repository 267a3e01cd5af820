// H26: NaN wildcard.
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n) y[i]=__int_as_float(0x7fffffff);
}
