// F11: In-place operation, declared.
EC void k(float*x,float*y,int n){
  u32 i=gid();
  if(i>=(u32)n) return;
  x[i]=fmaxf(x[i],0.f);                            // in place, as plan and task say
  y[i]=x[i];
}
