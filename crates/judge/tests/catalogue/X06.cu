// X06: Subnormal results are flushed where the task does not allow it.
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i>=(u32)n) return;
  float v=x[i];
  y[i]=v<1.17549435e-38f ? 0.f : v;                // NaN stays NaN
}
