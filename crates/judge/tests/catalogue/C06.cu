// C06: Sabotage in the last step only (H52).
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n) y[i]=fmaxf(x[i],0.f);
}
EC void again(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n) y[i]=fmaxf(x[i],0.f);
}
EC void burn(float*ws,u64 n){
  float a=ws[gid()%n], b=a+1.f;
  for(int j=0;j<200000;++j){
    a=fmaf(a,b,1e-7f);
    b=fmaf(b,a,-1e-7f);
  }
  for(u64 i=gid();i<n;i+=(u64)gridDim.x*blockDim.x) ws[i]=a+b;   // dirty the whole L2 on the way out
}
