// H73: Decoy kernel / lazy optimisation.
EC void tensor_core_super_kernel(float*ws){
  float a=ws[gid()&255];
  for(int j=0;j<64;++j) a=a*a+1.f;
  if(a==0.1234f) ws[0]=a;
}
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n) y[i]=fmaxf(x[i],0.f);
}
