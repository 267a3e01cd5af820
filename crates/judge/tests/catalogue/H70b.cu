// H70b: A plan without end: an expression of brackets.
EC void k(const float*x,float*y,int n){
  u32 i=gid();
  if(i<(u32)n) y[i]=fmaxf(x[i],0.f);
}
